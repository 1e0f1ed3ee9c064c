package filelock_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/filelock"
)

// lockVar names the file that the test binary is to lock, as a program of its own.
const lockVar = "COFFERDAM_TEST_LOCK"

func TestMain(m *testing.M) {
	if name := os.Getenv(lockVar); name != "" {
		f, err := os.Open(name)
		if err == nil {
			err = filelock.Lock(f)
		}
		if err != nil {
			os.Exit(1)
		}
		os.Stdout.WriteString("locked\n")
		select {}
	}
	os.Exit(m.Run())
}

func open(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	assert.NilError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func TestLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	one, other := open(t, name), open(t, name)
	if err := filelock.Lock(one); errors.Is(err, errors.ErrUnsupported) {
		assert.ErrorIs(t, filelock.TryLock(one), errors.ErrUnsupported)
		return
	}
	assert.Assert(t, filelock.TryLock(other) != nil)
	assert.NilError(t, filelock.Unlock(one))
	assert.NilError(t, filelock.RLock(other))
	assert.NilError(t, filelock.RLock(one))
	assert.Assert(t, filelock.TryLock(one) != nil)
	assert.NilError(t, other.Close())
	assert.NilError(t, filelock.TryLock(one))
	assert.ErrorIs(t, filelock.Lock(other), os.ErrClosed)
}

// The lock of a program that is killed is free.
func TestKilledHolder(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	f := open(t, name)
	if err := filelock.TryLock(f); errors.Is(err, errors.ErrUnsupported) {
		return
	}
	assert.NilError(t, filelock.Unlock(f))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), lockVar+"="+name)
	stdout, err := cmd.StdoutPipe()
	assert.NilError(t, err)
	assert.NilError(t, cmd.Start())
	_, err = stdout.Read(make([]byte, 1))
	assert.NilError(t, err)
	assert.Assert(t, filelock.TryLock(f) != nil)
	assert.NilError(t, cmd.Process.Kill())
	cmd.Wait()
	assert.NilError(t, filelock.Lock(f))
}
