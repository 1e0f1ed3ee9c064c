package enginetest

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

// ownMountsVar is set in a test binary that has a mount namespace of its own.
const ownMountsVar = "COFFERDAM_OWN_MOUNTS"

// OwnMounts reports whether this test binary has a mount namespace of its own. If not, it
// runs the test in one that has. What is mounted there is seen by nobody else, and ends
// with it.
func OwnMounts(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownMountsVar) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), ownMountsVar+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if os.Geteuid() != 0 && err != nil {
		leftout.Skip(t, "only root mounts")
	}
	assert.NilError(t, err, "%s", out)
	assert.Assert(t, strings.Contains(string(out), "--- PASS: "+t.Name()), "%s", out)
	return false
}
