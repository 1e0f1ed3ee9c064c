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
thaw() {
kill -CONT -1
cf_frozen=
}
cf_time=0 cf_newest=0 cf_frozen= cf_crowded= cf_limit= cf_pids=
cf_last=/proc/sys/kernel/ns_last_pid
{ read -r cf_newest <$cf_last || cf_last=; } 2>/dev/null
cf_largest=
command eval 'cf_largest=$(dd </proc/sys/kernel/pid_max)' 2>/dev/null
case $cf_largest in '' | *[!0-9]*) cf_largest=32768 ;; esac
cf_processes=self/none
for cf_group in /sys/fs/cgroup/pids/pids /sys/fs/cgroup/pids; do
{
read -r cf_pids <$cf_group.current && cf_processes=$cf_group.current &&
read -r cf_limit <$cf_group.max
} 2>/dev/null
done
case ${BASH_VERSION+bash}$cf_limit in
bash[1-9]*)
room() {
kill -STOP -1
cf_num=0 cf_crowded=1
while read -r cf_pids <$cf_processes && [ "$cf_pids" -ge "$cf_limit" ]; do
crowded || return 1
done
}
;;
*) room() { :; } ;;
esac
calm() {
[ -n "$cf_crowded" ] || return 0
cf_crowded=
[ -n "$cf_frozen" ] || kill -CONT -1
}
crowded() {
kill -STOP -1
jobs >&2
cf_num=$((cf_num + 1)) cf_crowded=1
now
case $cf_num in 1) cf_since=$cf_now ;; esac
[ $cf_num -lt 3 ] || [ "$cf_now" -lt $((cf_since + 25)) ]
}
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
command eval '( "$@" ) &' || return 1
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
while cf_child_stat=; IFS= read -r cf_child_stat <$cf_child/stat
[ -z "$cf_child_stat" ] && kill -0 $cf_child; do
cf_looks=$((cf_looks + 1))
[ $cf_looks -lt 1000 ] || exit 97
done
case ${cf_child_stat##*")"} in " "[Tt]*) exit 97 ;; esac
}
still() {
read -r cf_self cf_rest <self/stat
cf_rounds=0
while [ $cf_rounds -lt 1000 ]; do
cf_rounds=$((cf_rounds + 1))
for cf_task in [0-9]*/task/[0-9]*; do
case $cf_task in 1/* | "$cf_self"/*) continue ;; esac
stat "$cf_task"
case $cf_state in [RS]) continue 2 ;; esac
done
return
done
}
stat() {
cf_fields=
while IFS= read -r cf_line; do cf_fields="$cf_fields$cf_line "; done <"$1/stat"
set -- ${cf_fields##*") "}
cf_state=${1-Z} cf_parent=${2-} cf_threads=${18-0} cf_started=${20-0}
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
[ "$cf_newest" -lt 30000 ] || next
}
next() {
[ $((cf_largest - cf_newest)) -lt 2000 ] || [ "$cf_newest" -lt 32768 ] || return 0
cf_num=0 cf_now=$cf_time
while [ "$cf_now" = "$cf_time" ] && [ $cf_num -lt 10000 ]; do
cf_num=$((cf_num + 1))
now
done
}
born() {
stat "$cf_watch"
cf_watch_start=$cf_started
}
begin() {
cf_help_tag= cf_pids=
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
case $cf_pids in 3) write "$1" || exit 97; return ;; esac
exec 1>&-
if room && spawn write "$1"; then
calm
written || { miss unrun; return 1; }
else
freeze
cf_frozen=unit cf_crowded=
write "$1" || exit 97
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
walk() {
cf_none=1
for cf_pid in [0-9]*; do
[ "$cf_pid" != 1 ] || continue
stat "$cf_pid"
case $cf_pid:$cf_started:$cf_state$cf_threads in
$cf_watch:$cf_watch_start:* | *:Z[01]) continue ;;
esac
[ "$cf_parent" = "$cf_watch" ] && [ $# = 2 ] || later || continue
kill -"$1" "$cf_pid" && cf_none=0
done
return $cf_none
}
end() {
freeze
cf_num=0
while walk "$@" && [ "$1" = KILL ] && [ $cf_num -lt 50 ]; do
cf_num=$((cf_num + 1))
jobs >&2
done
thaw
}
older() {
for cf_pid in [0-9]*; do
stat "$cf_pid"
[ "$cf_pid" = 1 ] || [ "$cf_started" = 0 ] || later || return 0
done
return 1
}
tend() {
case $1 in
old) [ "$cf_watch" = 1 ] || ! kill -CONT "$cf_watch" || end KILL worker ;;
tick) kill -CONT "$cf_watch" || { freeze; older || miss killed; thaw; } ;;
*) kill -0 "$cf_watch" || miss "$1" ;;
esac
}
miss() {
kill -KILL -1
try over "$1" || exit 97
cf_watch=1
}
