package workspace

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/turn"
)

// The host's directory stays open for who uses it, also beyond the end of the session.
func TestDirIsClosedInTurn(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	assert.NilError(t, err)
	c := &copied{root: root, turn: turn.New(1)}
	assert.NilError(t, c.turn.Take(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.NilError(t, c.spec(execpolicy.Spec{}, true).Finish(ctx, nil))
	_, err = root.Stat(".")
	assert.NilError(t, err)
	c.release()
	assert.NilError(t, c.turn.Take(t.Context()))
	c.release()
	for err == nil {
		_, err = root.Stat(".")
		runtime.Gosched()
	}
	assert.ErrorIs(t, err, os.ErrClosed)
}

// What a directory of the host has beside its permissions stays, as no tree has it.
func TestSpecialBitsStay(t *testing.T) {
	if runtime.GOOS == "windows" {
		return
	}
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	assert.NilError(t, err)
	defer root.Close()
	shared := filepath.Join(dir, "shared")
	assert.NilError(t, os.Mkdir(shared, 0o700))
	assert.NilError(t, os.Chmod(shared, 0o775|os.ModeSetgid|os.ModeSticky))
	p := placing{copied: &copied{root: root, base: map[string]state{}}, dirs: map[string]bool{}}
	assert.NilError(t, p.placeDir(Change{Name: "shared", Kind: Changed, Mode: os.ModeDir | 0o750}, "shared", true))
	p.stamp()
	assert.Equal(t, len(p.errs), 0, "%v", p.errs)
	info, err := os.Stat(shared)
	assert.NilError(t, err)
	assert.Equal(t, info.Mode(), os.ModeDir|0o750|os.ModeSetgid|os.ModeSticky)
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
	p.stamp()
	assert.Equal(t, len(p.errs), 1)
	assert.ErrorIs(t, p.errs[0], ErrConflict)
	now, err := root.Stat("theirs")
	assert.NilError(t, err)
	assert.Equal(t, now.Mode().Perm(), os.FileMode(0o700))
}
