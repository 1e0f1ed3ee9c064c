package account

import (
	"os"
	"os/exec"
	"testing"

	"gotest.tools/v3/assert"
)

func TestPrintScript(t *testing.T) {
	out, err := exec.Command("sh", "-c", PrintScript).Output()
	assert.NilError(t, err)
	a, ok := parsePrinted(string(out))
	assert.Assert(t, ok, "%s", out)
	assert.Equal(t, a, Account{os.Getuid(), os.Getgid()})
}
