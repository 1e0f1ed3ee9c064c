trap cf_rang=1 TERM
cf_pids= cf_frozen=
freeze() { :; }
settle() { :; }
thaw() { :; }
still() { :; }
tend() { :; }
clock() { :; }
born() { :; }
job() { :; }
attend() { ( "$@" ); }
take() {
cf_heard=
while cf_rang= cf_op=; ! IFS= read -r cf_op; do
[ -n "$cf_rang" ] || return 1
cf_heard=$cf_heard$cf_op
done
cf_op=$cf_heard$cf_op
}
pulse() { :; }
room() { :; }
calm() { :; }
crowded() {
jobs >&2
cf_num=$((cf_num + 1))
[ $cf_num -lt 10000 ]
}
begin() {
cf_help_tag=
gather unrun
}
hand() { write || exit 97; }
end() {
[ "$# $1" = "1 TERM" ] || return 0
kill -TERM 0
kill -CONT 0
[ -n "$cf_help_tag" ] && [ -n "$cf_help_pid" ] || return 0
cf_num=0
while [ -d $cf_help_pid ]; do
kill -CONT 0
cf_num=$((cf_num + 1))
[ $cf_num -lt 5000 ] || { command eval 'sleep 1'; kill -TERM 0; }
jobs >&2
done
wait $cf_help_pid
wait $cf_help_pid
cf_help_pid=
}
finish() { kill -KILL 0; }
