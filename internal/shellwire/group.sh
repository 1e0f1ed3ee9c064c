# For a session that shares its process namespace with others: its only signals go to its own process group, which takes no number that
# another process could have got.
trap : TERM
freeze() { :; }
thaw() { :; }
still() { :; }
tend() { :; }
# What a helper has begun still writes until it is gone, and its mark is to be the last. A wait that the signal interrupts is taken up.
end() {
	[ "$# $1" = "1 TERM" ] || return 0
	kill -TERM 0
	# One that is stopped would not end, and be waited for.
	kill -CONT 0
	[ -z "$cf_hm" ] || [ -z "$cf_hp" ] || { wait $cf_hp; wait $cf_hp; }
	cf_hp=
}
# Nothing of the group is to outlive the host's program.
finish() { kill -KILL 0; }
