# Arguments: the interpreter's directory, a word that marks the answer, how many bytes of code there are, and the code, if stdin has none.
dir=$1 tag=$2
[ -p "$dir/ask" ] && [ -p "$dir/answer" ] || exit 1
exec 3<>"$dir/ask" 4<>"$dir/answer" || exit 1
[ ! -e "$dir/dead" ] || { : >"$dir/missed"; exit 1; }
trap 'same && kill -INT "$pid"' TERM
if [ $# = 4 ]; then printf '%s %s\n%s' "$tag" "$3" "$4"; else echo "$tag $3" && cat; fi >&3
# A signal may end a read; so may, for ever, what has taken the place of a fifo.
failed=0
while [ $failed -lt 100 ]; do
	word=
	read -r word status <&4 || failed=$((failed + 1))
	case $word in
	"$tag" | dead) exit "$status" ;;
	esac
done
exit 1
