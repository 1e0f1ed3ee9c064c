package shell

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/policyerr"
)

// An attempt is a finished try to end the process.
type attempt struct {
	err   error
	at    time.Time
	until time.Time // when it had to be over
}

// EndSince is End within the TerminationTimeout, unless an attempt has come to its end
// since begin: one call has no time for two.
func (c *Conn) EndSince(begin time.Time) error {
	if last := c.lastEnd.Load(); last != nil && last.at.After(begin) {
		return last.err
	}
	return c.End(c.opts.TerminationTimeout)
}

// End ends the process, at first by the end of its stdin, and returns when it has been
// made sure that nothing is left, or when the time is over.
func (c *Conn) End(within time.Duration) (err error) {
	begin := time.Now()
	until := begin.Add(within)
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	c.why.asked.Store(true)
	// Who has no time left tries all the same, unless another does.
	if !c.ending.TryTake() && c.ending.Take(ctx) != nil {
		if last := c.lastEnd.Load(); last != nil && last.err == nil {
			return nil
		}
		return fmt.Errorf("%s: %w: an attempt to end it takes long", c.opts.Name, policyerr.ErrStillThere)
	}
	defer c.ending.Give()
	within = time.Until(until)
	if last := c.lastEnd.Load(); last == nil {
		close(c.endBegun)
		c.beating.Stop()
		defer close(c.cleanedUp)
	} else if last.err == nil || last.at.After(begin) && until.Sub(last.until) < lifelineGrace {
		// Another that had as much time is over by now.
		return last.err
	}
	// What was not known to be gone may be by now.
	defer func() {
		// Who sees the attempt waits for the records before it.
		c.opts.Ended(err)
		c.lastEnd.Store(&attempt{err, time.Now(), until})
	}()
	for _, s := range c.streams {
		s.flow()
	}
	c.queue.close()
	c.opts.Stdin.Close()
	if c.opts.Blocks != nil {
		c.opts.Blocks.Close()
	}
	select {
	case <-c.exited:
	case <-time.After(min(lifelineGrace, within/4)):
		c.forced.Store(true)
		c.opts.Stepped(StepRemoval, nil)
	}
	c.diagnose(ctx)
	// An engine asked why it ended by itself must not find the signal of its removal.
	c.OwnEnd(time.Now().Add(min(c.LearnTime(), within/2)))
	if c.opts.Kill != nil {
		err = c.opts.Kill(ctx)
	}
	select {
	case <-c.exited:
		// Its record has it.
		c.OwnEnd(time.Now().Add(min(c.LearnTime(), within)))
	case <-ctx.Done():
		err = errors.Join(err, fmt.Errorf("%s: %w: the program that carries its streams does not exit", c.opts.Name, policyerr.ErrStillThere))
	}
	return err
}

// diagnose finds out why a process ended of which nothing was heard. The policy may end
// it the sooner for what it learns.
func (c *Conn) diagnose(ctx context.Context) {
	select {
	case <-c.exited:
		if c.diagnosis == nil && !c.streams[0].begun() && c.opts.Diagnose != nil {
			limit, cancel := context.WithTimeout(ctx, c.LearnTime())
			defer cancel()
			c.diagnosis = c.opts.Diagnose(c.exitCode(limit), c.Words())
		}
	default:
	}
}

// Diagnosis returns why the process ended before anything was heard of it; nil if that is
// not known. The process must have been ended.
func (c *Conn) Diagnosis() error { return c.diagnosis }

// exitCode returns the process's exit status once it has ended, -1 if it has none, or if
// that is not known by the end of ctx.
func (c *Conn) exitCode(ctx context.Context) int {
	if c.opts.ExitCode == nil {
		return -1
	}
	code := make(chan int, 1)
	go func() { code <- c.opts.ExitCode() }()
	select {
	case code := <-code:
		return code
	case <-ctx.Done():
		return -1
	}
}
