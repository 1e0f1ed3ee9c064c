//go:build unix

package stage

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// Whoever may write to the directory can put a FIFO in the place of a directory in it.
// Nothing waits for somebody to write to that.
func TestFifoInThePlaceOfADirectory(t *testing.T) {
	root, dir := newRoot(t)
	assert.NilError(t, root.Mkdir("made", 0o700))
	info, err := root.Lstat("made")
	assert.NilError(t, err)
	assert.NilError(t, root.Remove("made"))
	assert.NilError(t, syscall.Mkfifo(filepath.Join(dir, "made"), 0o600))
	opened := make(chan error, 1)
	go func() {
		opened <- WithDir(root, "made", info, func(*os.Root) error { return errors.New("it was opened") })
	}()
	select {
	case err := <-opened:
		assert.ErrorIs(t, err, syscall.ENOTDIR)
	case <-time.After(time.Minute):
		t.Fatal("it waits")
	}
}
