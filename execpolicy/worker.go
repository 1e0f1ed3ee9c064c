package execpolicy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/shell"
)

// addEnv adds to the worker's environment, and leaves alone what startup scripts have
// made of the rest.
func (c *conn) addEnv(ctx context.Context, env map[string]string, deadline time.Time) error {
	maps.Copy(c.env, env)
	return c.SetUp(ctx, deadline, time.Time{}, shell.Place{Env: env})
}

// readyFor is [shell.Conn.Ready] for a command that must be over by endBy, or that has no
// end if endBy is zero. A replacement shell gets at least half of TerminationTimeout.
func (c *conn) readyFor(ctx context.Context, endBy time.Time) error {
	if endBy.IsZero() {
		return c.Ready(ctx, bound.After(c.limits.StartupTimeout), endBy)
	}
	return c.Ready(ctx, endBy.Add(-c.limits.TerminationTimeout/2), endBy)
}

// latestEnd returns when a command that begins now, with that timeout, must be over: the
// zero time, which is never, if the timeout is negative.
func (c *conn) latestEnd(timeout time.Duration) time.Time {
	if timeout < 0 {
		return time.Time{}
	}
	// The sum of the two durations could overflow.
	return bound.After(timeout).Add(c.limits.TerminationTimeout)
}

// runStartup runs the startup scripts in order up to the first that fails. None of them
// runs longer than StartupTimeout, nor beyond by, unless that is zero.
func (c *conn) runStartup(ctx context.Context, by, endBy time.Time) error {
	for _, script := range c.startup {
		if c.Dead {
			return fmt.Errorf("startup %w: the shell has ended", ErrScript)
		}
		if err := c.script(ctx, "startup", script, bound.Earlier(bound.After(c.limits.StartupTimeout), by), endBy); err != nil {
			return err
		}
	}
	return nil
}

// shutdown runs all of the scripts, if the container lives.
func (c *conn) shutdown(scripts []string) error {
	var errs []error
	for _, script := range scripts {
		if c.hasEnded() {
			return errors.Join(errs...)
		}
		// A Close without an end would be worse than a limit.
		deadline, endBy := bound.After(c.limits.StartupTimeout), time.Time{}
		if deadline.IsZero() {
			deadline = bound.After(defaultStartupTimeout)
			endBy = deadline.Add(c.limits.TerminationTimeout)
		}
		err := c.Ready(context.Background(), deadline, endBy)
		if err == nil {
			err = c.script(context.Background(), "shutdown", script, bound.After(c.closeTimeout()), time.Time{})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// script runs a startup or a shutdown script.
func (c *conn) script(ctx context.Context, kind, script string, deadline, endBy time.Time) error {
	defer func(outer tally) {
		// It may be a part of a command or a transfer, which has no more time than this
		// left.
		if !c.tally.endBy.IsZero() {
			outer.endBy = c.tally.endBy
		}
		c.tally = outer
	}(c.tally)
	var res *Result
	start := time.Now()
	event, err := c.audit.beginScript(ctx, c, kind, script)
	if err != nil {
		err = fmt.Errorf("%s %w: %q: %w", kind, ErrScript, c.redact(script), err)
	} else if err = c.runScript(ctx, kind, script, deadline, endBy); err == nil {
		res = &Result{Outcome: OutcomeExited, Duration: time.Since(start), OOMBefore: -1, OOMAfter: -1}
	}
	return c.audit.finish(c, event, res, err)
}

// runScript runs a script that has its record.
func (c *conn) runScript(ctx context.Context, kind, script string, deadline, endBy time.Time) error {
	in, errOut := shell.NewSink(c.Filter, shell.WordsKept, nil, nil)
	r := c.runUnit(ctx, deadline, endBy, shell.Unit(script), &shell.Sink{}, in)
	stderrText := errOut.Words(in)
	var how string
	script = c.redact(script)
	switch {
	case r.Cause != nil:
		return fmt.Errorf("%s %w: %q: %w", kind, ErrScript, script, r.Cause)
	case r.Lost:
		return fmt.Errorf("%s %w: %q: %w", kind, ErrScript, script, c.lost())
	case r.Mark.Status == 0 && !r.Died:
		c.Moved(r.Mark.Dir)
		return nil
	case r.Died && r.Mark.NotRun:
		return fmt.Errorf("%s %w: %q: %w", kind, ErrScript, script, shell.ErrNotRun)
	case r.Mark.Status < 0:
		how = "it was killed"
	default:
		how = "exit code " + strconv.Itoa(r.Mark.Status)
	}
	return fmt.Errorf("%s %w: %q: %s: %s", kind, ErrScript, script, how, stderrText)
}
