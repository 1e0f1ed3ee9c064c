# For a session that shares its process namespace with others: its only signals go to its own process group, which takes no number that
# another process could have got.
trap : TERM
freeze() { :; }
thaw() { :; }
still() { :; }
tend() { :; }
end() { [ $# = 2 ] || [ "$1" != TERM ] || kill -TERM 0; }
# Nothing of the group is to outlive the host's program.
finish() { kill -KILL 0; }
