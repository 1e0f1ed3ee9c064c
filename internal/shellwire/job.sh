# For the keeper of a job. The text before this one has set cf_prefix; cf_tag, of the
# job's marks; cf_boot, with which a shell reads a line and evaluates it; cf_err, a new
# file in the supervisor's directory; cf_remove, the files to remove when the command has
# ended; and "$@", the worker shell or nothing.
trap : HUP INT QUIT USR1 USR2 PIPE ALRM TERM
[ $# -gt 0 ] || if command -v bash >/dev/null 2>&1; then set -- bash; else set -- sh; fi
command : 2>/dev/null >"$cf_err" && cf_remove="$cf_err $cf_remove" || cf_err=/dev/null
printf '%sb%s %s\n' "$cf_prefix" "$cf_tag" $$
# This shell's own messages go to a file. There is one if a signal has killed the command.
{ ( exec "$@" -c "$cf_boot" ) 2>&4 4>&- && cf_status=0 || cf_status=$?; } 4>&2 2>"$cf_err"
case $cf_status in
129 | 1[3-8]? | 19[0-2])
	while IFS= read -r cf_said; do
		case $cf_said in ?*) cf_status=s${cf_status#s} ;; esac
	done <"$cf_err" ;;
esac
# Where there is no room for a process, a shell would end here. Others are being ended
# then.
cf_num=0
until [ -z "$cf_remove" ] || command eval 'rm -f $cf_remove' || [ $? -lt 2 ] || [ $cf_num -ge 1000 ]; do
	cf_num=$((cf_num + 1))
done
# While a shell prints to its stderr, its stdout is that, too. By its stdout process 1
# answers the host, which asks when both marks have come: the one on stderr is the first.
printf '%se%s\n' "$cf_prefix" "$cf_tag" >&2
printf '%se%s %s %s\n' "$cf_prefix" "$cf_tag" "$cf_status" "$cf_prefix"
# It stays until the host has done with the job.
while :; do kill -STOP $$; done
