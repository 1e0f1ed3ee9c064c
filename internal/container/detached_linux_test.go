package container

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/fifo"
	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
)

// A command may be met after its container was told to end, and before that is gone.
// Nothing stays of its FIFOs, whatever is seen first.
func TestFIFOsGoWithTheContainer(t *testing.T) {
	enginetest.Check(t)
	for range 20 {
		dir := filepath.Join(t.TempDir(), "cofferdam-fifos")
		ends, err := fifo.New(dir)
		assert.NilError(t, err)
		client, err := procgroup.Start(procgroup.Cmd{Path: "/bin/true", Args: []string{"true"}})
		assert.NilError(t, err)
		<-client.Done()
		guard := newGuard("false")
		c := &Container{FIFOs: dir, client: client, detached: &detached{Ends: ends, gone: make(chan struct{})}}
		c.guard.Store(guard)
		guard.Add(c.Name)

		c.partFIFOs() // as Kill does first
		command, err := os.OpenFile(filepath.Join(fifo.Source(dir), "out"), os.O_WRONLY, 0)
		assert.NilError(t, err)
		_, err = command.WriteString("\n")
		assert.NilError(t, err)
		assert.NilError(t, command.Close())
		_, err = io.Copy(io.Discard, ends.Stdout)
		assert.NilError(t, err)
		c.unguard()

		over := make(chan struct{})
		c.meet(over)
		<-over
		_, err = os.Lstat(dir)
		assert.Assert(t, errors.Is(err, fs.ErrNotExist), "the directory is left: %v", err)
		fifoGuard.mu.Lock()
		assert.Equal(t, len(fifoGuard.watched), 0)
		fifoGuard.mu.Unlock()
		ends.Close()
	}
}
