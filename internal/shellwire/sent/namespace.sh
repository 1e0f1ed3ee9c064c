[ $$ = 1 ] || exit 96
trap '' INT
finish() {
kill -KILL -1
exit 0
}
freeze() {
kill -STOP -1
cf_frozen=1
}
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
wake() {
cf_forks=1
still 30 forks "$@" && cf_forks=
kill -CONT -1
}
helping() { [ -n "$cf_frozen" ] && [ -n "$cf_help_pid" ]; }
stop() { helping || kill -STOP -1; }
cf_time=0 cf_newest=0 cf_frozen= cf_forks= cf_crowded= cf_limit= cf_pids= cf_missed=
cf_last=/proc/sys/kernel/ns_last_pid
{ read -r cf_newest <$cf_last || cf_last=; } 2>/dev/null
cf_largest=
command eval 'cf_largest=$(dd </proc/sys/kernel/pid_max)' 2>/dev/null
case $cf_largest in '' | *[!0-9]*) cf_largest=32768 ;; esac
cf_processes=self/none
for cf_group in /sys/fs/cgroup/pids/pids /sys/fs/cgroup/pids; do
{
[ ! -L "${cf_group%/*}" ] && read -r cf_pids <$cf_group.current &&
cf_processes=$cf_group.current &&
read -r cf_limit <$cf_group.max
} 2>/dev/null
done
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
crowded() {
stop
jobs >&2
cf_num=$((cf_num + 1)) cf_crowded=1
now
case $cf_num in 1) cf_since=$cf_now ;; esac
[ $cf_num -lt 3 ] || [ "$cf_now" -lt $((cf_since + 25)) ]
}
cf_pulse=none:
take() { IFS= read -r cf_op; }
pulse() { :; }
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
[ $? = 145 ] || { trap - CHLD; return 1; }
done
trap - CHLD
}
stopped() {
[ -n "$cf_child" ] || return 0
cf_looks=0
while cf_child_state=
while read -r cf_child_key cf_child_value cf_child_rest; do
case $cf_child_key in State:) cf_child_state=$cf_child_value; break ;; esac
done <$cf_child/status
[ -z "$cf_child_state" ] && kill -0 $cf_child; do
cf_looks=$((cf_looks + 1))
[ $cf_looks -lt 1000 ] || exit 97
done
case $cf_child_state in [Tt]) exit 97 ;; esac
}
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
stat() {
cf_fields=
while IFS= read -r cf_line; do cf_fields="$cf_fields$cf_line "; done <"$1/stat"
set -- ${cf_fields##*") "}
cf_state=${1-Z} cf_parent=${2-} cf_session=${4-} cf_threads=${18-0} cf_started=${20-0}
}
now() {
cf_now= cf_part=
IFS=. read -r cf_now cf_part <uptime
cf_now=$cf_now${cf_part%% *} cf_now=${cf_now#0} cf_now=${cf_now#0}
}
clock() {
now
cf_time=$cf_now
case $cf_last in
'') read -r cf_skip cf_skip cf_skip cf_skip cf_newest <loadavg ;;
*) read -r cf_newest <$cf_last ;;
esac
case $cf_newest in
'' | 0)
cf_newest=$cf_largest
pass 2 ;;
esac
[ "$cf_newest" -lt 30000 ] || next
}
pass() {
cf_num=0
while [ "${cf_now:-0}" -lt $((cf_time + $1)) ] && [ $cf_num -lt 10000 ]; do
cf_num=$((cf_num + 1))
now
done
}
next() {
[ $((cf_largest - cf_newest)) -lt 2000 ] || [ "$cf_newest" -lt 32768 ] || return 0
pass 1
}
born() {
stat "$cf_watch"
cf_watch_start=$cf_started
}
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
later() {
[ "$cf_started" -gt "$cf_time" ] ||
{ [ "$cf_started" -eq "$cf_time" ] && [ "$cf_pid" -gt "$cf_newest" ]; }
}
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
older() {
for cf_pid in [0-9]*; do
! spent || return 1
stat "$cf_pid"
case $cf_pid:$cf_started in 1:* | *:0 | "$cf_pulse") continue ;; esac
later || owned "$cf_pid" || return 0
done
return 1
}
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
lost() {
try worker_ended "$1" || exit 97
cf_watch=1
}

cf_jobs= cf_kin= cf_owned= cf_reached=0
job() {
case $1 in
+*)
cf_name=${1%% *} cf_name=${cf_name#+}
case " $cf_jobs" in *" $cf_name:"*)
! kept "$cf_name" || { [ -n "$cf_frozen" ] || kill -CONT "$cf_keeper"; return; }
release "$cf_name" ;;
esac
beside keeper "${1#* }" || return
keep "$cf_name" $!
halt ;;
=*)
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
case " $cf_jobs" in *" ${1#?}:"*) ;; *) return ;; esac
kept "${1#?}" || signal KILL "${1#?}" ;;
*)
set -- $1
signal "$1" "$2"
kills
[ -z "$cf_keeper" ] || beside answer "$cf_keeper" "$3" $cf_reached ;;
esac
}
kept() {
cf_job=" $cf_jobs" cf_job=${cf_job#*" $1:"} cf_job=${cf_job%% *} cf_keeper=${cf_job%:*}
stat "$cf_keeper"
case $cf_state:$cf_started in [ZX]:*) return 1 ;; *:"${cf_job#*:}") ;; *) return 1 ;; esac
}
halt() {
[ -n "$cf_frozen" ] || return 0
! helping || { bound; own apart; disown; }
stop
}
beside() {
cf_awake=
[ ! -p self/fd/1 ] || case $cf_event in 8) cf_awake=9 ;; *) cf_awake=8 ;; esac
try "$@"
cf_num=$?
case $cf_awake in ?) exec 1<>self/fd/$cf_awake ;; esac
return $cf_num
}
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
answer() {
command exec 9<>"$1/fd/1" >"$1/fd/1" 9>&- && printf '%sj%s %s %s\n' "$cf_prefix" "$2" "$3" "$cf_killed"
}
here() { printf '%sj%s %s %s\n' "$cf_prefix" "$1" "$cf_reached" "$cf_killed" >&4; }
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
