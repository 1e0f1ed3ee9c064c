package shellwire_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
)

// What is sent is what stands in the scripts, without the lines that are comments.
func TestSent(t *testing.T) {
	for _, name := range []string{"supervisor.sh", "namespace.sh", "group.sh", "alive.sh", "job.sh"} {
		script, err := os.ReadFile(name)
		assert.NilError(t, err)
		var sent strings.Builder
		for line := range strings.Lines(string(script)) {
			if line = strings.TrimLeft(line, "\t"); !strings.HasPrefix(line, "#") {
				sent.WriteString(line)
			}
		}
		path, err := filepath.Abs(filepath.Join("sent", name))
		assert.NilError(t, err)
		golden.Assert(t, sent.String(), path)
	}
}
