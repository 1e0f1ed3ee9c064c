package execpolicy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

const (
	// After helpAfter a removal that hangs is helped: code that spins at a priority above
	// its process 1 can hold it up for minutes.
	helpAfter = time.Second
	// lookAgain is the pause between two looks. A container may come into being after one
	// that has found none.
	lookAgain = 200 * time.Millisecond
	// endPoll is the pause between two looks at a process.
	endPoll = 20 * time.Millisecond
	// createGrace is for an engine under load to make the container of a client that has
	// gone.
	createGrace = 3 * time.Second
	// clientGrace is for a client to see that its container is gone, and for one that
	// does not to be ended.
	clientGrace = time.Second
	// downGrace is how long an engine that is not there is waited for by those who want
	// an answer.
	downGrace = 2 * time.Second
)

var (
	// errThere says that the engine has the container.
	errThere = errors.New("it is there")
	// errMayCome says that there is no container, and that the engine may have been asked
	// for it by a client that was cut off.
	errMayCome = errors.New("it could still come into being")
	// errLives says that process 1 was seen.
	errLives = errors.New("its processes live on")
	// errNotInside says that nothing is to be run in the container to kill what is there.
	errNotInside = errors.New("nothing is killed from inside")
)

// force removes the container, and again, until it is seen to be gone and the client,
// which could still create it, has ended.
func (c *container) force(ctx context.Context) error {
	// A client that hangs has half a second to end when its time is over.
	left := remaining(ctx)
	ctx, cancel := context.WithTimeout(ctx, left-min(2*clientGrace, left/2))
	defer cancel()
	kill := sync.OnceValue(func() <-chan struct{} { return c.killAll(ctx) })
	defer c.help(ctx, kill).Stop()
	var r removal
	for {
		o := c.observe(ctx)
		clear := r.clear
		next := r.next(o)
		if next == stepRemove {
			if err := c.end(ctx, kill); err != nil {
				o.err = err
			} else {
				o = c.observe(ctx)
				next = r.next(o)
			}
		}
		switch {
		case next == stepDone:
			return nil
		case next == stepGiveUp:
			return o.err
		case ctx.Err() != nil:
			// A look that the end of the time cuts short tells nothing.
			if clear || r.clear {
				return errMayCome
			}
			return errors.Join(o.reason(), context.Cause(ctx))
		}
		client := c.client.Done()
		if o.over {
			client = nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookAgain):
		case <-client:
		}
	}
}

// An observation is what one look at a container and at its client shows.
type observation struct {
	asked, told time.Time // when the engine was asked, and when it had answered
	// err is the engine's answer. It is nil if there is no such container, or one that
	// has ended and is to be kept; it wraps errThere if there is one.
	err   error
	first evidence
	// began says that the command inside was heard: the engine has nothing to create any
	// more.
	began bool
	// over says that the client had ended before the engine was asked: it has asked for
	// nothing since.
	over bool
	// cut is when it was first seen that a signal had ended the client before the command
	// was heard: the engine, which may have been asked for the container, goes on without
	// it. The zero time means that this is not so.
	cut time.Time
	// unreached says that the client could not connect to the engine.
	unreached bool
}

func (c *container) observe(ctx context.Context) observation {
	o := observation{began: c.answered.Load()}
	select {
	case <-c.client.Done():
		code := c.client.State().ExitCode()
		o.over = true
		if !o.began && (code == -1 || code == 130 || code == 143) {
			now := time.Now()
			c.cut.CompareAndSwap(nil, &now)
			o.cut = *c.cut.Load()
		}
		o.unreached = c.unreached.Load()
	default:
	}
	o.asked = time.Now()
	o.err = c.gone(ctx)
	o.told = time.Now()
	o.first = c.found().evidence()
	return o
}

// reason returns what is not as it should be.
func (o observation) reason() error {
	switch {
	case o.err != nil:
		return o.err
	case o.first == lives:
		return errLives
	}
	return errMayCome
}

// A removal is what earlier observations have shown.
type removal struct {
	there bool      // it was
	down  time.Time // since when the engine refuses to be asked
	none  time.Time // since when there is nothing, by the engine's answers
	// hung says that the engine did not answer, or answered late: what it was asked for
	// before may come after its answer.
	hung bool
	// clear says that there is nothing, that the client has ended and that the engine
	// answers.
	clear bool
}

// A step is what an observation calls for.
type step int

const (
	stepLook   step = iota // look once more
	stepRemove             // it is there, or may be
	stepDone               // it is gone
	stepGiveUp             // the engine is not there
)

// next returns what is to be done after an observation. It depends on nothing but the
// observations so far.
func (r *removal) next(o observation) step {
	down := errors.Is(o.err, dockercli.ErrEngineDown)
	if !down {
		r.down = time.Time{}
	} else if r.down.IsZero() {
		r.down = o.asked
	}
	if o.err != nil {
		r.none = time.Time{}
	} else if r.none.IsZero() {
		r.none = o.told
	}
	r.there = r.there || errors.Is(o.err, errThere)
	r.hung = r.hung || down || o.told.Sub(o.asked) > clientGrace
	r.clear = o.err == nil && o.over && o.first != lives && (o.began || !r.hung)

	answer, failed := o.err.(*dockercli.Error)
	switch {
	case o.unreached && failed && answer.Unreached():
		return stepDone // nothing was asked for
	case down && o.over && o.told.Sub(r.down) > downGrace:
		return stepGiveUp
	case o.err != nil:
		return stepRemove
	case !o.began && !r.there && !o.cut.IsZero() && o.asked.Sub(o.cut) < createGrace:
		return stepLook
	case o.first == lives:
		return stepLook // the engine has forgotten it, and help kills it
	case r.clear, (o.over || o.began || r.there) && o.asked.Sub(r.none) > clientGrace:
		return stepDone
	}
	return stepLook
}

// help helps a removal that takes long, unless the timer that it returns is stopped
// before.
func (c *container) help(ctx context.Context, kill func() <-chan struct{}) *time.Timer {
	return time.AfterFunc(helpAfter, func() {
		if c.client != nil && c.answered.Load() {
			// The client has nothing to create any more, and one that stands still may
			// hold a lock that podman needs for the removal.
			c.client.Stop(ctx, clientGrace/4)
		}
		kill()
	})
}

// end ends what runs in the container, and removes it, or leaves it if it is to be kept.
func (c *container) end(ctx context.Context, kill func() <-chan struct{}) error {
	// Podman gives up its record of what it can't end, and then nothing can be sent in
	// any more.
	if c.ownPIDs && c.answered.Load() {
		if err := c.awaitEnd(ctx, kill()); err != nil {
			return err
		}
	}
	if !c.keep {
		return c.engine.Remove(ctx, c.name)
	}
	err := c.engine.Kill(ctx, c.name, "KILL")
	if errors.Is(err, dockercli.ErrNotRunning) || errors.Is(err, dockercli.ErrNoContainer) {
		return nil
	}
	return err
}

// killAll kills all that runs in the container, again and again, until it has ended or ctx
// ends: process 1 where this program may, without the engine, which can be away or wait
// for a process that gets no time; and the rest from inside. The channel that it returns
// is closed after the first time.
func (c *container) killAll(ctx context.Context) (tried <-chan struct{}) {
	first := make(chan struct{})
	go func() {
		for tries := 0; ; tries++ {
			living := c.found().evidence() == lives
			c.found().kill(c.name)
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
				close(first)
			}
			nothing := errors.Is(err, dockercli.ErrNoContainer) || errors.Is(err, dockercli.ErrNotRunning)
			if nothing && !living || err == errNotInside {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(lookAgain):
			}
			switch c.found().evidence() {
			case hasEnded:
				return
			case lives:
				if err == nil {
					// It alone is left. Podman takes no command for a container any more
					// whose process 1 takes long to obey this.
					c.engine.Kill(ctx, c.name, "KILL")
				}
			}
		}
	}()
	return first
}

// killInside kills once, from inside, all that runs in the container, if it is proven that this is not all
// that runs on the host: a caller, or podman's configuration, can give a container the
// host's process namespace. Podman's service keeps a process for five minutes for each
// command that was run so, so there nothing is.
func (c *container) killInside(ctx context.Context) error {
	if !c.ownPIDs || c.engine.PodmanService {
		return errNotInside
	}
	// Process 1 was only found if it is that of a namespace below this one.
	if c.found().evidence() == unknown {
		state, err := c.engine.Inspect(ctx, c.name)
		if err != nil {
			return err
		}
		if !state.OwnPIDs {
			return errNotInside
		}
	}
	_, _, err := c.engine.Exec(ctx, dockercli.ExecOptions{Container: c.name, Command: []string{"sh", "-c", "kill -9 -1"}})
	return err
}

// mostFailures is how many commands in a row may fail inside before the container is
// removed without them: nothing can be run in one that is paused, or has no process to
// spare.
const mostFailures = 3

// awaitEnd waits a while for process 1 to end, or if that can't be seen, for all else to
// be killed once. It returns an error if process 1 lives, unless commands fail inside.
func (c *container) awaitEnd(ctx context.Context, tried <-chan struct{}) error {
	over := time.After(helpAfter)
	poll := time.NewTicker(endPoll)
	defer poll.Stop()
	for {
		switch c.found().evidence() {
		case hasEnded:
			return nil
		case lives:
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
		if c.found().evidence() == lives {
			return errLives
		}
		return nil
	}
}

// gone returns nil if the engine says that there is no such container, or that it has
// ended and it is to be kept.
func (c *container) gone(ctx context.Context) error {
	state, err := c.engine.Inspect(ctx, c.name)
	switch {
	case errors.Is(err, dockercli.ErrNoContainer):
		return nil
	case err != nil:
		return err
	case c.keep && !state.Running:
		return nil
	}
	return fmt.Errorf("%w, %s", errThere, state.Status)
}
