# For a session with a keep-alive, in a namespace. The text before this one has set
# cf_alive: if nothing comes from the host for that many seconds, this shell ends.
#
# Anybody inside can stop a child that would wake this shell when the time has come, and
# the signal that tells of it ends no wait that begins just after it. So this shell has no
# such child, and waits only by a read that has a time itself. Dash has none, and is not
# what runs this: see Setup.Text.
cf_due=0 cf_held= cf_begun=
# 3 is a FIFO that a reader has open for writing, since there is none of blocks. Nothing
# comes from it but its end, which is the reader's.
mkfifo "$cf_dir/k" && command exec 3<>"$cf_dir/k" && command exec 3<"$cf_dir/k" || exit 97
rm -f "$cf_dir/k"
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
# heed looks at the clock, before this shell waits.
heed() {
	now
	[ -n "$cf_now" ] || exit 97
	[ $cf_due != 0 ] || due 0
	[ "$cf_now" -lt $cf_due ] || silent
}
# Busybox ends a read at a SIGCHLD as it does at the end of stdin, if there is a trap, and
# would begin its time anew if there were none. Only what comes in between, or does not,
# tells one from the other. If signals come without end there is one before each read, and
# this shell gets nowhere: as long as the kernel has the next one it runs no other line.
# So the trap itself stops who sends them, until an operation is done or a second is over.
# Children that end by themselves, even many, are fewer than ten in a look.
#
# Bash, while it waits for a time, handles the signals that would end it, and ends. Anybody
# can send them. SIGALRM may end no more than the read.
take() {
	[ -z "$cf_held" ] || let_go
	cf_heard= cf_rounds=0 cf_stop='kill -STOP -1'
	! helping || cf_stop=:
	[ -n "$cf_once" ] || trap '[ $((cf_rang += 1)) -lt 10 ] || { cf_held=1; $cf_stop; }' CHLD
	while :; do
		# Busybox leaves the variable alone if it is interrupted.
		cf_rang=0 cf_op=
		heed
		if [ $cf_rang != 0 ]; then
			cf_rounds=$((cf_rounds + 1))
			[ $cf_rounds -lt 200 ] || { cf_held=1 cf_rounds=0; $cf_stop; }
			continue
		fi
		cf_rounds=0 cf_until=$cf_due
		[ -z "$cf_held" ] || cf_until=$((cf_now + 99))
		IFS= read -r -t $(((cf_until - cf_now) / 100 + 1)) cf_op && break
		cf_code=$? cf_heard=$cf_heard$cf_op
		# Busybox may tell the end of the time like that of stdin.
		now
		if [ "${cf_now:-0}" -ge $cf_until ]; then
			[ -z "$cf_held" ] || let_go
		elif [ $cf_code -le 128 ] && [ $cf_rang = 0 ]; then
			return 1
		fi
	done
	[ -n "$cf_once" ] || trap - CHLD
	cf_op=$cf_heard$cf_op
	due 0
}
# let_go lets run what take has stopped.
let_go() {
	cf_held=
	[ -n "$cf_frozen" ] || wake
}
# attend waits for a reader as in namespace.sh, but looks at it and at the clock each
# second. All else was stopped, but a timer of its own may let a process go on: so the trap
# is that of take, and lets the reader go on.
#
# Bash can miss the end of a read's time, if that is so short that it comes before the
# read has begun: a second is not.
attend() {
	case $# in
	3) due $(($2 * $3 / 65536)) ;;
	*) due 0 ;;
	esac
	room && command eval '( "$@" ) 3>self/fd/3 </dev/null &' || return 1
	cf_child=$!
	stat $cf_child
	cf_begun=$cf_started
	[ $cf_begun != 0 ] || ! kill -0 $cf_child || exit 97
	[ -n "$cf_once" ] ||
		trap '[ $((cf_rang += 1)) -lt 10 ] || { cf_rang=0; kill -STOP -1; kill -CONT $cf_child; }' CHLD
	until read_out; do
		heed
		cf_rang=0
		IFS= read -r -t 1 cf_skip <&3
	done
	[ -n "$cf_once" ] || trap - CHLD
	wait $cf_child
}
# read_out: has the reader ended? Anybody can take from this shell the right to open a
# file: what it can't look at then may live. Bash has reaped it by itself, and its number
# may be another's. What has more than one thread may live though it looks dead.
read_out() {
	stat $cf_child
	case $cf_started:$cf_state$cf_threads in
	0:*) ! kill -0 $cf_child ;;
	"$cf_begun":Z[01] | "$cf_begun":X*) ;;
	"$cf_begun":[Tt]*) exit 97 ;;
	"$cf_begun":*) return 1 ;;
	esac
}
# pulse answers the host. What answered last may wait, for a host that does not read.
pulse() {
	quit "$cf_pulse"
	beside beat || return
	stat $!
	cf_pulse=$!:$cf_started
}
# quit PID:START: kills a child, unless its number is another's by now.
quit() {
	stat "${1%:*}"
	[ "$cf_started" != "${1#*:}" ] || { kill -KILL "${1%:*}"; wait "${1%:*}"; }
}
beat() { printf '%si\n' "$cf_prefix" >&5; }
