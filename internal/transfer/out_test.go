package transfer

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

var stagedFiles = []string{"file", filepath.Join("in", "dir", "file")}

// newStaged returns an extraction of stagedFiles that has its stage.
func newStaged(t *testing.T) (x *Extraction, dir string) {
	dir = t.TempDir()
	root, err := os.OpenRoot(dir)
	assert.NilError(t, err)
	t.Cleanup(func() { root.Close() })
	x = NewExtraction(root)
	x.made, x.files = map[string]bool{}, stagedFiles
	assert.NilError(t, x.open())
	assert.NilError(t, x.dir(filepath.Join("in", "dir")))
	fill(t, filepath.Join(dir, x.stage))
	return x, dir
}

// fill makes stagedFiles in a directory.
func fill(t *testing.T, dir string) {
	for _, name := range stagedFiles {
		assert.NilError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		assert.NilError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
}

func assertEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	assert.NilError(t, err)
	assert.Equal(t, len(left), 0)
}

// Whoever may write to the directory can put another one of it in the place of a stage,
// or a link, whose files may be none of theirs. They stay.
func TestExtractionInWhosePlaceAnotherIs(t *testing.T) {
	for name, put := range map[string]func(stage string) error{
		"a directory": func(stage string) error { return os.Mkdir(stage, 0o755) },
		"a link":      func(stage string) error { return os.Symlink(".", stage) },
	} {
		t.Run(name, func(t *testing.T) {
			x, dir := newStaged(t)
			stage, away := filepath.Join(dir, x.stage), filepath.Join(dir, "away")
			assert.NilError(t, os.Rename(stage, away))
			assert.NilError(t, put(stage))
			fill(t, stage)
			x.Clean()
			for _, name := range x.files {
				_, err := os.Lstat(filepath.Join(stage, name))
				assert.NilError(t, err)
			}
			assertEmpty(t, away)
		})
	}
}

func TestExtractionGoes(t *testing.T) {
	x, dir := newStaged(t)
	x.Clean()
	assertEmpty(t, dir)
}
