# For a session that shares its process namespace with others: its only signals go to its own process group, which takes no number that
# another process could have got.
trap : TERM
freeze() { :; }
thaw() { :; }
still() { :; }
tend() { :; }
clock() { :; }
born() { :; }
attend() { ( "$@" ); }
room() { :; }
calm() { :; }
begin() {
	cf_hm=
	gather unrun
}
# What a helper has begun still writes until it is gone, and its mark is to be the last. One that is stopped would not end, and it may be
# stopped as the signal comes, or later. A wait that the signal interrupts is taken up.
end() {
	[ "$# $1" = "1 TERM" ] || return 0
	kill -TERM 0
	kill -CONT 0
	[ -n "$cf_hm" ] && [ -n "$cf_hp" ] || return 0
	cf_j=0
	while [ -d $cf_hp ]; do
		kill -CONT 0
		cf_j=$((cf_j + 1))
		[ $cf_j -lt 5000 ] || command eval 'sleep 1'
		jobs >&2
	done
	wait $cf_hp
	wait $cf_hp
	cf_hp=
}
# Nothing of the group is to outlive the host's program.
finish() { kill -KILL 0; }
