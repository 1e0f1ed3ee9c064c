# For process 1 of a namespace that was made for it, and for nothing else: it signals every process it sees.
[ $$ = 1 ] || exit 96
# Process 1 gets no signal from inside but those it handles. Busybox ash handles this one, by ending.
trap '' INT
finish() { exit 0; }
freeze() {
	kill -STOP -1
	cf_fz=1
}
thaw() {
	kill -CONT -1
	cf_fz=
}
cf_t=0 cf_v=0 cf_fz= cf_pm=
# The newest process: the short way to tell, or the long one.
cf_u=/proc/sys/kernel/ns_last_pid
{ read -r cf_v <$cf_u || cf_u=; } 2>/dev/null
# How many processes there are in the container, and may be, if its own control group can be seen. To read from what may have been inherited
# there could take for ever.
exec 3<&-
for cf_x in /sys/fs/cgroup/pids/pids /sys/fs/cgroup/pids; do
	{ read -r cf_a <$cf_x.current && exec 3<$cf_x.current && read -r cf_pm <$cf_x.max; } 2>/dev/null
done
# room makes sure that there is room for one more process, and calm undoes it. It is for bash,
# which tries for a quarter of a minute to fork where there is none, and reads nothing
# meanwhile. What fills the limit would take the room, if it were not stopped.
case ${BASH_VERSION+bash}$cf_pm in
bash[1-9]*)
	room() {
		kill -STOP -1
		cf_j=0
		while read -r cf_a <self/fd/3 && [ "$cf_a" -ge "$cf_pm" ]; do
			cf_j=$((cf_j + 1))
			[ $cf_j -lt 1000 ] || return 1
			jobs >&2
		done
	}
	calm() { [ -n "$cf_fz" ] || kill -CONT -1; }
	;;
*)
	room() { :; }
	calm() { :; }
	;;
esac
# attend COMMAND: runs it in a process of its own, as which it must end, and waits. If somebody stops that process the session ends: this
# shell would wait for ever, and miss the end of its stdin. Bash tells a stop like an end if it has job control; the others are woken by it.
attend() {
	if [ -n "$cf_once" ]; then
		room || return 1
		set -m
		( "$@" )
		cf_at=$?
		set +m
		case $cf_at in 14[789] | 150) exit 97 ;; esac
		return $cf_at
	fi
	cf_at=
	trap stopped CHLD
	command eval '( "$@" ) &' || return 1
	cf_at=$!
	stopped
	until wait $cf_at; do
		# SIGCHLD ends a wait, and is 17 where engines run. Any other status is the reader's own, and
		# would be told for ever.
		[ $? = 145 ] || { trap - CHLD; return 1; }
	done
	trap - CHLD
}
# stopped uses no variable of what it may interrupt.
stopped() {
	[ -n "$cf_at" ] || return 0
	cf_st=
	IFS= read -r cf_st <$cf_at/stat
	case ${cf_st##*")"} in " "[Tt]*) exit 97 ;; esac
}
# still waits until whatever was stopped has come to the end of its system call: it may be writing. What sleeps on a disk, or for a
# child that was stopped, is not waited for.
still() {
	read -r cf_x cf_y <self/stat
	cf_y=0
	while [ $cf_y -lt 1000 ]; do
		cf_y=$((cf_y + 1))
		for cf_q in [0-9]*/task/[0-9]*; do
			case $cf_q in 1/* | "$cf_x"/*) continue ;; esac
			stat "$cf_q"
			case $cf_k in [RS]) continue 2 ;; esac
		done
		return
	done
}
# stat PID: reads the state, the parent and the start time of a process, and how many threads it
# has. One may be named "x) S 9 ": the fields begin behind the last parenthesis.
stat() {
	cf_a=
	while IFS= read -r cf_b; do cf_a="$cf_a$cf_b "; done <"$1/stat"
	set -- ${cf_a##*") "}
	cf_k=${1-Z} cf_b=${2-} cf_nt=${18-0} cf_a=${20-0}
}
# clock notes the time, in the ticks that process start times are in, and the newest process, for those that began in the same tick.
clock() {
	IFS=. read -r cf_t cf_a <uptime
	cf_t=$cf_t${cf_a%% *}
	case $cf_u in
	'') read -r cf_a cf_a cf_a cf_a cf_v <loadavg ;;
	*) read -r cf_v <$cf_u ;;
	esac
}
# born notes when the worker's parent started.
born() {
	stat "$cf_l"
	cf_lb=$cf_a
}
# begin makes ready for a unit: what starts from now on belongs to it. If the last two units, too, began with nobody there but this shell,
# the worker and its parent, then what is noted tells that as well.
begin() {
	cf_hm= cf_a=
	gather unrun
	read -r cf_a <self/fd/3
	case $cf_a$cf_s in
	3++) return ;;
	3 | 3+) cf_s=$cf_s+ ;;
	*) cf_s= ;;
	esac
	clock
}
# later: did the process that was looked at start after the command was named?
later() { [ "$cf_a" -gt "$cf_t" ] || [ "$cf_a" -eq "$cf_t" ] && [ "$cf_q" -gt "$cf_v" ]; }
# walk SIGNAL [worker]: signals what the command started, and tells whether there was anything.
# Spared are this shell, the worker and its parent, and what started before the command did: the
# worker as well, but not another child that it has made of its parent. The number of that parent
# may be another's by now. A process whose first thread has ended looks dead, and lives if it has
# more.
walk() {
	cf_f=1
	for cf_q in [0-9]*; do
		[ "$cf_q" != 1 ] || continue
		stat "$cf_q"
		case $cf_q:$cf_a:$cf_k$cf_nt in $cf_l:$cf_lb:* | *:Z[01]) continue ;; esac
		[ "$cf_b" = "$cf_l" ] && [ $# = 2 ] || later || continue
		kill -"$1" "$cf_q" && cf_f=0
	done
	return $cf_f
}
# end SIGNAL [worker]: nothing forks while it walks, and nothing that forks is needed. A process that was being forked as the others were
# stopped may only show in a later walk.
end() {
	freeze
	cf_j=0
	while walk "$@" && [ "$1" = KILL ] && [ $cf_j -lt 50 ]; do
		cf_j=$((cf_j + 1))
		jobs >&2
	done
	thaw
}
# older: is there a process, but this one, that started before the command did?
older() {
	for cf_q in [0-9]*; do
		stat "$cf_q"
		[ "$cf_q" = 1 ] || [ "$cf_a" = 0 ] || later || return 0
	done
	return 1
}
# tend WHEN: the worker's parent may have been stopped, or killed. Then the worker may live and come to the end of its command, but nobody
# would say how it ended: between commands everything is ended for a new one. An old parent's worker is not to live on beside a new one.
tend() {
	case $1 in
	old) [ "$cf_l" = 1 ] || ! kill -CONT "$cf_l" || end KILL worker ;;
	tick) kill -CONT "$cf_l" || older || miss killed ;;
	*) kill -0 "$cf_l" || miss "$1" ;;
	esac
}
miss() {
	kill -KILL -1
	try over "$1" || exit 97
	cf_l=1
}
