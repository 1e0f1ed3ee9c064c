# The text before this one has set cf_prefix, the prefix of every mark; cf_dir, a
# directory of its own; "$@", the worker shell or nothing; and the functions that end
# processes.
[ $# -gt 0 ] || if command -v bash >/dev/null 2>&1; then set -- bash; else set -- sh; fi
# In a multibyte locale a shell would take a newline after half a character for its end.
# The worker keeps its own locale.
cf_locale=${LC_ALL+"LC_ALL=\$cf_lc_all"} cf_lc_all=${LC_ALL-} LC_ALL=C
# Paths are relative to /proc: where the root is slow to look up, as with fuse-overlayfs,
# every path that begins there costs a tenth of a command.
cf_workdir=$PWD
cd /proc || exit 97
# 0 is the lifeline. 1 and 2 are /dev/null, or what reads raw bytes. 3 is the FIFO of
# blocks, where there is one. 4 and 5 are the session's outputs. 6 is the unit and 7 the
# worker's stdin, both files. 8 and 9 are the FIFOs through which the two take turns.
exec 4>&1 5>&2
# Dash names ten descriptors and no more. So the program that reads stdin has the place of
# /dev/null: what this shell says is lost either way.
case $cf_dd in *fd*) exec 1<&9 ;; *) exec 1<>/dev/null ;; esac
: >"$cf_dir/script" && exec 6<>"$cf_dir/script" || exit 97
: >"$cf_dir/s" && exec 7<>"$cf_dir/s" || exit 97
mkfifo "$cf_dir/a" "$cf_dir/b" && exec 8<>"$cf_dir/a" 9<>"$cf_dir/b" &&
	exec 8<"$cf_dir/a" 9<"$cf_dir/b" || exit 97
exec 2<&1 1>&-

cf_redirect='>&3 2>&4 3>&- 4>&- 5>&- 6>&- 8>&- 9>&-'
cf_gen=0 cf_upload= cf_help_tag= cf_help_pid= cf_helper= cf_once=${BASH_VERSION+once}
# A newline, which no operation can hold.
cf_nl='
'

# try COMMAND: runs it in the background. What is forked must not hold the event: the
# worker would take it for the next one, and run its unit again.
try() {
	exec 1>&-
	room && spawn "$@"
	cf_num=$?
	calm
	return $cf_num
}
# spawn COMMAND: at the process limit a fork fails until the dead are reaped, and would
# end this shell. The living may fill the limit too: then it gives up in the end, since
# the end of stdin must not be missed. Bash has tried for long by then. Nothing may
# inherit stdin: bash does not see to that once a loop was redirected.
spawn() {
	cf_num=0
	until command eval '( "$@" ) </dev/null &'; do
		[ -z "$cf_once" ] && crowded || return 1
	done
}

# script writes the worker's script anew for each worker, since hostile code may have
# written to the last one. It holds what all units share, in few lines: a line is parsed
# before its unit comes.
#
# An open of a fifo for reading waits for a writer, which is the event. There are two
# fifos, or one unit would run twice. The loops repeat an open that a signal interrupted.
# A trap may leave such a loop by a break: then no unit has come, and the last one must
# not run again. It may leave that of a program, too: then nobody knows its status. The
# worker ends in either case.
#
# A shell that falls out of a unit, to the next command or to the next line, goes into it
# once more, for its tag. Each command opens the two pipes anew, while nobody waits: what
# it sets on them (O_NONBLOCK) is gone with it. A forked copy of the worker that fell back
# to the script must neither run a unit nor mark its end.
#
# The worker opens a unit by its name, which bash puts before its messages. Hostile code
# can replace the name: then the worker reads something else, or waits, until somebody
# ends it. Without the name it reads descriptor 6. This shell never opens it.
#
# A function of the worker's may have any name, in bash also that of a special builtin. So
# each command stands after "command", and cf_plain takes away a function of that name.
#
# In busybox an error in a subshell makes that go on after the nearest "command", or loop
# where that is no line of this script: so a unit's own text has an eval without it, and
# cf_again ends what is not the worker.
script() {
	cf_guard='case ${BASHPID-$$} in $$) ;; *) \command exit;; esac'
	cf_again="$cf_plain; case \${BASHPID-\$cf_status} in \$\$) ;; +*) \command read -r cf_said </proc/self/stat; case \$cf_said in \"\$\$ \"*) ;; *) \command exit \${cf_status#+};; esac;; *) \command exit;; esac; \\command . /proc/self/fd/6"
	cf_ending="case \${cf_tag-}x\${cf_status-} in x) $cf_plain; $cf_guard; \\command . /proc/self/fd/6;; x+) cf_status=+\$?; $cf_again;; x?*) cf_status=+\${cf_status#+}; $cf_again;; esac"
	cf_ending="$cf_ending; case \${cf_status-} in +*) \\command exit 98;; ?*) $cf_guard; cf_status=\"\$cf_status \${PWD-}\"; case \${#cf_status} in ????*) cf_status=\"\${cf_status%% *} \";; esac; \\command printf '${cf_prefix}e%s %s$cf_prefix\\n' \"\${cf_tag-}\" \"\$cf_status\" && \\command printf '${cf_prefix}e%s\\n' \"\${cf_tag-}\" >&5 || \\command exit 98; cf_status=;; esac"
	printf '%s\n' "cf_said=\${cf_worker-}; \\command unset -v cf_worker; cf_worker=\$cf_said cf_nl='$cf_nl'"
	for cf_fd in 8 9 8 9 8 9 8 9; do
		printf '%s\n' "\\command exec 3>/proc/self/fd/1 4>/proc/self/fd/5 || \\command exit 98; until 7</proc/self/fd/$cf_fd && cf_status=o; do cf_tag=; done; case \${cf_status-} in o) ;; *) \\command exit 98;; esac; cf_status= cf_tag=; $cf_guard; \\command . $cf_script; $cf_ending" "$cf_ending"
	done
	printf '%s\n' '\command exec </proc/self/fd/0'
}
cf_plain='case ${BASH_VERSION+b} in b) \builtin unset -f command;; *) \unset -f command;; esac'

# The worker's parent says how it ended. It may block where it writes; this shell never
# does.
worker() {
	cf_gen=$((cf_gen + 1)) cf_event=8 cf_quiet= cf_fresh=+
	try watch "$@" || exit 97
	cf_watch=$!
	born
}
watch() {
	exec 2<>/dev/null
	script >self/fd/7 || exit
	trap : HUP INT QUIT USR1 USR2 PIPE ALRM TERM
	cf_exit=0
	eval "${cf_locale:-unset LC_ALL}"
	cf_worker=$cf_gen
	export cf_worker
	cd -- "$cf_workdir" && "$@" </proc/self/fd/7 3<&- 7>&- >&4 4>&- || cf_exit=$?
	worker_ended $cf_exit
}
# worker_ended STATUS: says that the worker has ended.
worker_ended() {
	printf '%sx%s %s\n' $cf_prefix $cf_gen "$1" >&4
	printf '%sx%s\n' $cf_prefix $cf_gen >&5
}

# help TEXT [still]: evaluates it, and marks the begin and the end of what it prints, in
# place of the worker, which may be gone or lie. What it leaves in cf_result stands in the
# mark, where the directory would: no output can come between. With still, everything
# else was stopped. Who writes to the output's pipe may do so until it is at rest, and who
# reads it may take a mark away. The host reads the programs' messages: they must not be
# translated.
help() {
	export LC_ALL
	cf_result=
	[ $# = 1 ] || still 100
	exec >&4 2>&5 3<&- 6>&- 7>&- 8>&- 9>&-
	opened
	# A fork or a redirection that fails ends bash. It ends busybox without a word,
	# unless command stands before it.
	trap 'ended $? "$cf_result"' EXIT
	trap 'exit 143' TERM
	body "$1"
}
# helper_killed marks the end of a helper, which was ended. The next signal may end what
# marks it, and is followed by a mark of its own.
helper_killed() { [ -z "$cf_help_tag" ] || try killed; }
killed() {
	exec >&4 2>&5
	cf_tag=$cf_help_tag
	opened
	ended 137
}
body() { command eval "$1"; }
opened() {
	printf '%sb%s\n' $cf_prefix $cf_tag
	printf '%sb%s\n' $cf_prefix $cf_tag >&2
}
ended() {
	printf '%se%s %s %s%s\n' $cf_prefix $cf_tag "$1" "${2-}" $cf_prefix
	printf '%se%s\n' $cf_prefix $cf_tag >&2
}

# put FILE NEW MODE: for a helper, gives the new file its name and permissions once it is
# whole. A directory's default access list takes the place of the mask under which it was
# made. Status 107: it did not come. 103: a directory is in the way.
put() {
	[ "$cf_ok" = 0 ] || { rm -f "$2"; return 107; }
	[ ! -d "$1" ] || [ -L "$1" ] || return 103
	chmod "$3" "$2" || return 1
	# A link to a directory would be followed, and busybox's mv refuses one that leads
	# in a circle.
	[ ! -L "$1" ] || rm -f "$1"
	mv -f "$2" "$1" || return 1
}

# raw SIZE COUNT: for a process of its own, copies blocks of stdin, which is open as 8, to
# stdout. Whoever could look into that process could hold stdin open.
raw() {
	exec <&8 9<&2 2<>/dev/null
	body "exec $cf_dd bs=$1 count=$2 iflag=fullblock"
}
# small copies one block to a new file.
small() {
	umask "$cf_mask"
	set -C
	body "exec >$cf_name" && raw "$cf_size" 1
}

# gather WHEN: reaps orphans, which would fill the process limit, and sees to the worker's
# parent.
gather() {
	jobs >&2
	tend "$1"
}

# frame sets cf_open to what stands before a script, on its first line, and cf_close to
# what follows that: the rest of its line, what the worker does after it, and the tag for
# its mark, which no variable holds while it runs. The worker must not read on: if the
# mark was forged, the file is that of the next unit by then.
#
# cf_call and cf_called are the same for a program. The worker's messages go to a file,
# and not where the program writes. There is one if the program was killed, and none if it
# ended by itself; bash reports background jobs, too. A worker that can't fork falls out
# of the unit, and its message says why.
frame() {
	cf_head="cf_status=+$cf_mark$cf_before"
	cf_read="\\command read -r cf_said; do"
	cf_open="case \$cf_status in +*) cf_status=\${cf_status#+};; *) $cf_head; "
	cf_call="case \$cf_status in +*) cf_status=\${cf_status#+}; while IFS= $cf_read \\command printf '%s\\n' \"\$cf_said\"; done <\"\$cf_err\" >&4;; *) cf_err=; $cf_head; "
	cf_call="${cf_call}for cf_err in $cf_died /dev/null; do { ( { \\command set +x; } 2>&7; "
	cf_foot=";; esac
$cf_plain; ${cf_after}cf_tag=$cf_tag; \\command return"
	cf_close=" $cf_redirect
cf_status=\$?$cf_foot"
	cf_called=" $cf_redirect 7>&- ) 2>&4 && cf_status=0 || cf_status=\$?; \\command break; } 7<&2 2>|\"\$cf_err\"; done
case \$cf_status in 129|1[3-8]?|19[0-2]) while $cf_read case \${BASH_VERSION+b}\$cf_said in *' 8>&- 9>&- 7>&- ) '*|[!b]*) cf_status=s\${cf_status#s};; esac; done <\"\$cf_err\";; esac$cf_foot"
}

# cf_keep keeps the variables of cf_vars, a list of names with a space after each, and
# exports them; cf_give gives them back. Bash needs neither. In busybox an error in a
# subshell would loop for ever after a command with variables of its own, so these are
# set for good.
#
# No shell but bash tells without a list of all whether a variable is exported. A value
# that no other variable has says that it is in the list.
cf_each='case $cf_left in ?*) cf_var=${cf_left%% *} cf_left=${cf_left#"$cf_var"} cf_left=${cf_left# };; *) \command false;; esac'
cf_keep="case \${BASH_VERSION+b} in b) ;; *) cf_sent=: cf_left=\$cf_vars; cf_said=\$(while $cf_each; do \\command eval \"\$cf_var=cf_kept_\$cf_var:\" || \\command :; done 2>/dev/null; \\command export -p); while $cf_each; do case \$cf_said in *cf_kept_\$cf_var:*) cf_sent=\$cf_sent\$cf_var:;; esac; \\command eval \"case \\\${\$cf_var+s} in s) cf_kept_\$cf_var=\\\$\$cf_var;; esac; \\command export \$cf_var\"; done; cf_said=;; esac"
cf_give="case \${BASH_VERSION+b} in b) ;; *) cf_left=\${cf_vars-}; while $cf_each; do \\command eval \"\\command unset -v \$cf_var; case \\\${cf_kept_\$cf_var+s} in s) \$cf_var=\\\$cf_kept_\$cf_var;; esac; case \$cf_sent in *:\$cf_var:*) \\command export \$cf_var;; esac\" || \\command :; \\command unset -v cf_kept_\$cf_var; done; cf_vars=;; esac"

# block does the operations in a block, which come as a script: shells read that in large
# pieces, and a text in it is copied once. It waits for nothing: the whole block was there
# before the operation that calls for it, and nobody else can read it. The script ends
# with a return, or the shell would read on. Bash reads a script to the end of its file,
# which this one has not.
#
# Where there is a keep-alive there is no such FIFO, and what 3 is instead may never end.
case ${cf_alive:+none}${BASH_VERSION+bash} in
none*) block() { exit 97; } ;;
bash)
	block() {
		cf_text= cf_piece=
		while IFS= read -r -u 3 cf_op; do
			case $cf_op in "return 0 #$cf_prefix") break ;; esac
			add "$cf_op$cf_nl"
		done
		eval "$cf_text$cf_piece"
	}
	;;
*) block() { command . self/fd/3 || exit 97; } ;;
esac

# add TEXT: adds to the text of a longer unit, in two steps: a shell copies a variable
# whole for each change.
#
# What is in the pipe is read before its end is seen, and to read it byte by byte takes
# most of a minute beside a few hundred processes that want the processor. So all but a
# short text is read while nothing else runs.
add() {
	cf_piece=$cf_piece$1
	[ ${#cf_piece} -ge 512 ] || return 0
	[ -n "$cf_frozen" ] || { freeze; cf_frozen=unit; settle; }
	[ ${#cf_piece} -ge 65536 ] || return 0
	cf_text=$cf_text$cf_piece cf_piece=
}
# go_on lets run what was stopped for a unit: it was begun, or does not come, since the
# host has taken back what was left of it.
go_on() { case $cf_frozen in unit) thaw ;; esac; }
# write puts the unit, which is in cf_unit, where the worker reads it: an argument would
# be copied once more for each function that passes it on. The event is closed then. What
# is in cf_first comes before the unit.
#
# A worker that was lost may live: its parent was killed, or somebody has faked its end. It
# must run no unit beside the new one. So each knows its generation, from its environment,
# and a unit ends a worker of another. One whose environment was cleared runs it, too.
write() {
	exec 1>self/fd/6 && printf '%s%s\n' "case \${cf_worker:-$cf_gen} in $cf_gen) ;; *) \\command exit 98;; esac; $cf_first" "$cf_unit"
}
# unit runs the unit.
unit() {
	begin
	hand && case $cf_event in
	8) cf_event=9; exec 1<>self/fd/8 ;;
	*) cf_event=8; exec 1<>self/fd/9 ;;
	esac
	go_on
}

# begins sets cf_begins to what marks the begin of the unit that was named. A unit whose
# begin can't be marked does not run: it would count as one that never ran, and run again.
begins() {
	cf_begins="\\command printf '${cf_prefix}b$cf_tag\\n' && \\command printf '${cf_prefix}b$cf_tag\\n' >&5 || \\command exit 98"
}

# name TAG: of the next unit. It is sent ahead, to be read while nobody waits.
name() {
	cf_tag=$1 cf_mark= cf_before= cf_after=
	go_on
	frame
}

# assist TEXT: evaluates it in a process of this shell's own, while nothing else runs
# until h.
assist() {
	freeze
	jobs >&2
	clock
	cf_help_tag=$cf_tag cf_help_pid= cf_helper=
	try help "$1" still && cf_help_pid=$! cf_helper=$! || { thaw; cf_helper=none; }
}

# shape OPERATION: changes what the next unit is.
shape() {
	case $1 in
	# b for a script or c for a program, then +LINE or -PART of a line, and g: a longer
	# unit.
	b) cf_text=$cf_open cf_piece= cf_tail=$cf_close ;;
	c) cf_text=$cf_call cf_piece= cf_tail=$cf_called ;;
	+*) add "${1#+}$cf_nl" ;;
	-*) add "${1#-}" ;;
	# m: the next unit begins with a mark. yTEXT, zTEXT: what the worker does before
	# and after it.
	m) begins
		cf_mark="; $cf_begins"
		frame ;;
	y*) cf_before="; ${1#y}"
		frame ;;
	z*) cf_after="${1#z}; "
		frame ;;
	# v: and it is a script with variables of its own, which evaluates cf_keep.
	v) cf_before="$cf_before; cf_keep='$cf_keep'" cf_after="$cf_give; $cf_after"
		frame ;;
	esac
}

# pick FILE...: sets cf_picked to the last of them that is there, or to nothing. This is
# before anything else runs inside: a program that is root there could make such a file
# later, or replace a link to its directory.
pick() {
	cf_picked=
	for cf_file in "$@"; do
		[ ! -f "$cf_file" ] || [ -L "${cf_file%/*}" ] || cf_picked=$cf_file
	done
}
pick /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control
cf_kills=$cf_picked cf_cpu= cf_memory=
# What is used is the container's own if this is the only process of the control group.
case $cf_pids in 1)
	pick /sys/fs/cgroup/cpu.stat /sys/fs/cgroup/*cpuacct*/cpuacct.usage
	cf_cpu=$cf_picked
	pick /sys/fs/cgroup/memory.peak /sys/fs/cgroup/memory/memory.max_usage_in_bytes
	cf_memory=$cf_picked
	;;
esac
# count sets cf_counts to the processor time that was used, in nanoseconds, and the peak
# of memory, in bytes, with "-" for what is not known.
count() {
	cf_used=- cf_peak=-
	[ -z "$cf_cpu" ] || read -r cf_used cf_part <"$cf_cpu"
	case $cf_used in usage_usec) cf_used=${cf_part:+${cf_part}000} ;; esac
	[ -z "$cf_memory" ] || read -r cf_peak <"$cf_memory"
	cf_counts="${cf_used:--} ${cf_peak:--}"
}
cf_noted='- -' cf_first=
# kills sets cf_killed to how many processes the kernel has killed for memory, or to "-"
# if it does not say.
kills() {
	cf_killed=-
	[ -z "$cf_kills" ] || while read -r cf_key cf_value; do
		case $cf_key in oom_kill) cf_killed=$cf_value ;; esac
	done <"$cf_kills"
}

worker "$@"
# The names are gone before the first unit, and the worker starts meanwhile.
rm -f "$cf_dir/sh" "$cf_dir/raw" "$cf_dir/s" "$cf_dir/a" "$cf_dir/b"
while take; do
	# Each operation begins with cf_lead. What does not is the rest of a line whose
	# beginning was lost: see settle.
	case $cf_op in "$cf_lead"*) cf_op=${cf_op#"$cf_lead"} ;; *) exit 97 ;; esac
	case $cf_op in
	x) block ;;
	n*) name "${cf_op#n}" ;;
	# eWORD: evaluates a word. aWORDS: runs a program.
	e*) cf_unit="$cf_open\${BASH_VERSION+\"command\"} eval ${cf_op#e} <&2$cf_close"
		unit ;;
	a*) cf_unit="$cf_call\\command exec <&7 ${cf_op#a}$cf_called"
		unit ;;
	# gPART: runs a longer unit.
	g*) cf_unit=$cf_text$cf_piece${cf_op#g}$cf_tail
		unit ;;
	# u: notes the counts.
	u) count
		cf_noted=$cf_counts ;;
	# o: tells how many processes the kernel has killed for memory, or "-" if it does
	# not say, 1 if the last walk of a kill found nothing, the counts as they were noted
	# and as they are, and 1 if cf_first had the last unit mark its begin.
	o) kills
		count
		case $cf_first in '') cf_marks=0 ;; *) cf_marks=1 ;; esac
		try help "cf_result='$cf_killed ${cf_none--} $cf_noted $cf_counts $cf_marks'" ;;
	t) gather tick ;;
	r) gather reap ;;
	# kSIG: signals what the command started. w: kills the worker with it. s: starts a
	# new worker.
	k*) end "${cf_op#k}"
		helper_killed ;;
	w) end KILL worker
		gather killed
		helper_killed ;;
	s) jobs >&2
		worker "$@" ;;
	# lGEN: the host knows that this worker has ended, so its parent is not missed.
	l*) [ "${cf_op#l}" != "$cf_gen" ] || cf_watch=1 ;;
	# dNAME COUNT REST: COUNT blocks of 64 KiB and REST raw bytes follow, for a new
	# file of that name. Nothing is to run until h: the file could be replaced by a
	# fifo, and the end of stdin would be missed. The last file is removed first, if
	# no unit has taken it: there is room for two. The wait for that is short, since
	# what removes it can be stopped.
	d*) freeze
		cf_op=${cf_op#d} cf_sizes=${cf_op#* } cf_num=0
		[ ! -f "$cf_dir/$cf_upload" ] || try body 'rm -f "$cf_dir/$cf_upload" 3<&-'
		while [ -f "$cf_dir/$cf_upload" ] && [ $cf_num -lt 10000 ]; do
			jobs >&2
			cf_num=$((cf_num + 1))
		done
		cf_upload=${cf_op%% *}
		# While 1 is another, a shell keeps what it was at a number that no redirection
		# can name. What is forked meanwhile must not have the event there.
		exec 1>&-
		{
			[ "${cf_sizes% *}" = 0 ] || attend raw 65536 "${cf_sizes% *}" || exit 97
			[ "${cf_sizes#* }" = 0 ] || attend raw "${cf_sizes#* }" 1 || exit 97
		} 8<&0 >"$cf_dir/$cf_upload" || exit 97 ;;
	# pCOUNT MASK END WORD: COUNT raw bytes follow, and a line that ends with END, for
	# a small file of that name, which must be fresh. If it can't be made, or not be
	# filled, nothing is lost: what nobody has read is read up to that line.
	p*) freeze
		cf_op=${cf_op#p}
		cf_size=${cf_op%% *} cf_op=${cf_op#* }
		cf_mask=${cf_op%% *} cf_op=${cf_op#* }
		cf_end=${cf_op%% *} cf_name=${cf_op#* }
		cf_ok=0
		attend small 8<&0 || cf_ok=1
		while take; do case $cf_op in
			*"$cf_end") break ;;
			# The line was lost in part, and this is the next operation.
			"${cf_lead:-$cf_end}"*) exit 97 ;;
			esac; done ;;
	# fTEXT: evaluates it in a helper.
	f*) assist "${cf_op#f}" ;;
	h) thaw
		cf_helper= ;;
	# i: the host is there, and asks for an answer.
	i) pulse ;;
	# j: is about a job, while a unit may be under way.
	j*) job "${cf_op#j}" ;;
	*) shape "$cf_op" ;;
	esac
done
finish
