cf_due=0 cf_held= cf_begun=
mkfifo "$cf_dir/k" && command exec 3<>"$cf_dir/k" && command exec 3<"$cf_dir/k" || exit 97
rm -f "$cf_dir/k"
silent() {
kill -KILL -1
exit 93
}
due() {
now
[ -n "$cf_now" ] || exit 97
cf_due=$((cf_now + (cf_alive + $1) * 100))
}
heed() {
now
[ -n "$cf_now" ] || exit 97
[ $cf_due != 0 ] || due 0
[ "$cf_now" -lt $cf_due ] || silent
}
take() {
[ -z "$cf_held" ] || let_go
cf_heard= cf_rounds=0 cf_stop='kill -STOP -1'
! helping || cf_stop=:
[ -n "$cf_once" ] || trap '[ $((cf_rang += 1)) -lt 10 ] || { cf_held=1; $cf_stop; }' CHLD
while :; do
cf_rang=0 cf_op=
heed
if [ $cf_rang != 0 ]; then
cf_rounds=$((cf_rounds + 1))
[ $cf_rounds -lt 200 ] || { cf_held=1 cf_rounds=0; $cf_stop; }
continue
fi
cf_rounds=0 cf_until=$cf_due
[ -z "$cf_held" ] || cf_until=$((cf_now + 99))
IFS= read -r -t $(((cf_until - cf_now) / 100 + 1)) cf_op && break
cf_code=$? cf_heard=$cf_heard$cf_op
now
if [ "${cf_now:-0}" -ge $cf_until ]; then
[ -z "$cf_held" ] || let_go
elif [ $cf_code -le 128 ] && [ $cf_rang = 0 ]; then
return 1
fi
done
[ -n "$cf_once" ] || trap - CHLD
cf_op=$cf_heard$cf_op
due 0
}
let_go() {
cf_held=
[ -n "$cf_frozen" ] || wake
}
attend() {
case $# in
3) due $(($2 * $3 / 65536)) ;;
*) due 0 ;;
esac
room && command eval '( "$@" ) 3>self/fd/3 </dev/null &' || return 1
cf_child=$!
stat $cf_child
cf_begun=$cf_started
[ $cf_begun != 0 ] || ! kill -0 $cf_child || exit 97
[ -n "$cf_once" ] ||
trap '[ $((cf_rang += 1)) -lt 10 ] || { cf_rang=0; kill -STOP -1; kill -CONT $cf_child; }' CHLD
until read_out; do
heed
cf_rang=0
IFS= read -r -t 1 cf_skip <&3
done
[ -n "$cf_once" ] || trap - CHLD
wait $cf_child
}
read_out() {
stat $cf_child
case $cf_started:$cf_state$cf_threads in
0:*) ! kill -0 $cf_child ;;
"$cf_begun":Z[01] | "$cf_begun":X*) ;;
"$cf_begun":[Tt]*) exit 97 ;;
"$cf_begun":*) return 1 ;;
esac
}
pulse() {
quit "$cf_pulse"
beside beat || return
stat $!
cf_pulse=$!:$cf_started
}
quit() {
stat "${1%:*}"
[ "$cf_started" != "${1#*:}" ] || { kill -KILL "${1%:*}"; wait "${1%:*}"; }
}
beat() { printf '%si\n' "$cf_prefix" >&5; }
