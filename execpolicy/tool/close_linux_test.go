package tool_test

import (
	"os"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/python"
	"github.com/seed-64a260eb/cofferdam/execpolicy/tool"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
)

// On the host itself, the end of a set leaves nothing of its interpreter.
func TestCloseOnHost(t *testing.T) {
	enginetest.Check(t)
	// On a busy machine the session may end before the interpreter.
	places.Eventually(t, func() string {
		temp := t.TempDir()
		o := tool.Options{Python: python.Options{Env: map[string]string{"TMPDIR": temp}}}
		s := open(t, execpolicy.HostPolicy{}, execpolicy.Spec{}, o)
		s.ok("python", "code", "'x' * 100_000") // whose reply is stored
		made, err := os.ReadDir(temp)
		assert.NilError(t, err)
		assert.Equal(t, len(made), 1)
		assert.NilError(t, s.Close())
		assert.NilError(t, s.Close())
		left, err := os.ReadDir(temp)
		assert.NilError(t, err)
		if len(left) > 0 {
			return "left: " + left[0].Name()
		}
		return ""
	})
}
