package execpolicy_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

// takeInotify takes inotify instances, at most as many as its argument says. It prints
// how many it got, and the error if it was refused one. A child keeps them.
const takeInotify = `
import ctypes, errno, os, sys, time
libc, got = ctypes.CDLL(None, use_errno=True), 0
while got < int(sys.argv[1]) and libc.inotify_init1(0) >= 0:
    got += 1
print(got, errno.errorcode.get(ctypes.get_errno(), "all"), flush=True)
if os.fork() == 0:
    time.sleep(4871)
`

// The kernel counts inotify instances for each user number: sessions of one user share
// them, and sessions with numbers of their own don't.
func TestUsersShareKernelLimits(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		if p.engine.Remote || p.engine.Rootless {
			leftout.Skip(t, "only a local engine of root's counts for each user")
		}
		text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
		assert.NilError(t, err)
		limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
		assert.NilError(t, err)
		if limit > 1000 {
			leftout.Skip(t, "a user may have more inotify instances than a session has descriptors")
		}
		take := func(user string, most int) string {
			policy := p.policy()
			policy.User = user
			s := open(t, policy, p.spec())
			argv := []string{"python3", "-c", takeInotify, strconv.Itoa(most)}
			return string(s.run(execpolicy.Command{Argv: argv}).Stdout)
		}
		// No other test has sessions of these users, whose instances are all taken.
		assert.Equal(t, take("61871", limit+1), fmt.Sprintf("%d EMFILE\n", limit))
		assert.Equal(t, take("61871", 1), "0 EMFILE\n")
		assert.Equal(t, take("61872", limit), fmt.Sprintf("%d all\n", limit))
	})
}
