# cf_same: is the interpreter in "$cf_dir" still the process that it was? If so, its
# number is in cf_pid.
cf_same() {
	\command [ -f "$cf_dir/pid" ] && \command read -r cf_line <"$cf_dir/pid" || \command return
	cf_pid=${cf_line%% *}
	cf_start=${cf_line#* }
	# To kill, 0 and -1 are many processes.
	case $cf_pid in '' | 0* | *[!0-9]*) \command return 1 ;; esac
	cf_stat=
	while \command read -r cf_line; do cf_stat=$cf_stat$cf_line; done <"/proc/$cf_pid/stat"
	cf_stat=${cf_stat##*") "}
	for cf_field in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do cf_stat=${cf_stat#* }; done
	\command [ -n "$cf_stat" ] && \command [ "${cf_stat%% *}" = "${cf_start%% *}" ]
} 2>/dev/null
