# same: is the interpreter in "$dir" still the process that it was? If so, its number is in pid.
same() {
	read -r pid start <"$dir/pid" || return
	stat=
	while IFS= read -r line; do stat=$stat$line; done <"/proc/$pid/stat"
	set -- ${stat##*") "}
	[ "${20-}" = "$start" ]
} 2>/dev/null
