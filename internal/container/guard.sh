trap '' HUP INT QUIT TERM
# What removes containers, what kills process 1 of one, and what begins to run a command in
# one. The names are put behind it.
removal=$1 kill=$2 exec=$3
# Each is NAME, or NAME:PID:START once it may be killed from inside; PID and START are those
# of its process 1, or 0.
names=' '
while IFS= read -r line; do
	case $line in
	+*) names="$names${line#+} " ;;
	-*) line=" ${line#-} "
		case $names in *"$line"*) names="${names%%"$line"*} ${names#*"$line"}" ;; esac ;;
	esac
done
[ -n "${names% }" ] || exit 0
limit=
timeout 1 true 2>/dev/null && limit='timeout 10'

# lives PID START: does that process?
lives() {
	{ read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
	set -- "$2" ${stat##*") "}
	[ "${21-}" = "$1" ] && [ "$2" != Z ]
}
inside() { eval "$limit $exec $1 sh -c 'kill -9 -1'"; }

# A container may still come into being after a removal that found none, and one command
# that hangs must not hold up the next. What lives is not removed: the engine could forget
# what it can't end. It is tried for a minute.
round=0
for pause in 0.5 0.5 1 2 4 4 4 4 8 8 8 16; do
	sleep $pause
	round=$((round + 1)) living= unseen= others=
	for name in $names; do
		first=${name#*:} name=${name%%:*}
		case $first in
		"$name") others="$others $name" ;;
		0:0) if [ $round = 1 ]; then unseen="$unseen $name"; else others="$others $name"; fi ;;
		*) if lives "${first%:*}" "${first#*:}"; then living="$living $name"; else others="$others $name"; fi ;;
		esac
	done
	for name in $living; do
		# Podman takes no command for a container any more whose process 1 takes long to
		# obey a kill. Where none can be run, as in a container that is paused, there is
		# nothing to lose.
		if inside "$name"; then sleep 0.5 && eval "$limit $kill $name"; else eval "$limit $removal $name"; fi &
	done
	for name in $unseen; do inside "$name"; done &
	[ -z "$others" ] || eval "$removal $others" &
	[ $round -lt 5 ] || [ -n "$living" ] || break
done >/dev/null 2>&1
