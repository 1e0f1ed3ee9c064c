//go:build linux

package execpolicy_test

import (
	"io"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
)

// Whoever writes to a file waits for the kernel's lock of it. Those that queue for it,
// beside others that take the processor from whoever has it, hold up a writer for most of
// a minute: that must not be process 1, which would miss the end of its stdin.
func TestLockOfTheWorkersScript(t *testing.T) {
	enginetest.Alone(t)
	withEachShell(t, func(t *testing.T, p place, _ string) {
		policy := p.policy()
		policy.PidsLimit = 256
		w := p.startRaw(t, policy)
		v := p.victim(t, w.name)
		w.run("queue", `(python3 -c '
import os, signal
for s in range(1, 65):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
script = os.open("/.cofferdam/script", os.O_RDWR)
text = b":\n" * (4 << 20)
for i in range(200):
    if os.fork() == 0: break
else:
    print("queued", flush=True)
while i % 2 == 0:
    try: os.pwrite(script, text, 1 << 20)
    except OSError: pass
while True: pass') &`)
		w.expect("queued")
		wait(t, func() bool { return len(v.left()) > 200 }, "nobody queues")
		w.run("next", "echo next")
		w.in.Close()
		began := time.Now()
		v.awaitEnd(t)
		t.Logf("gone after %v", time.Since(began).Round(time.Millisecond))
	})
}

// What writes a unit in the place of process 1 can be stopped or killed. Then everything
// is ended for a new worker, which can be given the unit.
func TestWriterOfAUnit(t *testing.T) {
	enginetest.Alone(t)
	withEachShell(t, func(t *testing.T, p place, shell string) {
		for _, signal := range []string{"SIGSTOP", "SIGKILL"} {
			w := p.startRaw(t, p.policy())
			// The next process has the next number.
			w.run("hunt", `(python3 -c '
import os, signal
print("hunts", flush=True)
while True:
    last = int(open("/proc/sys/kernel/ns_last_pid").read())
    for pid in range(last + 1, last + 4):
        try: os.kill(pid, signal.`+signal+`)
        except OSError: pass') &`)
			w.expect("hunts")
			lost := false
			for deadline, units := time.Now().Add(patience), 0; !lost; units++ {
				if shell == "bash" && units == 300 {
					break // Bash stops everything before it forks, so a writer is rarely met.
				}
				assert.Assert(t, time.Now().Before(deadline), "no writer was met by %s", signal)
				w.run("met", "echo; echo ran")
				lost = w.expect("ran", "PREFIX7x1 unrun") != "ran"
			}
			if lost {
				w.send(shellwire.StartWorker)
			}
			w.run("after", "echo after")
			w.expect("after")
			w.in.Close()
			w.ends("%s: process 1 does not end", signal)
		}
	})
}

// Nobody inside can change what process 1 may do, but each program its own limits.
func TestLimitsOfProcess1(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		r := s.script(`python3 -c '
import os, resource
print(resource.prlimit(1, resource.RLIMIT_NOFILE) != (0, 0))
resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
print(resource.getrlimit(resource.RLIMIT_NOFILE))
for pid in 1, os.getppid():
    try: resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, 0))
    except OSError as e: print(e.strerror)'`)
		const refused = "Operation not permitted\n"
		assert.Equal(t, string(r.Stdout), "True\n(20, 20)\n"+refused+refused, "%s", r.Stderr)
	})
}

// With a filter that allows it, anybody inside can take from process 1 the right to open
// files. It must not wait for a writer that it can't look at, and that may be stopped.
// Busybox can't come back from a redirection then, and never ends.
func TestWriterThatCannotBeSeen(t *testing.T) {
	withEachShell(t, func(t *testing.T, p place, shell string) {
		if shell == "busybox" {
			return
		}
		policy := p.policy()
		policy.EngineSeccomp = true
		w := p.startRaw(t, policy)
		v := p.victim(t, w.name)
		w.run("hunt", `(python3 -c '
import os, resource, signal
print("hunts", flush=True)
while True:
    last = int(open("/proc/sys/kernel/ns_last_pid").read())
    for pid in range(last + 1, last + 4):
        try: os.kill(pid, signal.SIGSTOP)
        except OSError: continue
        try: resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0))
        except OSError: pass') &`)
		w.expect("hunts")
		// Nothing is read of what they print: process 1 may end at any of them.
		for range 30 {
			if _, err := io.WriteString(w.in, string(shellwire.Next("met"))+string(shellwire.Unit{Script: "echo"}.Ops())); err != nil {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		w.in.Close()
		v.awaitEnd(t)
	})
}
