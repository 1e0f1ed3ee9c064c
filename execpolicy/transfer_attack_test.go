//go:build linux

package execpolicy_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// stopReaders is a program that a SIGSTOP holds up for a millisecond, for it has a timer that sends it
// SIGCONT. It stops every process that reads a transfer for process 1, over and over.
const stopReaders = `exec python3 -c '
import ctypes, os, signal
libc = ctypes.CDLL(None)
event = (ctypes.c_int * 16)()
event[2] = signal.SIGCONT # to a handler: what is ignored is not sent
timer = ctypes.c_void_p()
assert libc.timer_create(1, event, ctypes.byref(timer)) == 0
assert libc.timer_settime(timer, 0, (ctypes.c_long * 4)(0, 1000000, 0, 1000000), None) == 0
for s in range(1, 65):
    try: signal.signal(s, (lambda *a: None) if s == signal.SIGCONT else signal.SIG_IGN)
    except (OSError, ValueError): pass
print("begun", flush=True)
while True:
    for p in os.listdir("/proc"):
        try:
            if p.isdigit() and open("/proc/" + p + "/stat").read().split()[1:4:2] == ["(dd)", "1"]:
                os.kill(int(p), signal.SIGSTOP)
        except OSError: pass
'`

// A transfer whose reader is stopped goes on, whoever can't be stopped himself.
func TestTransferWhoseReaderIsStopped(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		s.ok("(" + stopReaders + ") >begun 2>&1 & until [ -s begun ]; do sleep 0.1; done; cat begun")
		data := make([]byte, 8<<20)
		for i := range data {
			data[i] = byte(rand.Uint32())
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*ample)
		defer cancel()
		for range 10 {
			assert.NilError(t, s.WriteFile(ctx, "small", data[:1<<10], 0o600))
			assert.NilError(t, s.WriteFile(ctx, "large", data, 0o600))
		}
		s.ok("kill -9 $!")
		for name, want := range map[string][]byte{"small": data[:1<<10], "large": data} {
			got, err := s.ReadFile(ctx, name, 8<<20)
			assert.NilError(t, err)
			assert.Assert(t, bytes.Equal(got, want))
		}
	})
}

// Nobody can take a lease on what process 1 opens, which would hold it up for most of a minute.
func TestLeaseOnTheWorkersScript(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		const take = `python3 -c '
import fcntl, os
for name in os.listdir("/proc/%d/fd" % os.getppid()):
    try: file = os.open("/proc/%d/fd/%s" % (os.getppid(), name), os.O_RDONLY | os.O_NONBLOCK)
    except OSError: continue
    if not os.readlink("/proc/self/fd/%d" % file).startswith("/.cofferdam/"): continue
    try: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError: print("refused")
    else: print("taken")
'`
		said := s.ok(take)
		assert.Assert(t, strings.Contains(said, "refused") && !strings.Contains(said, "taken"), "%q", said)
	})
}
