trap '' HUP INT QUIT TERM
removal=$1 kill=$2 exec=$3
names=' '
while IFS= read -r line; do
	case $line in
	+*) names="$names${line#+} " ;;
	-*) line=" ${line#-} "
		case $names in *"$line"*) names="${names%%"$line"*} ${names#*"$line"}" ;; esac ;;
	esac
done
set -- $names
names=
for name; do
	case $name in
	/*)
		[ -O "$name" ] && [ ! -L "$name" ] || continue
		chmod 700 "$name/io"
		rm -f "$name"/io/*
		rmdir "$name/io" "$name" ;;
	*) names="$names $name" ;;
	esac
done 2>/dev/null
[ -n "$names" ] || exit 0
limit=
timeout 1 true 2>/dev/null && limit='timeout 10'
lives() {
	{ read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
	set -- "$2" ${stat##*") "}
	[ "${21-}" = "$1" ] && [ "$2" != Z ]
}
thaw() { [ -z "$1" ] || PATH=/usr/bin:/bin $limit find "$1" -name freezer.state -execdir sh -c 'echo THAWED >freezer.state' ';'; }
inside() { eval "$limit $exec $1 sh -c 'kill -9 -1'"; }
round=0
for pause in 0.5 0.5 1 2 4 4 4 4 8 8 8 16; do
	sleep $pause
	round=$((round + 1)) living= unseen= others=
	for name in $names; do
		first=${name#*:} name=${name%%:*}
		start=${first#*:}
		case $first in
		"$name") others="$others $name" ;;
		0:0:) if [ $round = 1 ]; then unseen="$unseen $name"; else others="$others $name"; fi ;;
		*) if lives "${first%%:*}" "${start%%:*}"; then living="$living $name:${start#*:}"; else others="$others $name"; fi ;;
		esac
	done
	for name in $living; do
		freezer=${name#*:} name=${name%%:*}
		{
			thaw "$freezer"
			if inside "$name"; then sleep 0.5 && eval "$limit $kill $name"; else eval "$limit $removal $name"; fi
		} &
	done
	for name in $unseen; do inside "$name"; done &
	[ -z "$others" ] || eval "$removal $others" &
	[ $round -lt 5 ] || [ -n "$living" ] || break
done >/dev/null 2>&1
