package container

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/fifo"
	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
)

const (
	// meetTimeout is how long a command may take to open its FIFOs, when the client has
	// said that the container runs.
	meetTimeout = 10 * time.Second
	// meetPoll is the pause between two questions to the engine whether it still does.
	meetPoll = time.Second
	// exitTimeout is for an engine to tell how a container has ended. Each caller may
	// stop waiting earlier.
	exitTimeout = 5 * time.Second
)

// FIFODir returns the directory for the FIFOs of a container of that name.
func FIFODir(name string) string { return filepath.Join(os.TempDir(), name) }

// A detached container has FIFOs for its streams, and no client once it runs.
type detached struct {
	*fifo.Ends
	begin time.Time
	gone  chan struct{} // closed when the container is known to be gone

	guarding sync.Mutex // of what sees to the directory of the FIFOs
	guards   []*Guard   // which have it
	parted   bool       // it was removed
	// exit is the status of the container's own end.
	exit func() int
}

// detach starts a container whose client leaves it when it runs.
func (c *Container) detach(env []string, extra *os.File) error {
	ends, err := fifo.New(c.FIFOs)
	if err != nil {
		return err
	}
	d := &detached{Ends: ends, begin: time.Now(), gone: make(chan struct{})}
	d.exit = sync.OnceValue(func() int { return c.exitStatus(d.begin) })
	c.client, err = procgroup.Start(procgroup.Cmd{
		Path:   c.Argv[0],
		Args:   c.Argv,
		Env:    env,
		Dir:    c.Engine.Dir(),
		Stderr: ends.Client,
		Extra:  inherited(extra, ends.Janitor),
	})
	if err != nil {
		ends.Close()
		return err
	}
	ends.Client.Close()
	c.Stdin, c.Stdout, c.Stderr, c.Ops = ends.Stdin, ends.Stdout, ends.Stderr, ends.Ops
	over := make(chan struct{})
	c.detached, c.done = d, over
	go c.meet(over)
	return nil
}

// meet sees that the client, the command and this program come together, and waits for
// the end of the command. Then it closes over. If nobody reads what the command prints,
// its end shows only when the container is known to be gone.
func (c *Container) meet(over chan<- struct{}) {
	defer close(over)
	d := c.detached
	<-c.client.Done()
	if c.client.State().ExitCode() != 0 {
		c.dropFIFOs()
		return
	}
	late := time.NewTimer(meetTimeout)
	defer late.Stop()
	for {
		select {
		case <-d.Met():
			c.guardFIFOs()
			select {
			case <-d.Over():
			case <-d.gone:
			}
			return
		case <-d.Over():
			return
		case <-d.gone:
			return
		case <-late.C:
			c.dropFIFOs()
		case <-time.After(meetPoll):
			ctx, cancel := context.WithTimeout(context.Background(), meetTimeout)
			state, err := c.Engine.Inspect(ctx, c.Name)
			cancel()
			if errors.Is(err, dockercli.ErrNoContainer) || err == nil && !state.Running {
				c.dropFIFOs()
			}
		}
	}
}

// guardFIFOs has guards see to the directory of the FIFOs in place of the janitor.
func (c *Container) guardFIFOs() {
	d := c.detached
	d.guarding.Lock()
	defer d.guarding.Unlock()
	if !d.parted {
		d.guards = append(d.guards, fifoGuard)
		if g := c.guard.Load(); g != nil {
			d.guards = append(d.guards, g)
		}
	}
	for _, g := range d.guards {
		g.Add(c.FIFOs)
	}
	d.Settle()
}

// partFIFOs removes the directory of the FIFOs, if the command was met: until then the
// engine may look for it.
func (c *Container) partFIFOs() {
	if c.detached == nil {
		return
	}
	select {
	case <-c.detached.Met():
		c.dropFIFOs()
	default:
	}
}

// dropFIFOs removes the directory of the FIFOs for good.
func (c *Container) dropFIFOs() {
	d := c.detached
	d.guarding.Lock()
	defer d.guarding.Unlock()
	d.parted = true
	d.Part()
	for _, g := range d.guards {
		g.Remove(c.FIFOs)
	}
	d.guards = nil
}

// metNobody reports whether the client has left a running container whose command did not
// open its FIFOs.
func (c *Container) metNobody() bool {
	if c.detached == nil || c.client.State() == nil || c.client.State().ExitCode() != 0 {
		return false
	}
	select {
	case <-c.detached.Met():
		return false
	default:
		return true
	}
}

// sawEnd waits a moment for process 1 to end, once the command's output has come to its
// end: what else is inside ends before it.
func (c *Container) sawEnd(ctx context.Context) bool {
	over := time.After(helpAfter)
	for pause := time.Millisecond; ; pause = min(2*pause, endPoll) {
		if c.found().evidence() != processLives {
			return c.found().evidence() == processEnded
		}
		select {
		case <-time.After(pause):
		case <-over:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// forget has the engine forget a container that has ended by the kernel's word, and
// reports whether both are so. It leaves half of the time to those who go on if not.
func (c *Container) forget(ctx context.Context) bool {
	if !c.answered.Load() || c.Keep || !c.sawEnd(ctx) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, bound.Left(ctx)/2)
	defer cancel()
	select {
	case removals <- struct{}{}:
		defer func() { <-removals }()
	case <-ctx.Done():
		return false
	}
	return c.Engine.Remove(ctx, c.Name) == nil
}

// exitStatus asks the engine how the container has ended, until it knows that; -1 if it
// does not tell in time.
func (c *Container) exitStatus(since time.Time) int {
	ctx, cancel := context.WithTimeout(context.Background(), exitTimeout)
	defer cancel()
	for {
		code, err := c.Engine.ExitCode(ctx, c.Name, since)
		if err == nil && code >= 0 {
			return code
		}
		select {
		case <-time.After(lookAgain / 2):
		case <-ctx.Done():
			return -1
		}
	}
}
