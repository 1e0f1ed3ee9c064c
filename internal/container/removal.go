package container

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/policyerr"
)

// Kill makes sure that the container is gone. The client is never signalled while its
// container may still start, unless the engine does not answer: that is how containers
// are lost.
func (c *Container) Kill(ctx context.Context) error {
	c.partFIFOs()
	ended, end := c.turn(ctx)
	defer end()
	if ended && (!c.mayBeLeft() || c.detached != nil && c.forget(ctx)) {
		c.unguard()
		return nil
	}
	err := c.Force(ctx)
	select {
	case <-c.client.Done():
	default:
		// The engine does not answer, or the client does not see the end.
		if stopErr := c.client.Stop(context.WithoutCancel(ctx), min(clientGrace, bound.Left(ctx)/2)/4); stopErr != nil {
			err = errors.Join(err, stopErr)
		} else if err != nil && bound.Left(ctx) > clientGrace {
			// Without it nothing can come into being any more.
			err = c.Force(ctx)
		}
	}
	if err == nil {
		c.unguard()
		return nil
	}
	// The guard goes on watching for it, too, and takes over when this program ends.
	if addPending(c) && err == errMayCome {
		// The engine answers, and there is nothing.
		return nil
	}
	return fmt.Errorf("container %s of %v: %w: %w", c.Name, c.Engine, policyerr.ErrStillThere, err)
}

// removals holds those that are removed by force.
var removals = make(chan struct{}, 4)

// turn waits for the container's own end, or for its turn to be removed. It reports
// whether the container has ended, for which it holds no turn, and returns what ends the
// turn. A hundred that are closed at once only need time, of which a hundred clients that
// remove them would leave none. A removal that hangs does not hold up the others for
// long.
func (c *Container) turn(ctx context.Context) (ended bool, end func()) {
	select {
	case <-c.done:
		return true, func() {}
	default:
	}
	select {
	case <-c.done:
		return true, func() {}
	case <-ctx.Done():
	case <-time.After(bound.Left(ctx) / 3):
	case removals <- struct{}{}:
		select {
		case <-c.done:
			<-removals
			return true, func() {}
		default:
			return false, func() { <-removals }
		}
	}
	return false, func() {}
}

// unguard ends what would remove the container later, which is known to be gone, and
// returns once nothing of it is left. The command may have been met since it was to be
// killed.
func (c *Container) unguard() {
	dropPending(c)
	g := c.guard.Swap(nil)
	if g != nil {
		g.Remove(c.Name)
	}
	switch {
	case c.detached == nil:
	case g != nil:
		c.dropFIFOs()
		close(c.detached.gone)
	default:
		<-c.detached.gone
	}
}

// mayBeLeft reports whether the client's own end leaves it open if the container has
// ended too: a client that was told to end while the container started may have lost it,
// and say 0. A supervisor may exit with some of the others, which costs one look. A
// client that has left its container says nothing of the end.
func (c *Container) mayBeLeft() bool {
	if c.detached != nil || !c.answered.Load() || c.found().evidence() == processLives {
		return true
	}
	switch c.client.State().ExitCode() {
	case -1, 1, 125, 126, 127, 130, 143, 255:
		return true
	}
	return false
}

// Force removes the container, and again, until it is seen to be gone and the client,
// which could still create it, has ended.
func (c *Container) Force(ctx context.Context) error {
	// A client that hangs has half a second to end when its time is over.
	left := bound.Left(ctx)
	ctx, cancel := context.WithTimeout(ctx, left-min(2*clientGrace, left/2))
	defer cancel()
	kill, help := c.killLater(ctx)
	defer help.Stop()
	observe := func(ctx context.Context) observation {
		o := c.observe(ctx)
		if o.err == nil && o.first == processLives {
			kill() // the engine has forgotten it
		}
		return o
	}
	return force(ctx, c.client.Done(), observe, func(ctx context.Context) error { return c.end(ctx, kill) })
}

func (c *Container) observe(ctx context.Context) observation {
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
	o.answered = time.Now()
	o.down, o.unasked = refusal(o.err)
	o.first = c.found().evidence()
	return o
}

// refusal reports what an error of the engine's client says of the engine: that it does
// not answer or is not there, and that it could not be connected to.
func refusal(err error) (down, unasked bool) {
	answer, ok := err.(*dockercli.Error)
	return errors.Is(err, dockercli.ErrEngineDown), ok && answer.Unreached()
}

// end ends what runs in the container, and removes it, or leaves it if it is to be kept.
func (c *Container) end(ctx context.Context, kill func() <-chan struct{}) error {
	// Podman gives up its record of what it can't end, and then nothing can be sent in
	// any more.
	if c.OwnPIDs && c.answered.Load() {
		if err := c.awaitEnd(ctx, kill()); err != nil {
			return err
		}
	}
	if !c.Keep {
		return c.Engine.Remove(ctx, c.Name)
	}
	err := c.Engine.Kill(ctx, c.Name, "KILL")
	if errors.Is(err, dockercli.ErrNotRunning) || errors.Is(err, dockercli.ErrNoContainer) {
		return nil
	}
	return err
}

// gone returns nil if the engine says that there is no such container, or that it has
// ended and it is to be kept.
func (c *Container) gone(ctx context.Context) error {
	state, err := c.Engine.Inspect(ctx, c.Name)
	switch {
	case errors.Is(err, dockercli.ErrNoContainer):
		return nil
	case err != nil:
		return err
	case c.Keep && !state.Running:
		return nil
	}
	return fmt.Errorf("%w, %s", errThere, state.Status)
}
