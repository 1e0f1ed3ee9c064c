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
	was := source
	// Even the first draw may be without it.
	source = filepath.Join(t.TempDir(), "none")
	unused.left, unused.seed = nil, [32]byte{}
	draw()
	source = was
	draw()
	defer func() { source = was }()
	source = filepath.Join(t.TempDir(), "none")
	draw()
	source = was
	draw()
}

// Two copies of a program do not draw the same name.
func TestFresh(t *testing.T) {
	Token()
	all, left := unused.all, len(unused.left)
	first := Fresh()
	unused.all = all
	unused.left = unused.all[len(all)-left:]
	assert.Assert(t, Fresh() != first)
}
