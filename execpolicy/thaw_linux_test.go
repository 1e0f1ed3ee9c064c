//go:build linux

package execpolicy_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
)

// stopped returns how many of the container's processes are stopped.
func (v victim) stopped() (count int) {
	for _, pid := range v.left() {
		if stat := leftover.StatOf(pid); len(stat) > 2 && stat[2] == "T" {
			count++
		}
	}
	return count
}

// A command stops everything for a moment. What a process was forking at that time goes
// on like its parent: the kernel gives it the SIGSTOP, but not the SIGCONT.
func TestWhatWasBeingForkedGoesOn(t *testing.T) {
	enginetest.Alone(t)
	withEachShell(t, func(t *testing.T, p place, _ string) {
		policy := p.policy()
		policy.MemoryBytes = 1 << 30
		s := open(t, policy, p.spec())
		defer s.Close()
		v := p.victim(t, s.Name())
		// To fork a process of that size takes some milliseconds.
		s.script(`python3 -c '
import os
memory = b"x" * (100 << 20)
print("begun", flush=True)
while True:
    pid = os.fork()
    if pid == 0: os._exit(0)
    os.waitpid(pid, 0)' >/tmp/begun & until [ -s /tmp/begun ]; do sleep 0.1; done`)
		// A longer unit is read while everything is stopped. Before a short one bash
		// stops everything to fork.
		long := "echo on #" + fmt.Sprintf("%01000d", 0)
		for range 30 {
			for _, script := range []string{"echo on", long} {
				assert.Equal(t, s.ok(script), "on")
				wait(t, func() bool { return v.stopped() == 0 }, "a process stays stopped")
			}
		}
	})
}

// goesOn is the beginning of a program in Python that lets itself go on by a timer, 1,000
// times a second, whenever it is stopped. A child has no timer before it calls go_on.
const goesOn = `
import ctypes, os, signal
class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signo", ctypes.c_int), ("notify", ctypes.c_int),
                ("pad", ctypes.c_char * 48)]
libc = ctypes.CDLL(None)
def go_on():
    timer, each = ctypes.c_void_p(), (ctypes.c_long * 4)(0, 1000000, 0, 1000000)
    assert libc.timer_create(1, ctypes.byref(Event(0, signal.SIGCONT, 0)), ctypes.byref(timer)) == 0
    assert libc.timer_settime(timer, 0, each, None) == 0
go_on()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
`

// What can't be stopped holds up neither the next commands nor the end of the session.
func TestWhatIsNeverAtRest(t *testing.T) {
	enginetest.Alone(t)
	withEachShell(t, func(t *testing.T, p place, _ string) {
		policy := p.policy()
		policy.PidsLimit, policy.TerminationTimeout = 128, ample
		w := p.startRaw(t, policy)
		v := p.victim(t, w.name)
		w.run("many", `(python3 -c '`+goesOn+`
for i in range(50):
    if os.fork() == 0:
        go_on()
        break
else:
    print("begun", flush=True)
while True: pass') &`)
		w.expect("begun")
		wait(t, func() bool { return len(v.left()) > 50 }, "they do not begin")
		for range 3 {
			w.run("next", "echo next #"+fmt.Sprintf("%01000d", 0))
			w.expect("next")
		}
		w.in.Close()
		began := time.Now()
		v.awaitEnd(t)
		t.Logf("gone after %v", time.Since(began).Round(time.Millisecond))
	})
}

// A fork bomb that can't be stopped forks faster than process 1 looks at it. It ends all
// the same, if need be with the worker.
func TestForkBombThatGoesOn(t *testing.T) {
	enginetest.Alone(t)
	withEachShell(t, func(t *testing.T, p place, _ string) {
		policy := p.policy()
		policy.PidsLimit, policy.TerminationTimeout = 128, ample
		places.Eventually(t, func() string {
			s := open(t, policy, p.spec())
			defer s.Close()
			v := p.victim(t, s.Name())
			began := time.Now()
			r, err := s.Run(t.Context(), execpolicy.Command{Timeout: 2 * time.Second, Script: `python3 -c '` + goesOn + `
while True:
    try:
        if os.fork() == 0: go_on()
    except OSError: pass'`})
			assert.NilError(t, err)
			assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
			assert.Assert(t, r.Gone)
			t.Logf("ended after %v, state lost: %v", time.Since(began).Round(time.Millisecond), r.StateLost)
			wait(t, func() bool { return len(v.left()) < 10 }, "%d processes are left", len(v.left()))
			on, err := s.Run(t.Context(), execpolicy.Command{Script: "echo on"})
			if errors.Is(err, execpolicy.ErrEnded) {
				return err.Error() // process 1 did not get the processor for long enough
			}
			assert.NilError(t, err)
			assert.Equal(t, string(on.Stdout), "on\n")
			return ""
		})
	})
}
