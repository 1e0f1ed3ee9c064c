package transfer

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

// Whoever may write to the directory can put another one of it in the place of a stage,
// whose files may be none of theirs. It stays.
func TestExtractionInWhosePlaceAnotherIs(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	assert.NilError(t, err)
	defer root.Close()
	x := NewExtraction(root)
	x.made, x.files = map[string]bool{}, []string{"file", filepath.Join("in", "dir", "file")}
	stage, away, kept := filepath.Join(dir, x.stage), filepath.Join(dir, "away"), filepath.Join(x.stage, "kept")
	assert.NilError(t, root.Mkdir(x.stage, 0o700))
	assert.NilError(t, x.dir(filepath.Join("in", "dir")))
	for _, name := range x.files {
		assert.NilError(t, os.WriteFile(filepath.Join(stage, name), nil, 0o600))
	}
	assert.NilError(t, os.Rename(stage, away))
	assert.NilError(t, os.MkdirAll(filepath.Join(dir, kept), 0o755))
	x.Clean()
	_, err = root.Lstat(kept)
	assert.NilError(t, err)
	// The stage itself goes.
	assert.NilError(t, root.RemoveAll(x.stage))
	assert.NilError(t, os.Rename(away, stage))
	x.Clean()
	left, err := os.ReadDir(dir)
	assert.NilError(t, err)
	assert.Equal(t, len(left), 0)
}
