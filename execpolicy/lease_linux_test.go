//go:build linux

package execpolicy_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// Nobody can take a lease on what process 1 opens, which would hold it up for most of a
// minute.
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
