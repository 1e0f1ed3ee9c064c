package workspace

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

// A link in the place of a directory that was made is not followed.
func TestDirInWhosePlaceALinkIs(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	assert.NilError(t, err)
	defer root.Close()
	p := placing{copied: &copied{root: root}}
	assert.NilError(t, p.mkdir("made"))
	info, err := root.Lstat("made")
	assert.NilError(t, err)
	p.made = []madeDir{{Change{Name: "made", Mode: 0o777}, info}}
	assert.NilError(t, os.Rename(filepath.Join(dir, "made"), filepath.Join(dir, "away")))
	assert.NilError(t, os.Mkdir(filepath.Join(dir, "theirs"), 0o700))
	assert.NilError(t, os.Symlink("theirs", filepath.Join(dir, "made")))
	p.stamp()
	assert.Equal(t, len(p.errs), 1)
	assert.ErrorIs(t, p.errs[0], ErrConflict)
	now, err := root.Stat("theirs")
	assert.NilError(t, err)
	assert.Equal(t, now.Mode().Perm(), os.FileMode(0o700))
}
