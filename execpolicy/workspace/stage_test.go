package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// Whoever may write to the directory can put another one of it in the place of a stage,
// whose files may be none of theirs. It stays.
func TestStageInWhosePlaceAnotherIs(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	assert.NilError(t, err)
	defer root.Close()
	g := newStage(root)
	_, err = g.put(strings.NewReader("mine"), 0o644)
	assert.NilError(t, err)
	stage, kept := filepath.Join(dir, g.dir), filepath.Join(g.dir, "kept")
	assert.NilError(t, os.Rename(stage, filepath.Join(dir, "away")))
	assert.NilError(t, os.MkdirAll(filepath.Join(dir, kept), 0o755))
	assert.Assert(t, g.clean() != nil)
	_, err = root.Lstat(kept)
	assert.NilError(t, err)
	// The stage itself goes.
	assert.NilError(t, root.Remove(kept))
	assert.NilError(t, os.Remove(stage))
	assert.NilError(t, os.Rename(filepath.Join(dir, "away"), stage))
	assert.NilError(t, g.clean())
	left, err := os.ReadDir(dir)
	assert.NilError(t, err)
	assert.Equal(t, len(left), 0)
}
