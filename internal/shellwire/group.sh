# For a session that shares its process namespace with others: its only signals go to its
# own process group, which needs no number that another process could have by now.
trap cf_rang=1 TERM
cf_pids= cf_frozen=
freeze() { :; }
settle() { :; }
thaw() { :; }
still() { :; }
tend() { :; }
clock() { :; }
born() { :; }
job() { :; }
attend() { ( "$@" ); }
# A read that a signal has interrupted ends like one at the end of stdin.
take() {
	cf_heard=
	while cf_rang= cf_op=; ! IFS= read -r cf_op; do
		[ -n "$cf_rang" ] || return 1
		cf_heard=$cf_heard$cf_op
	done
	cf_op=$cf_heard$cf_op
}
pulse() { :; }
room() { :; }
calm() { :; }
crowded() {
	jobs >&2
	cf_num=$((cf_num + 1))
	[ $cf_num -lt 10000 ]
}
begin() {
	cf_help_tag=
	gather unrun
}
hand() { write || exit 97; }
# What a helper has begun writes until it is gone, and its mark must come last. A helper
# that is stopped would not end, and it may be stopped as the signal comes, or later. What
# it forks as the signal comes does not get that, and gets another later: one right away
# would hurry what ends in good order. A wait that the signal interrupts is repeated.
end() {
	[ "$# $1" = "1 TERM" ] || return 0
	kill -TERM 0
	kill -CONT 0
	[ -n "$cf_help_tag" ] && [ -n "$cf_help_pid" ] || return 0
	cf_num=0
	while [ -d $cf_help_pid ]; do
		kill -CONT 0
		cf_num=$((cf_num + 1))
		[ $cf_num -lt 5000 ] || { command eval 'sleep 1'; kill -TERM 0; }
		jobs >&2
	done
	wait $cf_help_pid
	wait $cf_help_pid
	cf_help_pid=
}
# Nothing of the group is to outlive the host's program.
finish() { kill -KILL 0; }
