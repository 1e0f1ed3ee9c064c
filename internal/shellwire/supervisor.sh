# The text before this one has set cf_p, the prefix of every mark; cf_d, a directory of its own; "$@", the worker shell or nothing;
# and the functions that end processes.
[ $# -gt 0 ] || if command -v bash >/dev/null 2>&1; then set -- bash; else set -- sh; fi
# A shell that reads characters of several bytes would take a newline behind half a one for its end. The worker keeps its own locale.
cf_c=${LC_ALL+"LC_ALL=\$cf_o"} cf_o=${LC_ALL-} LC_ALL=C
exec 4>&1 5>&2
: >"$cf_d/u" && : >"$cf_d/m" && exec 6<>"$cf_d/u" 3<>"$cf_d/m" || exit 97
# The worker's script. To open a fifo for reading waits until somebody has it open for writing: "a writer is there" is the event, and
# nothing that hostile code could fill is ever written to. Two fifos in turn, or one unit would be run twice; the loops take up an open
# that a signal interrupted. The mark stands on a line of its own, so that a shell that falls out of a unit still comes to it.
cf_x='\. /proc/self/fd/6
\. /proc/self/fd/3 || \exit 98'
printf '%s\n' "until 7</proc/self/fd/8; do :; done
$cf_x
until 7</proc/self/fd/9; do :; done
$cf_x
\\exec </proc/self/fd/0" >"$cf_d/s" && exec 7<"$cf_d/s" || exit 97
mkfifo "$cf_d/a" "$cf_d/b" && exec 8<>"$cf_d/a" 9<>"$cf_d/b" && exec 8<"$cf_d/a" 9<"$cf_d/b" || exit 97
rm -f "$cf_d/sh" "$cf_d/u" "$cf_d/m" "$cf_d/s" "$cf_d/a" "$cf_d/b"
exec 1>&- 2>/dev/null

# A forked copy of the worker that fell back to the script must neither run a unit nor mark its end.
cf_g='case ${BASHPID-$$} in $$) ;; *) \exit;; esac'
# Each command gets a description of its own of the two pipes: what it sets on it (O_NONBLOCK) is gone with it.
cf_r='>/proc/self/fd/1 2>/proc/self/fd/5 3>&- 5>&- 6>&- 8>&- 9>&-'
cf_i=0 cf_t=0 cf_v=0 cf_z= cf_h=$cf_g

# fork COMMAND: runs it in the background. At the process limit a fork fails until the dead are gathered, and would end this shell.
fork() {
	until command eval '( "$@" ) &'; do jobs >/dev/null; done
	cf_l=$!
}

# The worker's parent says how it ended. It may block where it writes; this shell never does.
worker() {
	cf_i=$((cf_i + 1)) cf_e=8
	exec 1>&-
	fork watch "$@"
}
watch() {
	trap : HUP INT QUIT USR1 USR2 PIPE ALRM TERM
	cf_s=0
	eval "${cf_c:-unset LC_ALL}"
	"$@" </proc/self/fd/7 7>&- >&4 4>&- 2>/dev/null || cf_s=$?
	over $cf_s
}
# over STATUS: says that the worker has ended.
over() {
	printf '%sx%s %s\n' $cf_p $cf_i "$1" >&4
	printf '%sx%s\n' $cf_p $cf_i >&5
}

# gather WHEN: reaps orphans, which would fill the process limit, and sees to the worker's parent.
gather() {
	jobs >/dev/null
	tend "$1"
}

# clock notes the time, in the ticks that process start times are in, and the newest process, for those that began in the same tick.
clock() {
	IFS=. read -r cf_t cf_a </proc/uptime
	cf_t=$cf_t${cf_a%% *}
	read -r cf_a cf_a cf_a cf_a cf_v </proc/loadavg
}

# begin writes the first lines of a unit.
begin() {
	printf '%s\n' "$cf_h" "$@" >/proc/self/fd/6 || exit 97
}

# run writes the end mark and what the worker does behind it, and wakes the worker.
run() {
	printf '%s\n' "case \${BASHPID-\$\$} in \$\$) \\command printf '${cf_p}e$cf_n %s %s$cf_p\\n' \"\$?\" \"\${PWD-}\" && \\command printf '${cf_p}e$cf_n\\n' >&5 || \\exit 98;; *) \\exit;; esac$cf_z" >/proc/self/fd/3 || exit 97
	exec 1>&-
	case $cf_e in
	8) cf_e=9; exec 1<>/proc/self/fd/8 ;;
	*) cf_e=8; exec 1<>/proc/self/fd/9 ;;
	esac
}

worker "$@"
while IFS= read -r cf_x; do
	case $cf_x in
	# nTAG: of the next unit. It is sent ahead, to be read while nobody waits.
	n*) cf_n=${cf_x#n} cf_z= cf_h=$cf_g
		gather next
		clock ;;
	# c: notes the time again, if some has passed since the unit was named.
	c) clock ;;
	# eWORD: evaluates a word.
	e*) begin "\\command eval ${cf_x#e} </dev/null $cf_r"
		run ;;
	# b, then +LINE or -PART of a line, then gPART: a longer unit.
	b) begin ;;
	+*) printf '%s\n' "${cf_x#+}" >>/proc/self/fd/6 || exit 97 ;;
	-*) printf '%s' "${cf_x#-}" >>/proc/self/fd/6 || exit 97 ;;
	g*) printf '%s\n' "${cf_x#g} $cf_r" >>/proc/self/fd/6 || exit 97
		run ;;
	# m: the next unit begins with a mark. zTEXT: what the worker does behind its end mark.
	m) cf_h="$cf_g; \\command printf '${cf_p}b$cf_n\\n'; \\command printf '${cf_p}b$cf_n\\n' >&5" ;;
	z*) cf_z="; ${cf_x#z}" ;;
	# o: prints how many processes of the container the kernel has killed for memory, or nothing if it does not tell.
	o) cf_y=
		for cf_q in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
			while read -r cf_a cf_b; do case $cf_a in oom_kill) cf_y=$cf_b ;; esac; done <$cf_q
		done
		begin "\\command printf '%s' '$cf_y' $cf_r"
		run ;;
	t) gather tick ;;
	# kSIG: signals what the command started. w: kills the worker with it. s: starts a new worker.
	k*) end "${cf_x#k}" ;;
	w) end KILL worker
		gather killed ;;
	s) gather old
		worker "$@" ;;
	# dNAME SIZE COUNT: COUNT blocks of SIZE raw bytes follow, for a file of that name. Nothing may run meanwhile: dd could be stopped,
	# and the end of stdin would be missed.
	d*) cf_x=${cf_x#d} cf_y=${cf_x#* }
		freeze
		dd bs="${cf_y% *}" count="${cf_y#* }" iflag=fullblock >>"$cf_d/${cf_x%% *}" || exit 97
		thaw ;;
	esac
done
finish
