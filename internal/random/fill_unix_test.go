//go:build unix

package random

import (
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

// A program that has no descriptor left, with which the source could be opened, goes on
// with names that are no others'.
func TestSourceThatIsGone(t *testing.T) {
	seen := map[string]bool{}
	draw := func() {
		for range 200 {
			token := Token()
			assert.Equal(t, len(token), 26)
			assert.Assert(t, !seen[token])
			seen[token] = true
		}
	}
	draw()
	was := source
	defer func() { source = was }()
	source = filepath.Join(t.TempDir(), "none")
	draw()
	source = was
	draw()
}
