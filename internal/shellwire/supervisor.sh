# The text before this one has set cf_p, the prefix of every mark; cf_d, a directory of its own; "$@", the worker shell or nothing;
# and the functions that end processes.
[ $# -gt 0 ] || if command -v bash >/dev/null 2>&1; then set -- bash; else set -- sh; fi
# A shell that reads characters of several bytes would take a newline behind half a one for its end. The worker keeps its own locale.
cf_c=${LC_ALL+"LC_ALL=\$cf_o"} cf_o=${LC_ALL-} LC_ALL=C
# Names are short here: where the root is slow to look up, as with fuse-overlayfs, every name that begins there costs a tenth of a command.
cf_w=$PWD
cd /proc || exit 97
exec 4>&1 5>&2
# Dash names ten descriptors and no more. So the program that reads stdin has the place of /dev/null: what this shell says is lost either way.
case $cf_dd in *fd*) exec 1<&9 ;; *) exec 1<>/dev/null ;; esac
: >"$cf_d/script" && exec 6<>"$cf_d/script" || exit 97
: >"$cf_d/s" && exec 7<>"$cf_d/s" || exit 97
mkfifo "$cf_d/a" "$cf_d/b" && exec 8<>"$cf_d/a" 9<>"$cf_d/b" && exec 8<"$cf_d/a" 9<"$cf_d/b" || exit 97
exec 2<&1 1>&-

cf_r='>&3 2>&4 3>&- 4>&- 5>&- 6>&- 8>&- 9>&-'
cf_i=0 cf_in= cf_hm= cf_hp= cf_once=${BASH_VERSION+0000}
# A newline, which no operation can hold.
cf_n='
'

# try COMMAND: runs it in the background. What is forked must not hold the event: the worker
# would take it for the next one, and run its unit again.
try() {
	exec 1>&-
	room && spawn "$@"
	cf_j=$?
	calm
	return $cf_j
}
# spawn COMMAND: at the process limit a fork fails until the dead are gathered, and would end
# this shell. The living may fill the limit too, and the end of stdin must not be missed: it
# gives up some time. Bash has tried for long by then. Nothing is to inherit stdin: bash does not
# see to that by itself once a loop was redirected.
spawn() {
	cf_j=0
	until command eval '( "$@" ) </dev/null &'; do
		jobs >&2
		cf_j=$((cf_j + 1))
		[ $cf_j$cf_once -lt 10000 ] || return 1
	done
}

# script writes the worker's script, anew for each worker: hostile code may have written to the last one's. What is the same for all units
# stands here, in as few lines as may be: a line is parsed before its unit comes.
#
# To open a fifo for reading waits until somebody has it open for writing: "a writer is there" is the event, and nothing that hostile code
# could fill is ever written to. Two fifos in turn, or one unit would be run twice; the loops take up an open that a signal interrupted. A
# shell that falls out of a unit, to the next command or to the next line, goes into it once more, for its tag. Each command gets a
# description of its own of the two pipes, opened while nobody waits: what it sets on it (O_NONBLOCK) is gone with it. A forked copy of the
# worker that fell back to the script must neither run a unit nor mark its end.
#
# The worker reads a unit by its name, which bash puts before what it says of a script's mistakes. The name is in reach of hostile code: then
# the worker reads something else, or waits, until somebody ends it. One that is gone is done without. This shell never opens it.
script() {
	cf_g='case ${BASHPID-$$} in $$) ;; *) \exit;; esac'
	cf_b="case \${cf_m-}x\${cf_k-} in x) $cf_g; \\. /proc/self/fd/6;; x+) cf_k=+\$?; $cf_g; \\. /proc/self/fd/6;; x?*) cf_k=+\${cf_k#+}; $cf_g; \\. /proc/self/fd/6;; esac"
	cf_b="$cf_b; case \${cf_k-} in ?*) $cf_g; \\command printf '${cf_p}e%s %s %s$cf_p\\n' \"\${cf_m-}\" \"\$cf_k\" \"\${PWD-}\" && \\command printf '${cf_p}e%s\\n' \"\${cf_m-}\" >&5 || \\exit 98; cf_k=;; esac"
	printf '%s\n' "cf_n='$cf_n'"
	for cf_x in 8 9 8 9 8 9 8 9; do
		printf '%s\n' "\\exec 3>/proc/self/fd/1 4>/proc/self/fd/5; until 7</proc/self/fd/$cf_x; do :; done; cf_k= cf_m=; $cf_g; \\command . $cf_us; $cf_b" "$cf_b"
	done
	printf '%s\n' '\exec </proc/self/fd/0'
}

# The worker's parent says how it ended. It may block where it writes; this shell never does.
worker() {
	script >self/fd/7 || exit 97
	cf_i=$((cf_i + 1)) cf_e=8 cf_s=
	try watch "$@" || exit 97
	cf_l=$!
	born
}
watch() {
	exec 2<>/dev/null
	trap : HUP INT QUIT USR1 USR2 PIPE ALRM TERM
	cf_s=0
	eval "${cf_c:-unset LC_ALL}"
	cd -- "$cf_w" && "$@" </proc/self/fd/7 3<&- 7>&- >&4 4>&- || cf_s=$?
	over $cf_s
}
# over STATUS: says that the worker has ended.
over() {
	printf '%sx%s %s\n' $cf_p $cf_i "$1" >&4
	printf '%sx%s\n' $cf_p $cf_i >&5
}

# help TEXT [still]: evaluates it, and marks the begin and the end of what it prints, in place of the worker, which may be gone or lie.
# What it leaves in cf_j stands in the mark, where the directory would: nobody's output can get between. Still is to have nobody else's
# output behind the begin. The programs' words are read, so they are not to be translated.
help() {
	export LC_ALL
	cf_j=
	exec >&4 2>&5 3<&- 6>&- 7>&- 8>&- 9>&-
	[ $# = 1 ] || still
	opened
	# A fork or a redirection that fails ends bash; busybox it ends without a word, but for command.
	trap 'ended $? "$cf_j"' EXIT
	trap 'exit 143' TERM
	body "$1"
}
# told marks the end of a helper, which was ended. The next signal may end what marks it, and is followed by a mark of its own.
told() { [ -z "$cf_hm" ] || try killed; }
killed() {
	exec >&4 2>&5
	cf_m=$cf_hm
	opened
	ended 137
}
body() { command eval "$1"; }
opened() {
	printf '%sb%s\n' $cf_p $cf_m
	printf '%sb%s\n' $cf_p $cf_m >&2
}
ended() {
	printf '%se%s %s %s%s\n' $cf_p $cf_m "$1" "${2-}" $cf_p
	printf '%se%s\n' $cf_p $cf_m >&2
}

# put FILE NEW MODE: for a helper, gives the new file that came its name and permissions, when it is
# whole. A directory's default access list takes the place of the mask under which it was made. The
# statuses are those of a file that did not come, and of a directory in the way.
put() {
	[ "$cf_ok" = 0 ] || { rm -f "$2"; return 107; }
	[ ! -d "$1" ] || [ -L "$1" ] || return 103
	chmod "$3" "$2" || return 1
	# A link to a directory would be followed, and busybox's mv takes none that leads in a circle.
	[ ! -L "$1" ] || rm -f "$1"
	mv -f "$2" "$1" || return 1
}

# raw SIZE COUNT: for a process of its own, copies blocks of stdin, which is open as 8, to stdout. Whoever could look into that process could
# hold stdin open.
raw() {
	exec <&8 9<&2 2<>/dev/null
	body "exec $cf_dd bs=$1 count=$2 iflag=fullblock"
}
# small does it for a new file.
small() {
	umask "$cf_k"
	set -C
	body "exec >$cf_x" && raw "$cf_y" 1
}

# gather WHEN: reaps orphans, which would fill the process limit, and sees to the worker's parent.
gather() {
	jobs >&2
	tend "$1"
}

# frame sets cf_open to what stands before a script, on its first line, and cf_close to what follows that: the rest of its line, what the
# worker does behind it, and the tag for its mark, which no variable holds while it runs. It must not read on: if the mark was forged, the
# file is that of the next unit by then.
#
# cf_call and cf_called are the same for a program. What the worker says of it goes to a file, and not where the program writes. Of one that
# was killed it says something, and of one that has ended by itself nothing; bash speaks of background jobs too. If the worker could not
# fork it fell out of the unit, and what it said is why.
frame() {
	cf_x="cf_k=+$cf_h$cf_to"
	cf_y="\\command read -r cf_q; do"
	cf_open="case \$cf_k in +*) cf_k=\${cf_k#+};; *) $cf_x; "
	cf_call="case \$cf_k in +*) cf_k=\${cf_k#+}; while IFS= $cf_y \\command printf '%s\\n' \"\$cf_q\"; done <\"\$cf_e\" >&4;; *) cf_e=; $cf_x; "
	cf_call="${cf_call}for cf_e in $cf_ud /dev/null; do { ( { \\set +x; } 2>&7; "
	cf_x=";; esac
${cf_fro}cf_m=$cf_m; \\return"
	cf_close=" $cf_r
cf_k=\$?$cf_x"
	cf_called=" $cf_r 7>&- ) 2>&4 && cf_k=0 || cf_k=\$?; \\break; } 7<&2 2>\"\$cf_e\"; done
case \$cf_k in 129|1[3-8]?|19[0-2]) while $cf_y case \${BASH_VERSION+b}\$cf_q in *' 8>&- 9>&- 7>&- ) '*|[!b]*) cf_k=s\${cf_k#s};; esac; done <\"\$cf_e\";; esac$cf_x"
}

# run wakes the worker. The event before must have been closed.
run() {
	case $cf_e in
	8) cf_e=9; exec 1<>self/fd/8 ;;
	*) cf_e=8; exec 1<>self/fd/9 ;;
	esac
}

worker "$@"
# The names are gone before the first unit, and the worker starts meanwhile.
rm -f "$cf_d/sh" "$cf_d/raw" "$cf_d/s" "$cf_d/a" "$cf_d/b"
while IFS= read -r cf_x; do
	case $cf_x in
	# nTAG: of the next unit. It is sent ahead, to be read while nobody waits.
	n*) cf_m=${cf_x#n} cf_h= cf_to= cf_fro=
		frame ;;
	# eWORD: evaluates a word. aWORDS: runs a program.
	e*) begin
		exec 1>self/fd/6 || exit 97
		printf '%s\n' "$cf_open\\command eval ${cf_x#e} <&2$cf_close" || exit 97
		run ;;
	a*) begin
		exec 1>self/fd/6 || exit 97
		printf '%s\n' "$cf_call\\command exec <&7 ${cf_x#a}$cf_called" || exit 97
		run ;;
	# b for a script or c for a program, then +LINE or -PART of a line, then gPART: a longer unit.
	b) begin
		cf_z=$cf_close
		printf '%s' "$cf_open" >self/fd/6 || exit 97 ;;
	c) begin
		cf_z=$cf_called
		printf '%s' "$cf_call" >self/fd/6 || exit 97 ;;
	+*) printf '%s\n' "${cf_x#+}" >>self/fd/6 || exit 97 ;;
	-*) printf '%s' "${cf_x#-}" >>self/fd/6 || exit 97 ;;
	g*) exec 1>>self/fd/6 || exit 97
		printf '%s\n' "${cf_x#g}$cf_z" || exit 97
		run ;;
	# m: the next unit begins with a mark. yTEXT, zTEXT: what the worker does before and behind it.
	m) cf_h="; \\command printf '${cf_p}b$cf_m\\n'; \\command printf '${cf_p}b$cf_m\\n' >&5"
		frame ;;
	y*) cf_to="; ${cf_x#y}"
		frame ;;
	z*) cf_fro="${cf_x#z}; "
		frame ;;
	# o: tells how many processes of the container the kernel has killed for memory, or "-" if it does not say, and whether the last
	# walk of a kill found nothing any more: 1 if so.
	o) cf_j=-
		for cf_q in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
			while read -r cf_a cf_b; do case $cf_a in oom_kill) cf_j=$cf_b ;; esac; done <$cf_q
		done
		try help "cf_j='$cf_j ${cf_f-}'" ;;
	t) gather tick ;;
	# kSIG: signals what the command started. w: kills the worker with it. s: starts a new worker.
	k*) end "${cf_x#k}"
		told ;;
	w) end KILL worker
		gather killed ;;
	s) gather old
		worker "$@" ;;
	# dNAME COUNT REST: COUNT blocks of 64 KiB and REST raw bytes follow, for a new file of that name. Nothing is to run until h: the file could
	# be replaced by a fifo, and the end of stdin would be missed. The last file goes first, if no unit has taken it: there is room for two.
	# It is not waited for long, for what removes it can be stopped.
	d*) freeze
		cf_x=${cf_x#d} cf_y=${cf_x#* } cf_j=0
		[ ! -f "$cf_d/$cf_in" ] || try body 'rm -f "$cf_d/$cf_in"'
		while [ -f "$cf_d/$cf_in" ] && [ $cf_j -lt 10000 ]; do
			jobs >&2
			cf_j=$((cf_j + 1))
		done
		cf_in=${cf_x%% *}
		{
			[ "${cf_y% *}" = 0 ] || attend raw 65536 "${cf_y% *}" || exit 97
			[ "${cf_y#* }" = 0 ] || attend raw "${cf_y#* }" 1 || exit 97
		} 8<&0 >"$cf_d/$cf_in" || exit 97 ;;
	# pCOUNT MASK END WORD: COUNT raw bytes follow, and a line that ends with END, for a small file of that name, which must be fresh. If it
	# can't be made, or not be filled, nothing is lost: what nobody has read is read up to that line.
	p*) freeze
		cf_x=${cf_x#p}
		cf_y=${cf_x%% *} cf_x=${cf_x#* }
		cf_k=${cf_x%% *} cf_x=${cf_x#* }
		cf_b=${cf_x%% *} cf_x=${cf_x#* }
		cf_ok=0
		attend small 8<&0 || cf_ok=1
		while IFS= read -r cf_x; do case $cf_x in *"$cf_b") break ;; esac; done ;;
	# fTEXT, rTEXT: evaluates it in a process of this shell's own, while nothing else runs until h; the second for what it prints.
	f* | r*) freeze
		jobs >&2
		clock
		cf_hm=$cf_m cf_hp=
		case $cf_x in
		f*) try help "${cf_x#f}" && cf_hp=$! ;;
		*) try help "${cf_x#r}" still && cf_hp=$! ;;
		esac ;;
	h) thaw ;;
	esac
done
finish
