# For a copy of the session's shell, with whatever aliases, functions and options that
# has. Arguments: the interpreter's directory, a word that marks the answer, how many
# bytes of code there are, and the code, if stdin has none. IFS may be readonly, so
# nothing here is split by it.
case ${BASH_VERSION+b} in b) \command set +ET; \command trap - DEBUG ERR RETURN ;; esac
cf_dir=$1 cf_tag=$2 cf_failed=0
\command [ -p "$cf_dir/ask" ] && \command [ -p "$cf_dir/answer" ] || \command exit 1
\command exec 3<>"$cf_dir/ask" 4<>"$cf_dir/answer" || \command exit 1
# If who waits for the interpreter was killed too, nobody has said that it is dead.
\command [ ! -e "$cf_dir/dead" ] && cf_same || { \command : >"$cf_dir/missed"; \command exit 1; }
\command trap 'cf_same && \command kill -INT "$cf_pid"' TERM
# An empty reply says that the code may run from now on. Nothing that the code does takes
# that back.
\command printf '%se 0 %s\n' "$cf_tag" "$cf_tag"
if \command [ "$#" = 4 ]; then \command printf '%s %s\n%s' "$cf_tag" "$3" "$4"; else \command printf '%s %s\n' "$cf_tag" "$3" && \command cat; fi >&3
# A signal may end a read; so may, for ever, what has taken the place of a fifo.
while \command [ "$cf_failed" -lt 100 ]; do
	cf_line=
	\command read -r cf_line <&4 || cf_failed=$((cf_failed + 1))
	case $cf_line in
	"$cf_tag "* | "dead "*)
		cf_line=${cf_line#* }
		\command exit "${cf_line%% *}"
		;;
	esac
done
\command exit 1
