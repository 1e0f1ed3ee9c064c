package transfer

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/tarball"
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

// A link in the place of a directory that was made is not followed.
func TestStampOfADirInWhosePlaceALinkIs(t *testing.T) {
	x, dir := newStaged(t)
	made, theirs := filepath.Join(dir, "made"), filepath.Join(dir, "theirs")
	assert.NilError(t, os.Mkdir(made, 0o700))
	info, err := os.Lstat(made)
	assert.NilError(t, err)
	assert.NilError(t, x.stampDir("made", info, tarball.Header{Perm: 0o750}))
	now, err := os.Stat(made)
	assert.NilError(t, err)
	assert.Equal(t, now.Mode().Perm(), os.FileMode(0o750))
	assert.NilError(t, os.Rename(made, filepath.Join(dir, "away")))
	assert.NilError(t, os.Mkdir(theirs, 0o700))
	assert.NilError(t, os.Symlink("theirs", made))
	assert.ErrorIs(t, x.stampDir("made", info, tarball.Header{Perm: 0o777}), tarball.ErrType)
	now, err = os.Stat(theirs)
	assert.NilError(t, err)
	assert.Equal(t, now.Mode().Perm(), os.FileMode(0o700))
	x.Clean()
}

// Nothing is moved out of what stands in the place of the stage.
func TestPlaceOutOfAnotherStage(t *testing.T) {
	x, dir := newStaged(t)
	stage := filepath.Join(dir, x.stage)
	assert.NilError(t, os.Rename(stage, filepath.Join(dir, "away")))
	fill(t, stage)
	assert.ErrorIs(t, x.place(t.Context()), tarball.ErrType)
	_, err := os.Lstat(filepath.Join(dir, "file"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	x.Clean()
}

func TestExtractionGoes(t *testing.T) {
	x, dir := newStaged(t)
	x.Clean()
	assertEmpty(t, dir)
}
