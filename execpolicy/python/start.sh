# Arguments: a directory to be made, the interpreter's text, what runs a snippet, and the
# names that its program may have. It is put to work in the background.
dir=$1 text=$2 run=$3
shift 3
program=
for p; do
	command -v "$p" >/dev/null 2>&1 && program=$p && break
done
[ -n "$program" ] || exit 127
umask 77
mkdir "$dir" && mkfifo "$dir/ask" "$dir/answer" && printf '%s' "$run" >"$dir/run" || exit 1
# Opened for both, a fifo makes nobody wait, and keeps what is in it while one of both
# sides is there.
exec 4<>"$dir/answer" || exit 1
keep() {
	trap : HUP INT TERM
	exec 3>&2 2>/dev/null
	# What was printed must be there when the interpreter is killed.
	"$program" -u -c "$text" "$dir" 2>&3 3>&- 4>&-
	status=$?
	# Without command, a redirection that fails would end the shell.
	command : >"$dir/dead"
	echo "dead $status ." >&4
}
keep </dev/null &
read -r word status <&4
[ "$word" = ready ] || exit 1
