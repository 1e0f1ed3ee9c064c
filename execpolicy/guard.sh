trap '' HUP INT QUIT TERM
names=' '
while IFS= read -r line; do
	case $line in
	+*) names="$names${line#+} " ;;
	-*) line=" ${line#-} "
		case $names in *"$line"*) names="${names%%"$line"*} ${names#*"$line"}" ;; esac ;;
	esac
done
[ -n "${names% }" ] || exit 0
# A container may still come into being after a removal that found none, and a removal that hangs must not hold up the next.
for pause in 0.5 0.5 1 2 4; do
	sleep $pause
	"$@" $names >/dev/null 2>&1 &
done
