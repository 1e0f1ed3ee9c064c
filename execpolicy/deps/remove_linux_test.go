package deps

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/account"
)

// An ordinary user can't remove what he has no rights to, nor what lies deeper than a
// name may be long, without seeing to it first.
func TestRemoveAsAnOrdinaryUser(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside")
	assert.NilError(t, os.MkdirAll(filepath.Join(outside, "kept"), 0o755))
	if os.Getuid() == 0 {
		for _, d := range []string{filepath.Dir(dir), dir} {
			assert.NilError(t, os.Chmod(d, 0o777))
		}
	}
	root, err := os.OpenRoot(dir)
	assert.NilError(t, err)
	defer root.Close()
	done := make(chan error)
	go func() {
		// The thread ends with the goroutine, and so does what it gives up.
		runtime.LockOSThread()
		if os.Getuid() == 0 {
			if err := syscall.Setfsuid(account.Nobody.UID); err != nil {
				done <- err
				return
			}
		}
		done <- func() error {
			err := root.MkdirAll("stage/tree/closed/below/deeper", 0o700)
			err = errors.Join(err, root.Symlink("../../outside", "stage/tree/link"),
				root.Symlink(outside, "stage/tree/closed/below/link"),
				root.WriteFile("stage/tree/closed/below/file", nil, 0), root.Mkdir("stage/tree/1", 0o755))
			deep := "stage/tree/1"
			for range 20 {
				deep += strings.Repeat("/"+strings.Repeat("d", 200), 3)
				err = errors.Join(err, root.MkdirAll(deep, 0o700))
			}
			err = errors.Join(err, root.Chmod(deep, 0), root.Chmod("stage/tree/closed/below", 0),
				root.Chmod("stage/tree/closed", 0), root.Chmod("stage/tree", 0))
			if err != nil {
				return err
			}
			if root.RemoveAll("stage") == nil {
				return errors.New("it can be removed without seeing to its rights")
			}
			return remove(root, "stage")
		}()
	}()
	assert.NilError(t, <-done)
	_, err = root.Lstat("stage")
	assert.ErrorIs(t, err, fs.ErrNotExist)
	_, err = root.Stat("outside/kept")
	assert.NilError(t, err)
}

// What a killed program has left is removed, and what another one is at work on is not.
func TestSweep(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	assert.NilError(t, err)
	defer root.Close()
	names := func() (names []string) {
		entries, err := fs.ReadDir(root.FS(), ".")
		assert.NilError(t, err)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	for _, dir := range []string{"left", "left/tree/a/b", "left/1/c", "left/7"} {
		assert.NilError(t, root.MkdirAll(stagePrefix+dir, 0o700))
	}
	for _, dir := range []string{".cofferdam-other/tree", "mine"} {
		assert.NilError(t, root.MkdirAll(dir, 0o700))
	}
	assert.NilError(t, root.Symlink("mine", stagePrefix+"link"))
	stage, held, err := claim(root)
	assert.NilError(t, err)
	assert.NilError(t, root.Mkdir(filepath.Join(stage, tree), 0o700))
	kept := names()
	sweep(root)
	assert.DeepEqual(t, names(), slices.DeleteFunc(kept, func(name string) bool { return name == stagePrefix+"left" }))
	assert.NilError(t, held.Close())
	sweep(root)
	assert.DeepEqual(t, names(), []string{stagePrefix + "link", ".cofferdam-other", "mine"})
}

// Who builds another layer sweeps the cache, and leaves alone what is being removed.
func TestSweepBesideRemove(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	assert.NilError(t, err)
	defer root.Close()
	for range 3 {
		for i := range 300 {
			assert.NilError(t, root.MkdirAll(filepath.Join("layer", tree, strconv.Itoa(i)), 0o700))
		}
		done := make(chan error)
		go func() { done <- removeLayer(root, "layer") }()
		for removed := false; !removed; {
			select {
			case err := <-done:
				if !errors.Is(err, fs.ErrNotExist) { // a sweep came first
					assert.NilError(t, err)
				}
				removed = true
			default:
				sweep(root)
			}
		}
		entries, err := fs.ReadDir(root.FS(), ".")
		assert.NilError(t, err)
		assert.Equal(t, len(entries), 0)
	}
}
