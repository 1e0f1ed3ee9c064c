# What a container shows of itself, with builtins of the shell as far as they can tell:
# each line is the kind of a fact and the fact. Nothing stays changed, not even in this
# shell.
(
set +e +u +f +v +x
LC_ALL=C
# lines KIND FILE: the lines of a file, if it can be read.
lines() {
	{
		printf 'read %s\n' "$2"
		while IFS= read -r l || [ -n "$l" ]; do printf '%s %s\n' "$1" "$l"; done
	} <"$2"
}
# value FILE: the lines of a small file, with its name.
value() {
	[ -r "$1" ] || return
	while IFS= read -r l || [ -n "$l" ]; do printf 'value %s %s\n' "$1" "$l"; done <"$1"
}
# name PATH: a path that is safe to print on a line.
name() {
	case $1 in *[!a-zA-Z0-9_./:,+@-]*) n=? ;; *) n=$1 ;; esac
}

lines status /proc/self/status
lines mount /proc/self/mountinfo
lines net /proc/net/dev
lines route /proc/net/route
lines route6 /proc/net/ipv6_route
lines uidmap /proc/self/uid_map
lines swap /proc/swaps
while IFS= read -r l; do
	case $l in
	'Max core file size '*) printf 'core %s\n' "${l#Max core file size }" ;;
	'Max processes '*) printf 'nproc %s\n' "${l#Max processes }" ;;
	esac
done </proc/self/limits

# The shell's parent and grandparent: one of them is process 1, unless the processes are
# those of others. A thread of the kernel is only seen among the host's.
while read -r k v; do case $k in PPid:) printf 'parent %s\n' "$v" ;; esac; done </proc/$PPID/status
printf 'parent %s\n' $PPID
while read -r k v; do case $k in Name:) printf 'second %s\n' "$v" ;; esac; done </proc/2/status

# Limits: the first version of cgroups, and the second, of which the container may see
# all.
for d in /sys/fs/cgroup/memory /sys/fs/cgroup/cpu /sys/fs/cgroup/cpu,cpuacct /sys/fs/cgroup/cpuacct,cpu /sys/fs/cgroup/pids /sys/fs/cgroup/devices; do
	for f in memory.limit_in_bytes memory.memsw.limit_in_bytes memory.oom_control cpu.cfs_quota_us cpu.cfs_period_us pids.max devices.list; do value $d/$f; done
done
while IFS= read -r l; do
	case $l in 0::/*)
		for d in "/sys/fs/cgroup${l#0::}" /sys/fs/cgroup; do
			[ -e "$d/cgroup.type" ] || continue
			cd "$d" || continue
			printf 'cgroup2\n'
			for f in memory.max memory.swap.max cpu.max pids.max; do value $f; done
			break
		done
		;;
	esac
done </proc/self/cgroup

# Files of process 1 that only itself may open.
for f in environ mem; do
	[ -e /proc/1/$f ] || continue
	if { :; } </proc/1/$f; then printf 'open /proc/1/%s\n' $f; else printf 'refused /proc/1/%s\n' $f; fi
done
if [ -e /proc/1/fd/0 ]; then printf 'open /proc/1/fd\n'; else printf 'refused /proc/1/fd\n'; fi

# The label by which a security module confines process 1, and this shell.
for f in 1 self; do
	for d in apparmor/ ''; do value /proc/$f/attr/${d}current; done
done

# What engines hide, or make read-only.
for f in /proc/acpi /proc/asound /proc/interrupts /proc/kcore /proc/keys /proc/latency_stats /proc/sched_debug /proc/scsi /proc/timer_list \
	/proc/timer_stats /sys/devices/virtual/powercap /sys/firmware /proc/bus /proc/fs /proc/irq /proc/sys /proc/sysrq-trigger \
	/var/run/secrets/kubernetes.io/serviceaccount; do
	[ ! -e $f ] || printf 'exists %s\n' $f
done

for f in /dev/* /dev/*/* /dev/*/*/*; do
	case $f in /dev/pts/* | /dev/fd/*) continue ;; esac
	[ ! -h "$f" ] || continue
	name "$f"
	if [ -b "$f" ]; then printf 'device b %s\n' "$n"; elif [ -c "$f" ]; then printf 'device c %s\n' "$n"; fi
done

for f in / /bin /boot /etc /home /lib /media /mnt /opt /root /run /sbin /srv /usr /usr/bin /usr/lib /usr/local /usr/local/bin /var /var/tmp; do
	[ ! -w $f ] || printf 'writable %s\n' $f
done
while read -r l; do
	set -f
	set -- $l
	set +f
	[ ! -w "$5" ] || printf 'writable %s\n' "$5"
done </proc/self/mountinfo

# A datagram to an address that is nobody's (RFC 5737). Without a route it fails at once,
# and no answer is waited for.
if [ -n "${BASH_VERSION-}" ]; then
	r=$({ printf x >/dev/udp/192.0.2.1/9; } 2>&1) && r=sent
	r=${r%%
*}
	printf 'reach bash: %s\n' "${r##*: }"
elif command -v python3 >/dev/null; then
	r=$(python3 -I -S -c 'import socket
try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 9)); print("sent")
except OSError as e: print(e)')
	printf 'reach python3: %s\n' "${r%%
*}"
fi

# What a filter of system calls may refuse, where the image has what asks for it.
call() { if [ "$1" ]; then printf 'call allowed %s\n' "$2"; else printf 'call refused %s\n' "$2"; fi; }
if command -v chmod >/dev/null && command -v rm >/dev/null; then
	for d in /dev/shm /tmp; do
		n=$d/.cofferdam-$$
		(umask 077 && set -C && : >"$n") || continue
		chmod 4700 "$n"
		r=
		[ ! -u "$n" ] || r=1
		rm -f "$n"
		call "$r" 'set-uid files'
		break
	done
fi
if command -v unshare >/dev/null; then
	r=
	unshare -U true </dev/null >/dev/null && r=1
	call "$r" 'user namespaces'
fi
# The niceness is the 19th field, and may only be raised.
read -r l </proc/$$/stat
set -- ${l##*) }
n=${17}
shift $#
r=?
if [ "$n" != 0 ]; then
	: # one that is not from 0 may be refused without a filter
elif command -v renice >/dev/null; then
	r=$(sh -c 'renice -n 1 -p $$ >/dev/null; read -r l </proc/$$/stat && set -- ${l##*) } && echo "${17}"')
elif command -v nice >/dev/null; then
	r=$(nice -n 1 sh -c 'read -r l </proc/$$/stat && set -- ${l##*) } && echo "${17}"')
fi
[ "$r" = '?' ] || { [ "${r:-$n}" != "$n" ] || r=; call "$r" priorities; }
# Its number is the same for nearly every processor; the address is nobody's.
if command -v python3 >/dev/null; then
	r=$(python3 -I -S -c 'import ctypes
c = ctypes.CDLL(None, use_errno=True)
c.syscall(425, 1, None)
print(ctypes.get_errno())')
	case $r in 1 | 38) call '' io_uring ;; 14) call 1 io_uring ;; esac
fi
printf 'end\n'
) 2>/dev/null
