cf_untried() {
	echo "from inside of the pod nothing was tried: $1" >/dev/termination-log
	exit 83
}
cf_saw() {
	wait "$1"
	cf_status=$?
	case $cf_status in
	0) cf_reached="$cf_reached $2" ;;
	1 | 124 | 143) ;;
	*) cf_untried "the attempt at $2 ended with status $cf_status" ;;
	esac
}
command -v cf_try >/dev/null || cf_untried 'the image has no bash, busybox nc, python3 or perl that works to try the network with'
[ -n "$COFFERDAM_NODE" ] || cf_untried 'the address of the node is not known'
cf_round=0
while :; do
	cf_try "$COFFERDAM_NODE" 10250 </dev/null >/dev/null 2>&1 &
	cf_node=$!
	cf_try 169.254.169.254 80 </dev/null >/dev/null 2>&1 &
	cf_metadata=$!
	cf_try 127.0.0.1 1 </dev/null >/dev/null 2>&1 &
	cf_itself=$!
	cf_reached=
	if [ -n "$KUBERNETES_SERVICE_HOST" ]; then
		cf_try "$KUBERNETES_SERVICE_HOST" "$KUBERNETES_SERVICE_PORT" </dev/null >/dev/null 2>&1 &
		cf_saw $! 'the API'
	fi
	cf_saw $cf_node 'the node'
	cf_saw $cf_metadata 'the metadata'
	wait $cf_itself
	[ $? -le 1 ] || cf_untried 'the pod is too slow to tell'
	[ -n "$cf_reached" ] || break
	cf_round=$((cf_round + 1))
	if [ $cf_round -ge 4 ]; then
		echo "from inside of the pod a connection was made with:$cf_reached" >/dev/termination-log
		exit 82
	fi
	sleep 3 || cf_untried 'the image has no sleep'
done
unset COFFERDAM_NODE
