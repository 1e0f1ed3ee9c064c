# same: is the interpreter in "$cf_dir" still the process that it was? If so, its number is in cf_pid.
same() {
	\command read -r cf_pid cf_start <"$cf_dir/pid" || \command return
	cf_stat=
	while IFS= \command read -r cf_line; do cf_stat=$cf_stat$cf_line; done <"/proc/$cf_pid/stat"
	\command set -- ${cf_stat##*") "}
	\command [ "${20-}" = "$cf_start" ]
} 2>/dev/null
