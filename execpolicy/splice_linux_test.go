//go:build linux

package execpolicy_test

import (
	"testing"
	"time"
)

// holders is a script whose background jobs hold the kernel's locks of all pipes that the
// worker has, if they can: to copy from a socket to a pipe waits for the socket
// meanwhile. The worker keeps its descriptors elsewhere while a unit runs.
func holders(call string) string {
	return `( for f in /proc/self/fd/*; do
	[ -p "$f" ] && exec 3<>"$f" && python3 -c '
import ctypes, socket
a, b = socket.socketpair()
copy = ctypes.CDLL(None).` + call + `
copy(` + map[string]string{
		"splice":   "a.fileno(), None, 3, None, 4096, 0",
		"sendfile": "3, a.fileno(), None, 4096",
	}[call] + `)' &
done 2>/dev/null; wait ) & sleep 1`
}

// Who opens or closes a pipe waits for its lock. Nobody inside may hold that of an event:
// process 1 would miss the end of its stdin, and not even SIGKILL would end it.
func TestLockOfAnEvent(t *testing.T) {
	withEachShell(t, func(t *testing.T, p place, _ string) {
		for _, call := range []string{"splice", "sendfile"} {
			w := p.startRaw(t, p.policy())
			v := p.victim(t, w.name)
			w.run("hold", holders(call))
			time.Sleep(3 * time.Second) // one of the pipes is stdout
			w.run("next", "echo next")
			w.in.Close()
			v.awaitEnd(t)
		}
	})
}

// With a filter that allows it somebody may hold the lock of the event that process 1 has
// open, as stdin ends. What it would wait for is ended first.
func TestEndWhileAnEventIsLocked(t *testing.T) {
	withEachShell(t, func(t *testing.T, p place, _ string) {
		policy := p.policy()
		policy.EngineSeccomp = true
		for _, call := range []string{"splice", "sendfile"} {
			w := p.startRaw(t, policy)
			v := p.victim(t, w.name)
			w.run("hold", holders(call))
			time.Sleep(3 * time.Second)
			w.in.Close()
			began := time.Now()
			v.awaitEnd(t)
			t.Logf("%s: gone after %v", call, time.Since(began).Round(time.Millisecond))
		}
	})
}
