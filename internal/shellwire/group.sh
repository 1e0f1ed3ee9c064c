# For a session that shares its process namespace with others: its only signal goes to its own process group, which takes no number
# that another process could have got, and which this shell and the worker outlive.
trap : TERM
freeze() { :; }
thaw() { :; }
tend() { :; }
end() { [ $# = 2 ] || [ "$1" != TERM ] || kill -TERM 0; }
