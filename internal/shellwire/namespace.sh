# For process 1 of a namespace that was made for it, and for nothing else: it signals
# every process it sees.
[ $$ = 1 ] || exit 96
# Process 1 gets no signal from inside but those it handles. Busybox ash handles this one,
# by ending.
trap '' INT
# To exit closes the event, which waits for the kernel's lock of it. Whoever holds the
# lock would be ended only after that.
finish() {
	kill -KILL -1
	exit 0
}
freeze() {
	kill -STOP -1
	cf_frozen=1
}
# settle waits until this shell's own children have stopped, after freeze. Each tells it
# so by a SIGCHLD. Busybox forgets then what it has read of a line.
settle() {
	cf_num=0 cf_kids=
	read -r cf_kids <self/task/1/children
	for cf_task in $cf_kids; do
		while state "$cf_task" && [ $cf_num -lt 500 ]; do
			case $cf_state in [TtZX]) break ;; esac
			cf_num=$((cf_num + 1))
		done
	done
}
thaw() {
	case $cf_frozen in '') kill -CONT -1 ;; *) wake ;; esac
	cf_frozen= cf_held= cf_help_pid=
}
# wake [PID]: lets all that was stopped go on, once it is at rest. The kernel gives a
# child that is being forked the SIGSTOP that comes meanwhile, but not the SIGCONT, unless
# its parent handles that: the child would stay stopped. What is not at rest in time may
# be such a parent, and the next tick lets its child go on. A process of this shell's with
# that number was not stopped.
wake() {
	cf_forks=1
	still 30 forks "$@" && cf_forks=
	kill -CONT -1
}
# helping: is everything stopped but a helper? It would not go on before its end.
helping() { [ -n "$cf_frozen" ] && [ -n "$cf_help_pid" ]; }
# stop stops what is not stopped yet, but no helper.
stop() { helping || kill -STOP -1; }
cf_time=0 cf_newest=0 cf_frozen= cf_forks= cf_crowded= cf_limit= cf_pids= cf_missed=
# The file that tells the newest process; if empty, loadavg does, which takes longer.
cf_last=/proc/sys/kernel/ns_last_pid
{ read -r cf_newest <$cf_last || cf_last=; } 2>/dev/null
# Behind this number they begin anew. The kernel shows no more of it than the first read
# takes, which is one byte in dash and busybox.
cf_largest=
command eval 'cf_largest=$(dd </proc/sys/kernel/pid_max)' 2>/dev/null
case $cf_largest in '' | *[!0-9]*) cf_largest=32768 ;; esac
# This file tells how many processes are in the container, if its own control group can be
# seen. There is no other of that name. A program that is root inside could replace a link
# on the way to it later.
cf_processes=self/none
for cf_group in /sys/fs/cgroup/pids/pids /sys/fs/cgroup/pids; do
	{
		[ ! -L "${cf_group%/*}" ] && read -r cf_pids <$cf_group.current &&
			cf_processes=$cf_group.current &&
			read -r cf_limit <$cf_group.max
	} 2>/dev/null
done
# room makes sure that there is room for one more process, and calm undoes it. It is for
# bash, which tries for a quarter of a minute to fork where there is none, and reads
# nothing meanwhile, and then ends. What fills the limit would take the room, if it were
# not stopped. Each that was about to fork as it was stopped still does so first: they are
# waited for where there may not be room for all.
case ${BASH_VERSION+bash}$cf_limit in
bash[1-9]*)
	room() {
		stop
		cf_num=0 cf_crowded=1
		while read -r cf_pids <$cf_processes && [ $((2 * cf_pids)) -ge "$cf_limit" ]; do
			still 20
			read -r cf_pids <$cf_processes && [ "$cf_pids" -ge "$cf_limit" ] || return 0
			crowded || return 1
		done
	}
	;;
*) room() { :; } ;;
esac
calm() {
	[ -n "$cf_crowded" ] || return 0
	cf_crowded=
	[ -n "$cf_frozen" ] || wake "$!"
}
# crowded is called where there was no room for one more process, and tells whether to
# try again. Those that fill the limit are stopped for that: they would take the
# processor, and a fork that fails takes long. They are stopped again each time, since
# some may have sent SIGCONT to the others meanwhile. What was killed may take a moment to
# die.
crowded() {
	stop
	jobs >&2
	cf_num=$((cf_num + 1)) cf_crowded=1
	now
	case $cf_num in 1) cf_since=$cf_now ;; esac
	[ $cf_num -lt 3 ] || [ "$cf_now" -lt $((cf_since + 25)) ]
}
# With a keep-alive these do more: see alive.sh. What answers the host is known by
# PID:START.
cf_pulse=none:
take() { IFS= read -r cf_op; }
pulse() { :; }
# attend COMMAND: runs it in a process of its own, as which it must end, and waits. If
# somebody stops that process the session ends: this shell would wait for ever, and miss
# the end of its stdin. Bash tells a stop like an end if it has job control; the others
# are woken by it.
attend() {
	if [ -n "$cf_once" ]; then
		room || return 1
		set -m
		( "$@" )
		cf_code=$?
		set +m
		case $cf_code in 14[789] | 150) exit 97 ;; esac
		return $cf_code
	fi
	cf_child=
	trap stopped CHLD
	command eval '( "$@" ) &' || { trap - CHLD; return 1; }
	cf_child=$!
	stopped
	until wait $cf_child; do
		# SIGCHLD ends a wait, and is 17 where engines run. Any other status is
		# the reader's own, and would come again for ever.
		[ $? = 145 ] || { trap - CHLD; return 1; }
	done
	trap - CHLD
}
# stopped uses no variable of what it may interrupt. Anybody can take from this shell the
# right to open a file: what it can't look at then may be stopped.
stopped() {
	[ -n "$cf_child" ] || return 0
	cf_looks=0
	while cf_child_state=
		while read -r cf_child_key cf_child_value cf_child_rest; do
			case $cf_child_key in State:) cf_child_state=$cf_child_value; break ;; esac
		done <$cf_child/status
		[ -z "$cf_child_state" ] && kill -0 $cf_child; do
		# Signals end a read too.
		cf_looks=$((cf_looks + 1))
		[ $cf_looks -lt 1000 ] || exit 97
	done
	case $cf_child_state in [Tt]) exit 97 ;; esac
}
# still TICKS [forks [PID]]: waits until whatever was stopped has come to the end of its
# system call: it may be writing. It fails if that takes longer: somebody may let it go on
# without end. What sleeps on a disk, or for a child that was stopped, is not waited for;
# if it may be forking, it is for a tenth of a second, and fails this, too.
still() {
	for cf_self in self/task/[0-9]*; do cf_self=${cf_self##*/}; done
	now
	cf_still=$((cf_now + $1)) cf_sleep=$((cf_now + 10))
	while cf_sleeps=; do
		for cf_task in [0-9]*/task/[0-9]*; do
			case $cf_task in 1/* | "$cf_self"/* | "${3-}"/*) continue ;; esac
			state "$cf_task"
			case $cf_state:${2-} in
			R:* | D:forks) now ;;
			*) continue ;;
			esac
			[ "${cf_now:-$cf_still}" -lt $cf_still ] || return 1
			case $cf_state in R) continue 2 ;; esac
			[ "$cf_now" -ge $cf_sleep ] || continue 2
			cf_sleeps=1
		done
		[ -z "$cf_sleeps" ]
		return
	done
}
# state PID: reads the state of a process. In this file it stands near the beginning, and
# dash and busybox read byte by byte. Linux lets no name have a newline in it there. GVisor
# does, and has no Umask before the state. Bash reads more than a line and goes back: where
# the process has ended meanwhile, which makes that fail, the rest would come at its next
# read of whatever file.
while read -r cf_key cf_rest; do
	case $cf_key in Umask: | State:) break ;; esac
done </proc/1/status
case ${BASH_VERSION+bash}$cf_key in
bash* | State:) state() { stat "$1"; } ;;
*)
	state() {
		cf_state=Z
		while read -r cf_key cf_value cf_rest; do
			case $cf_key in State:) cf_state=$cf_value; break ;; esac
		done <"$1/status"
	}
	;;
esac
# stat PID: reads the state, the parent, the session and the start time of a process, and
# how many threads it has. A process may be named "x) S 9 ": the fields begin after the
# last parenthesis.
stat() {
	cf_fields=
	while IFS= read -r cf_line; do cf_fields="$cf_fields$cf_line "; done <"$1/stat"
	set -- ${cf_fields##*") "}
	cf_state=${1-Z} cf_parent=${2-} cf_session=${4-} cf_threads=${18-0} cf_started=${20-0}
}
# now tells the time, in the ticks that process start times are in, or nothing. A number
# that begins with 0 would be an octal one.
now() {
	cf_now= cf_part=
	IFS=. read -r cf_now cf_part <uptime
	cf_now=$cf_now${cf_part%% *} cf_now=${cf_now#0} cf_now=${cf_now#0}
}
# clock notes the time, and the newest process for those that began in the same tick.
clock() {
	now
	cf_time=$cf_now
	case $cf_last in
	'') read -r cf_skip cf_skip cf_skip cf_skip cf_newest <loadavg ;;
	*) read -r cf_newest <$cf_last ;;
	esac
	case $cf_newest in
	'' | 0)
		# GVisor does not tell the newest, and rounds the time, but not that of a start:
		# what the command starts must be later by more than that.
		cf_newest=$cf_largest
		pass 2 ;;
	esac
	[ "$cf_newest" -lt 30000 ] || next
}
# pass TICKS: waits until it is that much later than was noted.
pass() {
	cf_num=0
	while [ "${cf_now:-0}" -lt $((cf_time + $1)) ] && [ $cf_num -lt 10000 ]; do
		cf_num=$((cf_num + 1))
		now
	done
}
# next waits for the next tick if the numbers could begin anew before that: what the
# command starts is later by its time then. More than a few hundred can't be made in a
# tick of 10 ms. The largest number may be made smaller later, to the usual 32768.
next() {
	[ $((cf_largest - cf_newest)) -lt 2000 ] || [ "$cf_newest" -lt 32768 ] || return 0
	pass 1
}
# born notes when the worker's parent started.
born() {
	stat "$cf_watch"
	cf_watch_start=$cf_started
}
# begin makes ready for a unit: what starts from now on belongs to it. If there is only
# this shell, the worker and its parent, as when the last two units began, what was noted
# then will do.
begin() {
	cf_help_tag= cf_pids=
	case $cf_fresh in ?) cf_fresh=++ ;; *) cf_fresh= ;; esac
	gather unrun
	read -r cf_pids <$cf_processes
	case $cf_pids$cf_quiet in
	3++) return ;;
	3 | 3+) cf_quiet=$cf_quiet+ ;;
	*) cf_quiet= ;;
	esac
	clock
}
# hand writes the unit. To write to a file waits for the kernel's lock of it, and whoever
# else can open the file can hold up that wait, many one after another. So while others
# live, a process of its own writes. What holds that one up for a second, or ends it, is
# ended for a new worker. A processor that is shared with many is no reason: then this
# shell does not look so often either. Where there is no room for that process, or a long
# unit would take it longer, everything is stopped instead, until the unit begins: to let
# it run in between could cost a second.
#
# Others may kill the worker just then, and its end must not pass for that of the unit. So
# a unit marks its begin unless three processes are counted: this shell, the worker and its
# parent. Where the worker is gone, or its killer, three are counted for a moment, too. Then
# the end passes for that of the unit.
hand() {
	cf_first=
	case $cf_pids in 3) write || exit 97; return ;; esac
	begins
	cf_first="case \${cf_status-} in '') $cf_begins;; esac; "
	exec 1>&-
	if [ ${#cf_unit} -lt 65536 ] && room && spawn write; then
		calm
		written || { miss unrun; return 1; }
	else
		freeze
		cf_frozen=unit cf_crowded=
		write || exit 97
	fi
}
# written waits for the process that writes, from when begin has noted the time. What has
# ended has no memory.
written() {
	cf_child=$! cf_num=0
	while cf_size=; read -r cf_size cf_rest <$cf_child/statm; [ "$cf_size" != 0 ]; do
		[ -n "$cf_size" ] || kill -0 $cf_child || break
		cf_num=$((cf_num + 1))
		[ $cf_num -ge 50 ] || continue
		now
		case $cf_now in
		'') [ $cf_num -lt 1000 ] || return 1 ;;
		*) [ $cf_now -lt $((cf_time + 100)) ] || return 1 ;;
		esac
	done
	wait $cf_child
}
# later: did the process that was looked at start after the command was named?
later() {
	[ "$cf_started" -gt "$cf_time" ] ||
		{ [ "$cf_started" -eq "$cf_time" ] && [ "$cf_pid" -gt "$cf_newest" ]; }
}
# bound limits how long this shell may look at processes, since it does not hear the end
# of stdin meanwhile, and spent tells whether that time is over. Those that let themselves
# go on, by a timer, take the processor, and a bomb of that kind forks faster than this
# shell walks. The host ends the container if it has no answer three seconds after it has
# asked for a SIGTERM. So both walks and the waits after them have to fit into that.
bound() {
	now
	cf_until=$((cf_now + 75)) cf_steps=0 cf_spent=
}
spent() {
	[ -z "$cf_spent" ] || return 0
	cf_steps=$((cf_steps + 1))
	case $cf_steps in *[!0]) return 1 ;; esac
	now
	[ "${cf_now:-$cf_until}" -ge $cf_until ] && cf_spent=1
}
# walk SIGNAL [worker]: signals what the command started, and tells whether there was
# anything. If its time is spent it fails, and nobody can say. It spares this shell, the
# worker's parent, what belongs to a job, and what started before the command did: the
# worker, but no later child of that parent. The parent's number may be another's by now.
# A process whose first thread has ended looks dead, and lives if it has more.
walk() {
	cf_none=1
	for cf_pid in [0-9]*; do
		[ "$cf_pid" != 1 ] || continue
		! spent || { cf_none=0; return 1; }
		stat "$cf_pid"
		case $cf_pid:$cf_started:$cf_state$cf_threads in
		$cf_watch:$cf_watch_start:* | "$cf_pulse":* | *:Z[01]) continue ;;
		esac
		[ "$cf_parent" = "$cf_watch" ] && [ $# = 2 ] || later || continue
		! owned "$cf_pid" || continue
		kill -"$1" "$cf_pid" && cf_none=0
	done
	return $cf_none
}
# end SIGNAL [worker]: nothing forks while it walks, and nothing that forks is needed. A
# process that was being forked as the others were stopped may only show in a later walk.
# Where there is no end to them everything is killed, the worker and the jobs too.
end() {
	freeze
	bound
	own
	cf_num=0
	while walk "$@" && [ "$1" = KILL ] && [ $cf_num -lt 50 ]; do
		cf_num=$((cf_num + 1))
		jobs >&2
	done
	disown
	case $1$cf_spent in KILL1) kill -KILL -1 ;; esac
	thaw
	case $1$cf_spent in KILL1) lost killed ;; esac
}
# older: is there a process, but this one and those of jobs, that started before the
# command did?
older() {
	for cf_pid in [0-9]*; do
		! spent || return 1
		stat "$cf_pid"
		case $cf_pid:$cf_started in 1:* | *:0 | "$cf_pulse") continue ;; esac
		later || owned "$cf_pid" || return 0
	done
	return 1
}
# Whatever is stopped beside a worker that has not answered yet goes on at a tick: that
# may be the worker itself, which nothing else would wake.
#
# tend WHEN: the worker's parent may have been stopped or killed. The worker may live
# then, but nobody would say how it ended: between commands everything but the jobs is
# ended for a new one. A parent that is missed at one tick may just have told the end of a
# worker that ended by itself. The host reads that before it sends another, and says so.
tend() {
	[ -z "$cf_forks" ] || [ -n "$cf_frozen" ] || { cf_forks=; kill -CONT -1; }
	case $1 in
	tick | reap)
		[ -z "$cf_fresh" ] || [ -n "$cf_frozen" ] || kill -CONT -1
		helped
		[ -n "$cf_frozen" ] || kill -CONT "$cf_watch" || case $1$cf_missed in
		"tick$cf_watch") freeze; bound; own; older || miss killed; disown; thaw ;;
		tick*) cf_missed=$cf_watch ;;
		esac ;;
	*) [ "$cf_watch" != 1 ] && kill -0 "$cf_watch" || miss "$1" ;;
	esac
}
# helped tells the end of a helper that has ended without a word, or could not begin.
# Everything would stay stopped, and the host would wait. Who tells it may be stopped, so
# it is told until h comes: a mark that the host does not wait for is no mark.
helped() {
	case $cf_helper in '') return ;; none) ;; *) ! kill -0 "$cf_helper" || return ;; esac
	helper_killed
}
miss() {
	case $cf_jobs in
	'') kill -KILL -1 ;;
	*)
		freeze
		bound
		own
		for cf_pid in [0-9]*; do
			! spent || { kill -KILL -1; break; }
			[ "$cf_pid" = 1 ] || owned "$cf_pid" || kill -KILL "$cf_pid"
		done
		disown
		thaw ;;
	esac
	lost "$1"
}
# lost REASON: tells that the worker is gone. Whoever tells it may be stopped or killed, or
# the host may not wait for it: then it is told again before the next unit.
lost() {
	try worker_ended "$1" || exit 97
	cf_watch=1
}

# A job is a command beside the worker. It runs below a keeper, which says how it ended
# and then stays until the host has done with the job. cf_jobs has NAME:PID:START of each
# keeper, each followed by a space.
cf_jobs= cf_kin= cf_owned= cf_reached=0
# job OPERATION: one of those that begin with j, without that letter.
job() {
	# shellcheck disable=SC2086 # names, numbers and signals
	case $1 in
	+*)
		# One that could not be forked is asked for again, and so is one that has said
		# nothing: it may have been killed, or stopped.
		cf_name=${1%% *} cf_name=${cf_name#+}
		case " $cf_jobs" in *" $cf_name:"*)
			! kept "$cf_name" || { [ -n "$cf_frozen" ] || kill -CONT "$cf_keeper"; return; }
			release "$cf_name" ;;
		esac
		beside keeper "${1#* }" || return
		keep "$cf_name" $!
		halt ;;
	=*)
		# The number comes from a mark, which may be forged. What the engine has started
		# has no parent here, and beside process 1 nothing else has none.
		set -- $1
		case " $cf_jobs" in
		*" ${1#=}:"*) ;;
		*)
			stat "$2"
			case $2:$cf_parent in 1:*) return ;; *:0) keep "${1#=}" "$2" ;; *) return ;; esac ;;
		esac
		halt
		kills
		! kept "${1#=}" || beside answer "$cf_keeper" "$3" 0 ;;
	-*) release "${1#-}" ;;
	!*)
		kills
		beside here "${1#!}" ;;
	\?*)
		# Nobody would say how it ends: if the keeper is gone, so is the rest. A job that
		# nobody knows has no number to look at, but a name that could be a fifo's.
		case " $cf_jobs" in *" ${1#?}:"*) ;; *) return ;; esac
		kept "${1#?}" || signal KILL "${1#?}" ;;
	*)
		set -- $1
		signal "$1" "$2"
		kills
		[ -z "$cf_keeper" ] || beside answer "$cf_keeper" "$3" $cf_reached ;;
	esac
}
# kept NAME: does the keeper of a job that is known live? cf_keeper is its number.
kept() {
	cf_job=" $cf_jobs" cf_job=${cf_job#*" $1:"} cf_job=${cf_job%% *} cf_keeper=${cf_job%:*}
	stat "$cf_keeper"
	case $cf_state:$cf_started in [ZX]:*) return 1 ;; *:"${cf_job#*:}") ;; *) return 1 ;; esac
}
# halt stops what was begun for a job while everything is stopped.
halt() {
	[ -n "$cf_frozen" ] || return 0
	! helping || { bound; own apart; disown; }
	stop
}
# beside COMMAND: try, while a unit may be under way: the worker may not have seen the
# event yet.
beside() {
	cf_awake=
	[ ! -p self/fd/1 ] || case $cf_event in 8) cf_awake=9 ;; *) cf_awake=8 ;; esac
	try "$@"
	cf_num=$?
	case $cf_awake in ?) exec 1<>self/fd/$cf_awake ;; esac
	return $cf_num
}
# keeper WORDS: becomes a job's keeper, in a session of its own if the image has what
# makes one: a process whose parent has ended is known by its session. Busybox would run
# its own program for a name without a directory, which nobody may look into: then answer
# could not, either.
keeper() {
	exec 1<>/dev/null 3<&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
	eval "${cf_locale:-unset LC_ALL}"
	cd -- "$cf_workdir"
	eval "set -- $1"
	shift
	cf_setsid=
	! command -v setsid || cf_setsid=setsid
	IFS=:
	for cf_path in $PATH; do
		[ ! -x "$cf_path/sh" ] || exec $cf_setsid "$cf_path/sh" "$@"
	done
	exec sh "$@"
}
keep() {
	stat "$2"
	cf_jobs="$cf_jobs$1:$2:$cf_started "
}
# answer PID NONCE REACHED: tells the host by the keeper's stdout. Nobody can know the
# nonce before. The host may have closed its end: then an open for writing would wait for
# ever.
answer() {
	command exec 9<>"$1/fd/1" >"$1/fd/1" 9>&- && printf '%sj%s %s %s\n' "$cf_prefix" "$2" "$3" "$cf_killed"
}
# here NONCE: tells the host by the session's stdout whether the last signal for a job has
# reached anything: a job whose keeper is gone has none.
here() { printf '%sj%s %s %s\n' "$cf_prefix" "$1" "$cf_reached" "$cf_killed" >&4; }
# release NAME: the host has done with the job.
release() {
	cf_rest=
	for cf_job in $cf_jobs; do
		case $cf_job in
		"$1":*)
			cf_job=${cf_job#*:}
			stat "${cf_job%:*}"
			[ "$cf_started" != "${cf_job#*:}" ] || kill -KILL "${cf_job%:*}" ;;
		*) cf_rest="$cf_rest$cf_job " ;;
		esac
	done
	cf_jobs=$cf_rest
}
# own finds what belongs to a job, while everything is stopped: the keeper, and each
# process whose parent or whose session's leader belongs to it, or that was found before:
# SIGTERM may have ended its parent since. The variables cf_of_PID have the job's name
# until disown. cf_kin has NAME:PID:START of each. In the order of their numbers, parents
# come before their children, unless the numbers began anew. What was being forked as the
# others were stopped shows in the next round. Beside a helper it stops only what it
# finds.
own() {
	disown
	cf_new= cf_apart=${1-}
	cf_known=$cf_kin cf_kin=
	[ -n "$cf_jobs" ] || return 0
	for cf_job in $cf_jobs $cf_known; do
		cf_name=${cf_job%%:*} cf_job=${cf_job#*:}
		case " $cf_jobs" in *" $cf_name:"*) ;; *) continue ;; esac
		stat "${cf_job%:*}"
		case $cf_started in 0 | "${cf_job#*:}") owned "${cf_job%:*}" || claim "${cf_job%:*}" "$cf_name" ;; esac
	done
	cf_num=0 cf_new=1
	while [ -n "$cf_new" ] && [ $cf_num -lt 20 ]; do
		cf_num=$((cf_num + 1)) cf_new=
		[ -n "$cf_apart" ] || kill -STOP -1
		for cf_pid in [0-9] [0-9][0-9] [0-9][0-9][0-9] [0-9][0-9][0-9][0-9] \
			[0-9][0-9][0-9][0-9][0-9] [0-9][0-9][0-9][0-9][0-9][0-9] \
			[0-9][0-9][0-9][0-9][0-9][0-9][0-9]; do
			# A pattern that fits nothing is no number.
			case $cf_pid in "["*) continue ;; esac
			! spent || return 0
			! owned "$cf_pid" || continue
			stat "$cf_pid"
			[ "$cf_started" != 0 ] || continue
			eval "cf_name=\${cf_of_$cf_parent:-\${cf_of_$cf_session-}}"
			[ -z "$cf_name" ] || claim "$cf_pid" "$cf_name"
		done
	done
}
claim() {
	eval "cf_of_$1=$2"
	cf_owned="$cf_owned$1 " cf_new=1
	[ "$cf_started" = 0 ] || cf_kin="$cf_kin$2:$1:$cf_started "
	[ -z "$cf_apart" ] || kill -STOP "$1"
}
owned() {
	[ -n "$cf_owned" ] && eval "[ -n \"\${cf_of_$1-}\" ]"
}
disown() {
	for cf_pid in $cf_owned; do unset "cf_of_$cf_pid"; done
	cf_owned=
}
# signal SIGNAL NAME: signals what belongs to the job. A transfer and a longer unit go on
# with everything stopped.
signal() {
	cf_was=$cf_frozen
	bound
	if helping; then own apart; else
		freeze
		own
	fi
	reach "$1" "$2"
	disown
	case $cf_was in '') thaw ;; *) cf_frozen=$cf_was ;; esac
}
# reach SIGNAL NAME: signals what belongs to the job, but not its keeper. cf_reached is 1
# if there was anything, or if own has come to no end, for want of rounds or of time.
# cf_keeper is the keeper's number.
reach() {
	cf_keeper= cf_reached=0
	case $cf_new$cf_spent in ?*) cf_reached=1 ;; esac
	case " $cf_jobs" in *" $2:"*) ;; *) return ;; esac
	cf_job=" $cf_jobs" cf_job=${cf_job#*" $2:"} cf_job=${cf_job%% *}
	cf_keeper=${cf_job%:*}
	for cf_pid in $cf_owned; do
		eval "cf_name=\$cf_of_$cf_pid"
		[ "$cf_name" = "$2" ] || continue
		stat "$cf_pid"
		case $cf_pid:$cf_started:$cf_state$cf_threads in
		$cf_job:* | *:Z[01]) continue ;;
		esac
		kill -"$1" "$cf_pid" && cf_reached=1
	done
}
