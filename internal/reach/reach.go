// Package reach has what tries, from inside of a pod, whether the network can be reached.
package reach

import (
	_ "embed"
	"strings"
)

// Script is text for a POSIX shell. It goes on if it has tried the network and reached
// nothing. Else it ends the shell, with the status Reached or Untried and with a line
// that says why in MessageFile. Its comments stand here, so that no program carries them.
//
// It tries three addresses at once, for two seconds: the cluster's API, the kubelet of
// the node, and the metadata service of a cloud. Who keeps the network away may take a
// moment to learn of the pod, so if one was reached, it tries three times more, and waits
// three seconds before each. A connection that is refused counts as none: some of those
// who keep the network away refuse.
//
// A program that does not work would reach nothing either, so it first has to show that
// it would try. A bash that was built without networks takes the address for a file, and
// a busybox's nc may have neither -w nor -e. Of a shell it is known that it can be
// executed.
//
// Each attempt is a child that ends by itself, and its status tells: 0 is a connection, 1
// a failure, and 124 or 143 that its time was over. One that ended in another way, as by
// a kill for memory, has tried nothing. Its time may also be over because the pod has too
// little of the processor. So a fourth attempt at the pod itself, where nothing listens,
// has to fail in the same time. Then the script takes the address out of the environment.
var Script = try + script

var (
	//go:embed try.sh
	try string
	//go:embed reach.sh
	script string
)

// Attempts returns text for a POSIX shell that tries to connect to addresses, all at
// once, for two seconds. An address is a host and a port with a space between them, and
// may have variables. For each the text prints a line "tried reached ADDRESS", "tried
// silent ADDRESS" or, if the attempt did not end as it should, "tried untried ADDRESS".
// It prints "tried untried itself" if an attempt at the pod itself did not fail in time.
// It prints nothing if there is nothing to try with. It changes nothing in the shell.
func Attempts(addresses ...string) string {
	var b strings.Builder
	b.WriteString("(\nset +e +u +f +v +x\n" + try + `command -v cf_try >/dev/null || exit
cf_tried() {
	[ $# = 2 ] || exit
	(cf_try "$1" "$2") >/dev/null
	case $? in 0) cf_how=reached;; 1 | 124 | 143) cf_how=silent;; *) cf_how=untried;; esac
	printf 'tried %s %s:%s\n' $cf_how "$1" "$2"
}
`)
	for _, address := range addresses {
		b.WriteString("(cf_tried " + address + ") &\n")
	}
	b.WriteString(`(cf_try 127.0.0.1 1) >/dev/null
[ $? -le 1 ] || echo 'tried untried itself'
wait
) </dev/null 2>/dev/null
`)
	return b.String()
}

const (
	// NodeVar is the variable with the node's address.
	NodeVar = "COFFERDAM_NODE"
	// MessageFile is where the node looks for a container's last words.
	MessageFile = "/dev/termination-log"
	// Reached is the status of a shell that has reached something, and Untried of one
	// that had nothing to try with. Its line begins with Trial: a command may exit with
	// any status.
	Reached, Untried = 82, 83
	Trial            = "from inside of the pod "
)
