package fakeengine

import (
	"strconv"
	"strings"
	"syscall"
)

// A process is one process and no other that gets its number later: it has its start
// time, too.
type process struct {
	Pid   int
	Start string // in clock ticks since the machine's start
	name  string
}

func (p process) kill() { _ = p.signal("KILL") }

// signals have the numbers of Linux, as in a container.
var signals = map[string]syscall.Signal{
	"HUP": 1, "INT": 2, "QUIT": 3, "KILL": 9, "USR1": 10, "USR2": 12, "ALRM": 14, "TERM": 15, "CONT": 18, "STOP": 19,
}

func signalNumber(name string) (syscall.Signal, bool) {
	if n, err := strconv.Atoi(name); err == nil {
		return syscall.Signal(n), n > 0 && n < 65
	}
	sig, ok := signals[strings.TrimPrefix(strings.ToUpper(name), "SIG")]
	return sig, ok
}
