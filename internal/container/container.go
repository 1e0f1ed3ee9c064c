// Package container starts containers through an engine's client, and sees to it that
// nothing is left of them, whatever becomes of the client, of the engine or of this
// program. Of what runs inside it knows process 1 alone: its program, and that its
// command line ends with the container's name.
//
//   - container.go starts one, and detached.go one without a client that stays.
//   - second.go starts one more command in one.
//   - removal.go removes one, and force.go decides what a removal by force does next.
//   - kill*.go and guard.sh kill what runs in one, so that it can be removed, and
//     kill_linux.go favors its process 1.
//   - groups_linux.go lets run what its control groups keep from dying.
//   - listen*.go listens inside a container's network.
//   - evidence*.go finds a container's process 1 and proves that a process has ended.
//   - facts.go says on which engines FIFOs work, and words.go checks words of the command
//     line.
//   - owner.go has the labels by which the program that started a container is known.
//   - guard.go starts the process that removes what this program leaves when it ends.
//   - pending.go goes on with removals for which nobody waits any more.
//   - sweep.go removes what other programs have left.
package container

import (
	"context"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/fifo"
	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
)

// A Container is one run of the engine's client, and the container that it started.
type Container struct {
	Engine *dockercli.Engine
	Name   string
	Argv   []string // of the client
	// Keep says that the container is killed and left, where others are removed.
	Keep bool
	// OwnPIDs says that the container is known to have a process namespace of its own.
	OwnPIDs bool

	// FIFOs is [FIFODir] of its name if Argv detaches the client and mounts what is
	// there. If empty, the client stays and carries the streams.
	FIFOs string

	// Stdin, Stdout and Stderr are our ends of the command's streams.
	Stdin          *os.File
	Stdout, Stderr io.ReadCloser
	// Ops is for writing to the command's descriptor 3; nil if the client stays.
	Ops *os.File

	client   *procgroup.Process    // nil if it is another program's
	detached *detached             // nil if the client stays
	done     <-chan struct{}       // closed when the client or else the command has ended
	guard    atomic.Pointer[Guard] // nil once it does not watch any more

	answered atomic.Bool // the command inside was heard
	// unreached says that the client has ended, and said that it never reached its
	// engine.
	unreached atomic.Bool
	cut       atomic.Pointer[time.Time] // when the client was first seen cut off
	first     atomic.Pointer[FirstProcess]
	// failedInside is how many commands in a row could not be run inside to kill what is
	// there.
	failedInside atomic.Int32
}

// Start starts the client, and with it the container. The client has that environment,
// and the file as its descriptor 3 unless it is nil.
func (c *Container) Start(env []string, extra *os.File) error {
	start := c.attach
	if c.FIFOs != "" {
		start = c.detach
	}
	// From here on a container may come into being.
	g := guardOf(c.Engine, c.Keep)
	g.Add(c.Name)
	c.guard.Store(g)
	err := start(env, extra)
	if err != nil {
		c.unguard()
	}
	return err
}

// attach starts a container whose client carries its streams.
func (c *Container) attach(env []string, extra *os.File) error {
	client, ours, err := procgroup.StartPiped(procgroup.Cmd{
		Path:  c.Argv[0],
		Args:  c.Argv,
		Env:   env,
		Dir:   c.Engine.Dir(),
		Extra: inherited(extra),
	})
	if err != nil {
		return err
	}
	c.client, c.done = client, client.Done()
	c.Stdin, c.Stdout, c.Stderr = ours[0], ours[1], ours[2]
	return nil
}

// inherited returns the files that a client gets besides its streams. Some systems allow
// none.
func inherited(files ...*os.File) []*os.File {
	for len(files) > 0 && files[len(files)-1] == nil {
		files = files[:len(files)-1]
	}
	return files
}

// Adopt takes the place of Start for a container that is there already, and is to be
// removed. If it is running, what runs inside is killed first; its process 1 is first if
// that was found. The client is nil if it is another program's, and then neither Force
// nor Kill can be called.
func (c *Container) Adopt(client *procgroup.Process, running bool, first FirstProcess) {
	c.client = client
	c.answered.Store(running)
	c.first.Store(&first)
}

// Started is closed when the client has ended, or needs nothing of this program any more.
func (c *Container) Started() <-chan struct{} { return c.client.Done() }

// Done is closed when the client has ended or, if it does not stay, when the command has.
func (c *Container) Done() <-chan struct{} { return c.done }

// ExitCode returns the client's exit status once Done is closed, or that of the command
// if the client has left it; -1 if there is none, or if the engine does not tell.
func (c *Container) ExitCode() int {
	code := c.client.State().ExitCode()
	if c.detached != nil && code == 0 {
		return c.detached.exit()
	}
	return code
}

// Hear notes that the command inside was heard, finds out who it is, and has it favored.
func (c *Container) Hear() {
	if c.answered.Load() {
		return
	}
	if c.OwnPIDs && !c.Engine.Remote {
		first := FindFirst(c.Name, c.client.Pid())
		first.favor()
		c.first.Store(&first)
	}
	c.answered.Store(true)
	first := c.found()
	if g := c.guard.Load(); g != nil && c.OwnPIDs && (first.PID != 0 || !c.Engine.PodmanService) {
		g.know(c.Name, first)
	}
}

// found returns process 1, once the command inside was heard and if it was found then.
func (c *Container) found() FirstProcess {
	if first := c.first.Load(); first != nil {
		return *first
	}
	return FirstProcess{}
}

// Diagnose returns why the client ended before the command inside was heard, with that
// exit status and those last words on its stderr. It wraps [fifo.ErrNotMet] if the
// container ran.
func (c *Container) Diagnose(exitCode int, stderr []byte) *dockercli.Error {
	var cause error
	if c.metNobody() {
		cause = fifo.ErrNotMet
	}
	err := dockercli.NewRunError(c.Argv, exitCode, stderr, cause)
	c.unreached.Store(err.Unreached())
	return err
}

// OOMKilled tells whether the kernel has ended processes of the container for memory
// since then, at any time if that is zero; known is false if that can't be learnt.
func (c *Container) OOMKilled(ctx context.Context, since time.Time) (killed, known bool) {
	if c.Engine.Remote {
		since = time.Time{} // its clock is another
	}
	killed, err := c.Engine.OOMKilled(ctx, c.Name, since)
	return killed, err == nil
}

// ImageID returns the ID of the container's image, as the engine has it.
func (c *Container) ImageID(ctx context.Context) (string, error) {
	state, err := c.Engine.Inspect(ctx, c.Name)
	if err != nil {
		return "", err
	}
	return state.ImageID, nil
}
