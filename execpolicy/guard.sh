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
# A container may still come into being after a removal that found none.
for pause in 0.3 0.5 1 2 4; do
	sleep $pause
	# One that hangs must not hold up the others.
	for name in $names; do "$@" "$name" >/dev/null 2>&1 & done
done
