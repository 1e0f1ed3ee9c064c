[ $# -gt 0 ] || if command -v bash >/dev/null 2>&1; then set -- bash; else set -- sh; fi
cf_locale=${LC_ALL+"LC_ALL=\$cf_lc_all"} cf_lc_all=${LC_ALL-} LC_ALL=C
cf_workdir=$PWD
cd /proc || exit 97
exec 4>&1 5>&2
case $cf_dd in *fd*) exec 1<&9 ;; *) exec 1<>/dev/null ;; esac
: >"$cf_dir/script" && exec 6<>"$cf_dir/script" || exit 97
: >"$cf_dir/s" && exec 7<>"$cf_dir/s" || exit 97
mkfifo "$cf_dir/a" "$cf_dir/b" && exec 8<>"$cf_dir/a" 9<>"$cf_dir/b" &&
exec 8<"$cf_dir/a" 9<"$cf_dir/b" || exit 97
exec 2<&1 1>&-

cf_redirect='>&3 2>&4 3>&- 4>&- 5>&- 6>&- 8>&- 9>&-'
cf_gen=0 cf_upload= cf_help_tag= cf_help_pid= cf_helper= cf_once=${BASH_VERSION+once}
cf_nl='
'

try() {
exec 1>&-
room && spawn "$@"
cf_num=$?
calm
return $cf_num
}
spawn() {
cf_num=0
until command eval '( "$@" ) </dev/null &'; do
[ -z "$cf_once" ] && crowded || return 1
done
}

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
worker_ended() {
printf '%sx%s %s\n' $cf_prefix $cf_gen "$1" >&4
printf '%sx%s\n' $cf_prefix $cf_gen >&5
}

help() {
export LC_ALL
cf_result=
[ $# = 1 ] || still 100
exec >&4 2>&5 3<&- 6>&- 7>&- 8>&- 9>&-
opened
trap 'ended $? "$cf_result"' EXIT
trap 'exit 143' TERM
body "$1"
}
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

put() {
[ "$cf_ok" = 0 ] || { rm -f "$2"; return 107; }
[ ! -d "$1" ] || [ -L "$1" ] || return 103
chmod "$3" "$2" || return 1
[ ! -L "$1" ] || rm -f "$1"
mv -f "$2" "$1" || return 1
}

raw() {
exec <&8 9<&2 2<>/dev/null
body "exec $cf_dd bs=$1 count=$2 iflag=fullblock"
}
small() {
umask "$cf_mask"
set -C
body "exec >$cf_name" && raw "$cf_size" 1
}

gather() {
jobs >&2
tend "$1"
}

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

cf_each='case $cf_left in ?*) cf_var=${cf_left%% *} cf_left=${cf_left#"$cf_var"} cf_left=${cf_left# };; *) \command false;; esac'
cf_keep="case \${BASH_VERSION+b} in b) ;; *) cf_sent=: cf_left=\$cf_vars; cf_said=\$(while $cf_each; do \\command eval \"\$cf_var=cf_kept_\$cf_var:\" || \\command :; done 2>/dev/null; \\command export -p); while $cf_each; do case \$cf_said in *cf_kept_\$cf_var:*) cf_sent=\$cf_sent\$cf_var:;; esac; \\command eval \"case \\\${\$cf_var+s} in s) cf_kept_\$cf_var=\\\$\$cf_var;; esac; \\command export \$cf_var\"; done; cf_said=;; esac"
cf_give="case \${BASH_VERSION+b} in b) ;; *) cf_left=\${cf_vars-}; while $cf_each; do \\command eval \"\\command unset -v \$cf_var; case \\\${cf_kept_\$cf_var+s} in s) \$cf_var=\\\$cf_kept_\$cf_var;; esac; case \$cf_sent in *:\$cf_var:*) \\command export \$cf_var;; esac\" || \\command :; \\command unset -v cf_kept_\$cf_var; done; cf_vars=;; esac"

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

add() {
cf_piece=$cf_piece$1
[ ${#cf_piece} -ge 512 ] || return 0
[ -n "$cf_frozen" ] || { freeze; cf_frozen=unit; settle; }
[ ${#cf_piece} -ge 65536 ] || return 0
cf_text=$cf_text$cf_piece cf_piece=
}
go_on() { case $cf_frozen in unit) thaw ;; esac; }
write() {
exec 1>self/fd/6 && printf '%s%s\n' "case \${cf_worker:-$cf_gen} in $cf_gen) ;; *) \\command exit 98;; esac; $cf_first" "$cf_unit"
}
unit() {
begin
hand && case $cf_event in
8) cf_event=9; exec 1<>self/fd/8 ;;
*) cf_event=8; exec 1<>self/fd/9 ;;
esac
go_on
}

begins() {
cf_begins="\\command printf '${cf_prefix}b$cf_tag\\n' && \\command printf '${cf_prefix}b$cf_tag\\n' >&5 || \\command exit 98"
}

name() {
cf_tag=$1 cf_mark= cf_before= cf_after=
go_on
frame
}

assist() {
freeze
jobs >&2
clock
cf_help_tag=$cf_tag cf_help_pid= cf_helper=
try help "$1" still && cf_help_pid=$! cf_helper=$! || { thaw; cf_helper=none; }
}

shape() {
case $1 in
b) cf_text=$cf_open cf_piece= cf_tail=$cf_close ;;
c) cf_text=$cf_call cf_piece= cf_tail=$cf_called ;;
+*) add "${1#+}$cf_nl" ;;
-*) add "${1#-}" ;;
m) begins
cf_mark="; $cf_begins"
frame ;;
y*) cf_before="; ${1#y}"
frame ;;
z*) cf_after="${1#z}; "
frame ;;
v) cf_before="$cf_before; cf_keep='$cf_keep'" cf_after="$cf_give; $cf_after"
frame ;;
esac
}

pick() {
cf_picked=
for cf_file in "$@"; do
[ ! -f "$cf_file" ] || [ -L "${cf_file%/*}" ] || cf_picked=$cf_file
done
}
pick /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control
cf_kills=$cf_picked cf_cpu= cf_memory=
case $cf_pids in 1)
pick /sys/fs/cgroup/cpu.stat /sys/fs/cgroup/*cpuacct*/cpuacct.usage
cf_cpu=$cf_picked
pick /sys/fs/cgroup/memory.peak /sys/fs/cgroup/memory/memory.max_usage_in_bytes
cf_memory=$cf_picked
;;
esac
count() {
cf_used=- cf_peak=-
[ -z "$cf_cpu" ] || read -r cf_used cf_part <"$cf_cpu"
case $cf_used in usage_usec) cf_used=${cf_part:+${cf_part}000} ;; esac
[ -z "$cf_memory" ] || read -r cf_peak <"$cf_memory"
cf_counts="${cf_used:--} ${cf_peak:--}"
}
cf_noted='- -' cf_first=
kills() {
cf_killed=-
[ -z "$cf_kills" ] || while read -r cf_key cf_value; do
case $cf_key in oom_kill) cf_killed=$cf_value ;; esac
done <"$cf_kills"
}

worker "$@"
rm -f "$cf_dir/sh" "$cf_dir/raw" "$cf_dir/s" "$cf_dir/a" "$cf_dir/b"
while take; do
case $cf_op in "$cf_lead"*) cf_op=${cf_op#"$cf_lead"} ;; *) exit 97 ;; esac
case $cf_op in
x) block ;;
n*) name "${cf_op#n}" ;;
e*) cf_unit="$cf_open\${BASH_VERSION+\"command\"} eval ${cf_op#e} <&2$cf_close"
unit ;;
a*) cf_unit="$cf_call\\command exec <&7 ${cf_op#a}$cf_called"
unit ;;
g*) cf_unit=$cf_text$cf_piece${cf_op#g}$cf_tail
unit ;;
u) count
cf_noted=$cf_counts ;;
o) kills
count
case $cf_first in '') cf_marks=0 ;; *) cf_marks=1 ;; esac
try help "cf_result='$cf_killed ${cf_none--} $cf_noted $cf_counts $cf_marks'" ;;
t) gather tick ;;
r) gather reap ;;
k*) end "${cf_op#k}"
helper_killed ;;
w) end KILL worker
gather killed
helper_killed ;;
s) jobs >&2
worker "$@" ;;
l*) [ "${cf_op#l}" != "$cf_gen" ] || cf_watch=1 ;;
d*) freeze
cf_op=${cf_op#d} cf_sizes=${cf_op#* } cf_num=0
[ ! -f "$cf_dir/$cf_upload" ] || try body 'rm -f "$cf_dir/$cf_upload" 3<&-'
while [ -f "$cf_dir/$cf_upload" ] && [ $cf_num -lt 10000 ]; do
jobs >&2
cf_num=$((cf_num + 1))
done
cf_upload=${cf_op%% *}
exec 1>&-
{
[ "${cf_sizes% *}" = 0 ] || attend raw 65536 "${cf_sizes% *}" || exit 97
[ "${cf_sizes#* }" = 0 ] || attend raw "${cf_sizes#* }" 1 || exit 97
} 8<&0 >"$cf_dir/$cf_upload" || exit 97 ;;
p*) freeze
cf_op=${cf_op#p}
cf_size=${cf_op%% *} cf_op=${cf_op#* }
cf_mask=${cf_op%% *} cf_op=${cf_op#* }
cf_end=${cf_op%% *} cf_name=${cf_op#* }
cf_ok=0
attend small 8<&0 || cf_ok=1
while take; do case $cf_op in
*"$cf_end") break ;;
"${cf_lead:-$cf_end}"*) exit 97 ;;
esac; done ;;
f*) assist "${cf_op#f}" ;;
h) thaw
cf_helper= ;;
i) pulse ;;
j*) job "${cf_op#j}" ;;
*) shape "$cf_op" ;;
esac
done
finish
