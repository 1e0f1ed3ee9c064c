package workspace

import (
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
)

// A file server that has a lease on a file gives it up when somebody opens the file.
func TestLeaseIsWaitedFor(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	assert.NilError(t, os.WriteFile(name, []byte("x"), 0o600))
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	assert.NilError(t, err)
	defer f.Close()
	lease := func(kind uintptr) syscall.Errno {
		_, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_SETLEASE, kind)
		return errno
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGIO)
	defer signal.Stop(told)
	assert.Equal(t, lease(syscall.F_WRLCK), syscall.Errno(0))
	_, err = os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	assert.ErrorIs(t, err, syscall.EAGAIN)
	released := make(chan syscall.Errno)
	go func() {
		<-told
		released <- lease(syscall.F_UNLCK)
	}()
	root, err := os.OpenRoot(dir)
	assert.NilError(t, err)
	defer root.Close()
	opened, mode, err := open(root, "file")
	assert.Equal(t, <-released, syscall.Errno(0))
	assert.NilError(t, err)
	assert.Assert(t, mode.IsRegular())
	assert.NilError(t, opened.Close())
}
