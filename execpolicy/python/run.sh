# For a copy of the session's shell, with whatever aliases, functions and options that has. Arguments: the interpreter's directory, a word that marks the answer, how many bytes of code there are, and the code, if stdin has none.
cf_dir=$1 cf_tag=$2 cf_failed=0 IFS=' '
\command [ -p "$cf_dir/ask" ] && \command [ -p "$cf_dir/answer" ] || \command exit 1
\command exec 3<>"$cf_dir/ask" 4<>"$cf_dir/answer" || \command exit 1
\command [ ! -e "$cf_dir/dead" ] || { \command : >"$cf_dir/missed"; \command exit 1; }
\command trap 'same && \command kill -INT "$cf_pid"' TERM
if \command [ $# = 4 ]; then \command printf '%s %s\n%s' "$cf_tag" "$3" "$4"; else \command printf '%s %s\n' "$cf_tag" "$3" && \command cat; fi >&3
# A signal may end a read; so may, for ever, what has taken the place of a fifo.
while \command [ $cf_failed -lt 100 ]; do
	cf_word=
	\command read -r cf_word cf_status <&4 || cf_failed=$((cf_failed + 1))
	case $cf_word in
	"$cf_tag" | dead) \command exit "$cf_status" ;;
	esac
done
\command exit 1
