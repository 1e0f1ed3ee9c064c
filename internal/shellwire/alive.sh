# For a session with a keep-alive, in a namespace. The text before this one has set
# cf_alive: if nothing comes from the host for that many seconds, this shell ends. Only
# bash can wait for stdin and for a time at once. In the others a child waits for the
# time, the alarm. When that ends, or when somebody stops or kills it, SIGCHLD interrupts
# the read, and this shell looks at the clock by itself.
cf_due=0 cf_rings_at=0 cf_held= cf_by=beside
# 3 is what the alarm waits with, since there is no FIFO of blocks. Busybox and bash wait
# for what never comes from a FIFO. Dash has to run a program, a copy that nobody can
# read: whoever could trace it would hold it still.
( IFS= read -r -t 1 cf_op ) </dev/null 2>/dev/null
case $? in
1)
	cf_wait=
	mkfifo "$cf_dir/k" && command exec 3<>"$cf_dir/k" || exit 97
	rm -f "$cf_dir/k" ;;
*)
	cf_wait=$(command -v sleep) || {
		echo 'a keep-alive needs the program sleep where sh is dash' >&2
		exit 97
	}
	if cp "$cf_wait" "$cf_dir/k" && command exec 3<"$cf_dir/k" && chmod 111 "$cf_dir/k" &&
		(exec /proc/self/fd/3 0) >/dev/null; then
		cf_wait=/proc/self/fd/3
	fi 2>/dev/null
	rm -f "$cf_dir/k" ;;
esac
alarm() {
	exec 1<>/dev/null 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
	[ -z "$cf_wait" ] || command exec "$cf_wait" "$1"
	IFS= read -r -t "$1" cf_op <&3
}
# last is an alarm for bash, which it can't wake: what bash waits for is killed.
last() {
	alarm "$1"
	kill -KILL -1
}
silent() {
	kill -KILL -1
	exit 93
}
# due SECONDS: this shell has heard the host, and is to hear it again in that time, beside
# that of the keep-alive.
due() {
	now
	[ -n "$cf_now" ] || exit 97
	cf_due=$((cf_now + (cf_alive + $1) * 100))
}
# size COMMAND SIZE COUNT: this shell is going to wait for a reader of so many bytes, and
# hears nothing meanwhile.
size() {
	case $# in
	3) due $(($2 * $3 / 65536)) ;;
	*) due 0 ;;
	esac
}
# quit PID:START: kills a child, unless its number is another's by now.
quit() {
	stat "${1%:*}"
	[ "$cf_started" != "${1#*:}" ] || { kill -KILL "${1%:*}"; wait "${1%:*}"; }
}
# ring COMMAND TIME: starts an alarm for then.
ring() {
	set -- "$1" $((($2 - cf_now) / 100 + 1))
	if [ -p self/fd/1 ]; then
		$cf_by "$@" || return 1
	else
		# 1 may be the file of an upload.
		room && spawn "$@"
		cf_num=$?
		calm
		[ $cf_num = 0 ] || return 1
	fi
	stat $!
	cf_alarm=$!:$cf_started
}
# pulse answers the host. What answered last may wait, for a host that does not read.
pulse() {
	quit "$cf_pulse"
	beside beat || return
	stat $!
	cf_pulse=$!:$cf_started
}
beat() { printf '%si\n' "$cf_prefix" >&5; }
case ${BASH_VERSION+bash} in
bash)
	heed() {
		now
		[ $cf_due != 0 ] || due 0
		[ "${cf_now:-$cf_due}" -lt $cf_due ] || silent
	}
	# Anybody can end a read by SIGALRM, or bash itself: it handles that signal.
	take() {
		cf_heard= cf_again=1
		while [ $cf_again != 0 ]; do
			cf_again=0 cf_op=
			IFS= read -r -t $cf_alive cf_op || cf_again=$?
			cf_heard=$cf_heard$cf_op
			case $cf_again in 0) ;; [1-9] | [1-9][0-9]) return 1 ;; *) heed ;; esac
		done
		cf_op=$cf_heard
		due 0
	}
	brace() {
		size "$@"
		cf_by=try
		ring last $cf_due || return 1
		cf_by=beside
	}
	relax() {
		heed
		quit "$cf_alarm"
	}
	;;
*)
	# heed [reader]: looks at the clock and at the alarm, before this shell waits. While
	# it waits for a reader it starts nothing: where there is no room that would stop the
	# reader.
	heed() {
		now
		[ -n "$cf_now" ] || exit 97
		[ $cf_due != 0 ] || due 0
		[ "$cf_now" -lt $cf_due ] || silent
		cf_bell=${cf_alarm%:*}
		stat "$cf_bell"
		case $cf_bell:$cf_started:$cf_state in
		"$cf_alarm":[!TtZX])
			# One that was for a reader rings too late for what comes next.
			[ $# = 1 ] || [ $cf_rings_at -le $cf_due ] && return
			kill -KILL "$cf_bell"
			wait "$cf_bell"
			cf_rings_at=0 ;;
		"$cf_alarm":T)
			if [ -n "$cf_frozen" ]; then
				kill -CONT "$cf_bell"
				# It tells so by a signal, which is to come before the read.
				cf_num=0
				while stat "$cf_bell" && [ $cf_num -lt 500 ]; do
					case $cf_state in T) cf_num=$((cf_num + 1)) ;; *) break ;; esac
				done
				return
			fi
			cf_rings_at=$((cf_now + 1)) ;;
		"$cf_alarm":*) kill -KILL "$cf_bell" ;;
		esac
		[ $# = 0 ] || exit 97
		# One that did not ring was stopped or killed. For one that did, what was stopped
		# has waited.
		if [ -n "$cf_frozen" ]; then
			:
		elif [ "$cf_now" -lt $cf_rings_at ]; then
			hold
		elif [ -n "$cf_held" ]; then
			cf_held=
			wake
		fi
		cf_rings_at=$cf_due
		[ -z "$cf_held" ] || cf_rings_at=$((cf_now + 99))
		ring alarm $cf_rings_at || { miss killed; ring alarm $cf_rings_at; } || exit 97
	}
	# hold stops whoever has stopped or killed the alarm, with all others, until an
	# operation is done or an alarm of a second has rung: a signal that comes between the
	# last look at the alarm and the read would not interrupt that.
	hold() {
		stop
		cf_held=1
		still 50
		quit "$cf_alarm"
		now
	}
	# A read that SIGCHLD has interrupted ends like one at the end of stdin. Only what
	# comes in between, or does not, tells one from the other. If signals come without
	# end there is one before each read, and this shell gets nowhere: as long as the
	# kernel has the next one it runs no other line. So the trap itself stops who sends
	# them, the alarm too, so that the next look at that holds all. Children that end by
	# themselves, even many, are fewer than ten in a look.
	take() {
		[ -z "$cf_held" ] || { cf_held=; [ -n "$cf_frozen" ] || wake; }
		cf_heard= cf_rounds=0 cf_stop='kill -STOP -1'
		! helping || cf_stop=:
		trap '[ $((cf_rang += 1)) -lt 10 ] || { cf_held=1; $cf_stop; }' CHLD
		while :; do
			# Busybox leaves the variable alone if it is interrupted.
			cf_rang=0 cf_op=
			heed
			if [ $cf_rang != 0 ]; then
				cf_rounds=$((cf_rounds + 1))
				[ $cf_rounds -lt 200 ] || { cf_held=1 cf_rounds=0; $cf_stop; }
				continue
			fi
			cf_rounds=0
			! IFS= read -r cf_op || break
			cf_heard=$cf_heard$cf_op
			[ $cf_rang != 0 ] || return 1
		done
		trap - CHLD
		cf_op=$cf_heard$cf_op
		due 0
	}
	# The next alarm is for the whole time of the reader.
	brace() {
		size "$@"
		quit "$cf_alarm"
		cf_alarm=none:
		# The event is not opened again: 8 is stdin now, and no unit is under way.
		cf_by=try
		heed
		cf_by=beside
	}
	;;
esac
