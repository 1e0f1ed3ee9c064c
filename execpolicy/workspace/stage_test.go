package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// Whoever may write to the directory can put another one of it in the place of a stage,
// or a link, whose files may be none of theirs. They stay.
func TestStageInWhosePlaceAnotherIs(t *testing.T) {
	for name, put := range map[string]func(stage string) error{
		"a directory": func(stage string) error { return os.Mkdir(stage, 0o755) },
		"a link":      func(stage string) error { return os.Symlink(".", stage) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			root, err := os.OpenRoot(dir)
			assert.NilError(t, err)
			defer root.Close()
			g := newStage(root)
			_, err = g.put(strings.NewReader("mine"), 0o644)
			assert.NilError(t, err)
			stage, away := filepath.Join(dir, g.dir), filepath.Join(dir, "away")
			assert.NilError(t, os.Rename(stage, away))
			assert.NilError(t, put(stage))
			theirs := filepath.Join(stage, "1")
			assert.NilError(t, os.WriteFile(theirs, nil, 0o600))
			_, err = g.put(strings.NewReader("mine too"), 0o644)
			assert.NilError(t, err)
			assert.ErrorIs(t, g.clean(), ErrConflict)
			_, err = os.Lstat(theirs)
			assert.NilError(t, err)
			// What was the stage's is gone.
			left, err := os.ReadDir(away)
			assert.NilError(t, err)
			assert.Equal(t, len(left), 0)
		})
	}
}

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
	p.staging = &staging{stage: newStage(root)}
	p.stamp()
	assert.Equal(t, len(p.errs), 1)
	assert.ErrorIs(t, p.errs[0], ErrConflict)
	now, err := root.Stat("theirs")
	assert.NilError(t, err)
	assert.Equal(t, now.Mode().Perm(), os.FileMode(0o700))
}

func TestStageGoes(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	assert.NilError(t, err)
	defer root.Close()
	g := newStage(root)
	assert.NilError(t, g.clean())
	_, err = g.put(strings.NewReader("mine"), 0o644)
	assert.NilError(t, err)
	assert.Assert(t, isStage(g.dir) && !isStage(g.dir+"x") && !isStage(".cofferdam-") && isStage("sub/"+g.dir))
	assert.NilError(t, g.clean())
	left, err := os.ReadDir(dir)
	assert.NilError(t, err)
	assert.Equal(t, len(left), 0)
}
