package reach_test

import (
	"net"
	"os/exec"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/reach"
)

// What listens is reached, and what does not is silent. The shell stays as it was.
func TestAttempts(t *testing.T) {
	enginetest.Beside(t)
	open, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NilError(t, err)
	defer open.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NilError(t, err)
	assert.NilError(t, closed.Close())
	_, port, err := net.SplitHostPort(open.Addr().String())
	assert.NilError(t, err)
	_, other, err := net.SplitHostPort(closed.Addr().String())
	assert.NilError(t, err)

	attempts := reach.Attempts("127.0.0.1 $PORT", "127.0.0.1 "+other, "$NOTHING")
	cmd := exec.Command("sh", "-c", "set -eu; "+attempts+"command -v cf_try || echo unchanged $-")
	cmd.Env = append(cmd.Environ(), "PORT="+port)
	out, err := cmd.CombinedOutput()
	assert.NilError(t, err, string(out))
	for _, line := range []string{"reached 127.0.0.1:" + port, "silent 127.0.0.1:" + other} {
		assert.Assert(t, strings.Contains(string(out), "tried "+line+"\n"), "%s", out)
	}
	assert.Equal(t, strings.Count(string(out), "tried "), 2, "%s", out)
	_, flags, _ := strings.Cut(string(out), "unchanged ")
	assert.Assert(t, strings.Contains(flags, "e") && strings.Contains(flags, "u"), "%s", out)
}
