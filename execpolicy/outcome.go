package execpolicy

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
)

// classify says how the command ended. What the library did stands first, then what the
// kernel did, then what the shell said. If a look inside is needed to know, it takes one,
// which also tells what the command has used.
func (c *conn) classify(ctx context.Context, res *Result, r shell.Reply, cmd Command, endBy time.Time) []error {
	c.noteState(res, r)
	var errs []error
	if r.EndErr != nil {
		errs = append(errs, r.EndErr)
	}
	evidence := ending{cause: r.Cause, lost: r.Lost, status: r.Mark.Status, signal: r.Mark.Signal}
	switch {
	case r.Cause != nil:
		if !r.Gone && !r.Unsent && c.proc.OwnPIDNamespace && r.EndErr == nil {
			errs = append(errs, fmt.Errorf("%s: processes of the command: %w", c.proc.Name, ErrStillThere))
		}
	case r.Lost:
		// What could not say whether the container is there knows nothing of its end
		// either.
		evidence.oom = r.EndErr == nil && c.OOMKilled(r.EndBy)
	case !r.Mark.NoDir && (cmd.Usage || r.Mark.Status != 0 && c.OOMKills >= 0):
		var l shell.Reply
		// A cancel now would be one of what the command has left running.
		endBy = bound.Earlier(bound.After(c.limits.TerminationTimeout), endBy)
		res.OOMAfter, l = c.Ask(context.WithoutCancel(ctx), bound.Earlier(bound.After(c.LearnTime()), endBy), endBy)
		c.escalated(l)
		if l.Lost || l.Died {
			res.Dir, res.StateLost = "", true
		}
		res.ended, r.Counts = l.Lost, l.Counts
		evidence.oom = res.OOMBefore >= 0 && res.OOMAfter > res.OOMBefore || l.Lost && l.EndErr == nil && c.OOMKilled(l.EndBy)
		if l.EndErr != nil {
			errs = append(errs, l.EndErr)
		}
	}
	if res.OOMAfter >= 0 {
		c.OOMKills = res.OOMAfter
	}
	if cmd.Usage {
		res.Usage = newUsage(r.Counts)
	}
	if err := c.conclude(res, evidence); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// conclude gives a result the outcome of an ending, with what belongs to that. It returns
// the error that stands beside the outcome, if one does.
func (c *conn) conclude(res *Result, end ending) error {
	res.Outcome = end.outcome()
	switch res.Outcome {
	case OutcomeCanceled:
		return end.cause
	case OutcomeSessionLost, OutcomeOOMKilled:
		if end.lost {
			return c.lost()
		}
	case OutcomeSignaled:
		res.Signal = cmp.Or(end.signal, sigkill)
	case OutcomeExited:
		res.ExitCode = end.status
	}
	return nil
}

// noteState says what became of the shell, and where it is.
func (c *conn) noteState(res *Result, r shell.Reply) {
	if r.Died || r.Lost {
		res.Dir = ""
	}
	res.StateLost = r.Died || r.Lost || c.UnreportedLoss
	res.ended = r.Lost
	c.UnreportedLoss = false
	if r.Mark.Kind == shellwire.End && !r.Died {
		c.Moved(r.Mark.Dir)
		res.Dir = c.Dir()
	}
}

const sigkill = 9

// An ending is what is known of how a command ended.
type ending struct {
	cause  error // why the library ended it
	lost   bool  // the container has ended
	oom    bool  // the kernel killed for memory meanwhile
	status int   // the shell's word, -1 if the shell was killed
	signal int   // what killed the program, 0 if it is not known that one did
}

// outcome returns the first Outcome, in the order that its documentation gives, that
// fits.
func (e ending) outcome() Outcome {
	switch killed := e.lost || e.status < 0 || e.status == 128+sigkill; {
	case e.cause == ErrTimeout:
		return OutcomeTimedOut
	case e.cause == ErrOutputLimit:
		return OutcomeOutputLimit
	case e.cause != nil:
		return OutcomeCanceled
	case killed && e.oom:
		return OutcomeOOMKilled
	case e.lost:
		return OutcomeSessionLost
	case e.status < 0, e.signal > 0:
		return OutcomeSignaled
	}
	return OutcomeExited
}
