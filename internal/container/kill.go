package container

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

const (
	// After helpAfter a removal that hangs is helped: code that spins at a priority above
	// its process 1 can hold it up for minutes.
	helpAfter = time.Second
	// execGrace is for a command that kills what is inside. Code inside can put one in
	// its place that does not end.
	execGrace = 2 * helpAfter
	// endPoll is the pause between two looks at a process.
	endPoll = 20 * time.Millisecond
)

// errNotInside says that nothing is to be run in the container to kill what is there.
var errNotInside = errors.New("processes can't be killed from inside")

// killLater returns what begins to kill all that runs in the container, if that has not
// begun yet, and a timer that does so if a removal takes long. The channel is that of
// killAll.
func (c *Container) killLater(ctx context.Context) (kill func() (tried <-chan struct{}), help *time.Timer) {
	var once sync.Once
	tried := make(chan struct{})
	kill = func() <-chan struct{} {
		once.Do(func() { go c.killAll(ctx, tried) })
		return tried
	}
	return kill, time.AfterFunc(helpAfter, func() {
		if c.client != nil && c.answered.Load() {
			// The client has nothing to create any more, and one that stands still may
			// hold a lock that podman needs for the removal.
			c.client.Stop(ctx, clientGrace/4)
		}
		kill()
	})
}

// killAll kills all that runs in the container, again and again, until it has ended or
// ctx ends: process 1 where this program may, without the engine, which can be away or
// wait for a process that gets no time; and the rest from inside. It closes tried after
// the first time.
func (c *Container) killAll(ctx context.Context, tried chan<- struct{}) {
	for tries := 0; ; tries++ {
		living := c.found().evidence() == processLives
		c.found().kill(ctx)
		err := c.killInside(ctx)
		switch {
		case err == nil:
			c.failedInside.Store(0)
		case err == errNotInside:
			c.failedInside.Store(mostFailures)
		case !errors.Is(err, dockercli.ErrNoContainer):
			// An engine that has forgotten it can't remove it either.
			c.failedInside.Add(1)
		}
		if tries == 0 {
			close(tried)
		}
		nothing := errors.Is(err, dockercli.ErrNoContainer) || errors.Is(err, dockercli.ErrNotRunning)
		if (nothing || err == errNotInside) && !living {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookAgain):
		}
		switch c.found().evidence() {
		case processEnded:
			return
		case processLives:
			if err == nil {
				// It alone is left. Podman takes no command for a container any more
				// whose process 1 takes long to obey this.
				c.Engine.Kill(ctx, c.Name, "KILL")
			}
		}
	}
}

// killInside kills once, from inside, all that runs in the container, if it is proven
// that this is not all that runs on the host: a caller, or podman's configuration, can
// give a container the host's process namespace. Podman's service keeps a process for
// five minutes for each command that was run so, so there nothing is.
func (c *Container) killInside(ctx context.Context) error {
	if !c.OwnPIDs || c.Engine.PodmanService {
		return errNotInside
	}
	// Process 1 was only found if it is that of a namespace below this one.
	if c.found().evidence() == processUnknown {
		state, err := c.Engine.Inspect(ctx, c.Name)
		if err != nil {
			return err
		}
		if !state.OwnPIDs {
			return errNotInside
		}
	}
	execCtx, cancel := context.WithTimeout(ctx, execGrace)
	defer cancel()
	_, _, err := c.Engine.Exec(execCtx, dockercli.ExecOptions{Container: c.Name, Command: []string{"sh", "-c", "kill -9 -1"}})
	if errors.Is(err, dockercli.ErrNoContainer) {
		// A program inside that has taken the place of sh can say so too.
		if _, err := c.Engine.Inspect(ctx, c.Name); !errors.Is(err, dockercli.ErrNoContainer) {
			return errThere
		}
	}
	return err
}

// mostFailures is how many commands in a row may fail inside before the container is
// removed without them: nothing can be run in one that is paused, or has no process to
// spare.
const mostFailures = 3

// awaitEnd waits a while for process 1 to end, or if that can't be seen, for all else to
// be killed once. It returns an error if process 1 lives, unless commands fail inside.
func (c *Container) awaitEnd(ctx context.Context, tried <-chan struct{}) error {
	over := time.After(helpAfter)
	poll := time.NewTicker(endPoll)
	defer poll.Stop()
	for {
		switch c.found().evidence() {
		case processEnded:
			return nil
		case processLives:
			tried = nil
		}
		if c.failedInside.Load() >= mostFailures {
			return nil
		}
		select {
		case <-tried:
			return nil
		case <-poll.C:
			continue
		case <-over:
		case <-ctx.Done():
		}
		if c.found().evidence() == processLives {
			return errLives
		}
		return nil
	}
}
