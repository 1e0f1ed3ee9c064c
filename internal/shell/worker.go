package shell

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/policyerr"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
)

// SetUp puts the worker in a place, and notes where that is and, if it was learnt, how
// many processes the kernel has killed for memory.
func (c *Conn) SetUp(ctx context.Context, deadline, endBy time.Time, p Place) error {
	r, err := c.setUp(ctx, deadline, endBy, p)
	c.opts.Escalated(r)
	if err != nil {
		return err
	}
	if c.opts.Answered != nil {
		c.opts.Answered()
	}
	c.Moved(r.Mark.Dir)
	if r.OOMs >= 0 {
		c.OOMKills = r.OOMs
	}
	return nil
}

// Handshake puts a new worker in its own place.
func (c *Conn) Handshake(ctx context.Context, deadline, endBy time.Time) error {
	return c.SetUp(ctx, deadline, endBy, c.opts.Place)
}

// Ready replaces a worker that has ended, and prepares a new one, which is itself
// replaced once if process 1 has given it up before anything of that ran. A worker that
// does not answer by the deadline has been ended by endBy. If endBy is zero, [Options]'
// Startup has times of its own; else it has to be done by the deadline.
func (c *Conn) Ready(ctx context.Context, deadline, endBy time.Time) error {
	err := c.prepare(ctx, deadline, endBy)
	if errors.Is(err, ErrNotRun) {
		err = c.prepare(ctx, deadline, endBy)
	}
	return err
}

// prepare is Ready for one new worker.
func (c *Conn) prepare(ctx context.Context, deadline, endBy time.Time) error {
	if err := c.Respawn(ctx, deadline, endBy); err != nil {
		return err
	}
	if c.prepared {
		return nil
	}
	var by time.Time
	if !endBy.IsZero() {
		by = deadline
	}
	if err := c.opts.Startup(ctx, by, endBy); err != nil {
		return err
	}
	c.prepared = true
	return nil
}

// Respawn replaces a worker that has ended.
func (c *Conn) Respawn(ctx context.Context, deadline, endBy time.Time) error {
	// It may have been killed while it had nothing to do.
	if !c.Dead {
		if !c.WorkerEnded() {
			return nil
		}
		c.UnreportedLoss = true
	}
	c.replace()
	c.prepared = false
	err := c.Handshake(ctx, deadline, endBy)
	if err == nil {
		err = c.opts.Renew(ctx, deadline, endBy)
	}
	if err == nil && c.Dead {
		err = ErrNotRun // something has ended it meanwhile
	}
	if err != nil {
		c.Dead = true
		return fmt.Errorf("%w: the shell could not be replaced: %w", policyerr.ErrStart, err)
	}
	return nil
}

// NeverRan reports whether a worker that has ended did so before it came to the last
// unit: something has killed it between two, and the word of that has come when the
// second was under way. If the unit's marks don't say, it asks process 1, by a time. It
// can't tell where process 1 took the worker to be alone, as where what has killed it was
// gone by then, or where the worker has no namespace of its own.
func (c *Conn) NeverRan(ctx context.Context, by, endBy time.Time) bool {
	// The mark on stderr is the last before the unit.
	switch came, missed := c.streams[1].lastBegin(); {
	case came || missed:
		return missed
	case !c.opts.Setup.Namespace:
		return false
	}
	_, r := c.Ask(ctx, by, endBy)
	return r.Begins || c.streams[0].unrun(c.worker)
}

// WorkerEnded reports whether the worker has ended while it had nothing to do.
func (c *Conn) WorkerEnded() bool { return c.streams[0].died(c.worker) }

// replace starts another worker.
func (c *Conn) replace() {
	c.worker++
	c.Dead = false
	// The supervisor counts those that it starts: one that is taken back would count here
	// alone.
	c.queue.send(Op{Data: []byte(shellwire.StartWorker), stays: true})
}

// Moved notes where the worker is; dir is empty if that is not known.
func (c *Conn) Moved(dir string) {
	if dir != c.Dir() {
		at := dir // the argument itself would be allocated each time
		c.dir.Store(&at)
	}
}

// Dir returns where the worker was when the last unit had ended; empty if that is not
// known. It is for everybody.
func (c *Conn) Dir() string {
	if dir := c.dir.Load(); dir != nil {
		return *dir
	}
	return ""
}
