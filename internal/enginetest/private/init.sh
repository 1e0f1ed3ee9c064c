# Process 1 of the namespaces of a daemon of the tests' own: bash, which reaps orphans
# while it reads. It ends with its stdin, and then the kernel ends everything that was
# ever started here and takes the mounts and the network away.
#
# $1 is the directory that the host sees, and $2 a script to run first; what follows is
# the daemon's command line.
set -eu
dir=$1
beside=$2
shift 2

# No process can see another's here, and no signal can leave.
mount -t proc proc /proc
[ $$ = 1 ] && [ -d /proc/1 ]

# What the machine's engines have mounted would be held by this copy of it.
while read -r _ target _; do
	case $target in
	/run/* | /var/lib/docker/* | /var/lib/containers/*) umount --lazy "$target" 2>/dev/null || : ;;
	esac
done <<<"$(</proc/self/mounts)"

# Engines leave sockets and state at places that no flag changes, and look there for a
# containerd that runs already.
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /etc/docker # as the daemon would
mount -t tmpfs -o mode=755 tmpfs /etc/docker
echo '{}' >/run/daemon.json
bash -c "$beside" </dev/null >>"$dir/log" 2>&1

# every_task_is_stopped: a signal may reach some threads later than others.
every_task_is_stopped() {
	local stat
	for stat in /proc/"$pid"/task/*/stat; do
		read -r stat <"$stat" || continue
		stat=${stat##*) }
		[ "${stat:0:1}" = T ] || return 1
	done
} 2>/dev/null

# others prints the processes that are neither this one nor the daemon and its containerd.
others() {
	local file words
	for file in /proc/[0-9]*/cmdline; do
		mapfile -d '' -t words <"$file" || continue
		file=${file#/proc/}
		file=${file%/cmdline}
		case "$file ${words[0]-}" in
		"1 "* | "$pid "* | *" " | *" containerd" | *"/containerd") ;;
		*)
			words="$file ${words[*]}"
			echo "${words//$'\n'/ }"
			;;
		esac
	done
} 2>/dev/null

# Every answer ends with an empty line.
pid=
while read -r verb; do
	case $verb in
	start)
		"$@" </dev/null >>"$dir/log" 2>&1 &
		pid=$!
		;;
	alive) kill -0 "$pid" 2>/dev/null && echo yes || : ;;
	others) others ;;
	STOP)
		kill -s STOP "$pid"
		until every_task_is_stopped; do sleep 0.01; done
		;;
	CONT | KILL | TERM) kill -s "$verb" "$pid" ;;
	esac || echo "failed"
	echo
done
