package execpolicy

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/internal/tarball"
	"github.com/seed-64a260eb/cofferdam/internal/transfer"
)

// transfer runs do in the session's turn, and sees to it that nothing is left behind if
// that fails.
func (s *Session) transfer(ctx context.Context, op, name string, do func(*transfer.Transfer) error) error {
	err := func() error {
		if name == "" || len(name) > transfer.MaxPath-100 || strings.Contains(name, "\x00") {
			return fmt.Errorf("%w: the name is empty, too long or has a NUL byte; \".\" is where the session began", ErrInvalid)
		}
		if err := s.acquire(ctx); err != nil {
			return err
		}
		defer s.release()
		c := s.current()
		if err := c.lives(); err != nil {
			return err
		}
		ctx, cancel := bound.By(ctx, s.both)
		defer cancel(nil)
		event, err := c.audit.beginTransfer(ctx, c, op, name)
		if err == nil {
			err = c.transfer(ctx, cancel, do)
		}
		return c.audit.finish(c, event, nil, c.expired(err))
	}()
	if err != nil {
		redact := s.current().redact
		return &fs.PathError{Op: op, Path: redact(name), Err: problems.Redact(err, redact)}
	}
	return nil
}

// transfer does what a transfer is, for the holder of the turn, and is done when a
// command would be: a shell that had to be replaced first counts too.
func (c *conn) transfer(ctx context.Context, cancel context.CancelCauseFunc, do func(*transfer.Transfer) error) error {
	endBy := c.latestEnd(c.limits.CommandTimeout)
	if err := c.readyFor(ctx, endBy); err != nil {
		return err
	}
	// A close is to leave the time to remove what was begun.
	defer func(orderly bool) { c.endsInOrder = orderly }(c.endsInOrder)
	c.endsInOrder = true
	t := c.newTransfer(ctx, cancel)
	t.Deadline = bound.After(c.limits.CommandTimeout)
	if !endBy.IsZero() {
		t.Deadline, t.EndBy = bound.Earlier(t.Deadline, endBy.Add(-c.limits.TerminationTimeout/2)), endBy
	}
	err := do(t)
	c.tally.in += t.Sent
	if err != nil {
		t.Clean()
	}
	return err
}

// newTransfer returns a transfer of the session's, for the holder of the turn. cancel is
// what a reader of its output calls to end ctx, or nil if nobody reads any.
func (c *conn) newTransfer(ctx context.Context, cancel context.CancelCauseFunc) *transfer.Transfer {
	return transfer.New(ctx, transfer.Options{
		Conn:               steps{c},
		Dir:                c.proc.Dir,
		Scratch:            c.proc.Scratch,
		Limits:             tarball.Limits{Entries: c.limits.MaxTreeEntries, Bytes: c.limits.MaxTreeBytes},
		TerminationTimeout: c.limits.TerminationTimeout,
		Cancel:             cancel,
		Redact:             c.redact,
	})
}

// steps are those of a session's transfers: a [transfer.Conn].
type steps struct{ c *conn }

func (s steps) Step(ctx context.Context, deadline, endBy time.Time, ops []shell.Op, out *shell.Sink) (shell.Reply, string) {
	c := s.c
	in, errOut := shell.NewSink(c.secretFilter(), shell.WordsKept, nil, nil)
	r := c.runUnit(ctx, deadline, endBy, ops, out, in)
	in.Close()
	s.end(r)
	return r, string(errOut.Kept.Bytes())
}

// Undo first replaces a worker that has ended. That sends the files of the session's
// secrets, which is a transfer of its own: its steps come to Step while Undo is under
// way.
func (s steps) Undo(ctx context.Context, endBy time.Time, script string) {
	c := s.c
	select {
	case <-c.Exited():
		return
	default:
	}
	deadline := endBy
	if !endBy.IsZero() {
		// What does not come to its end has to be ended by then.
		deadline = time.Now().Add(time.Until(endBy) / 2)
	}
	if c.Respawn(ctx, deadline, endBy) != nil {
		return
	}
	var out, errOut shell.Sink
	r := c.Exchange(ctx, deadline, endBy, []shell.Op{{Data: shellwire.Help(script), Marked: true, Unit: true}}, &out, &errOut)
	c.escalated(r)
	s.end(r)
}

func (s steps) Lost() error { return s.c.lost() }

// end sees to the end of a step.
func (s steps) end(r shell.Reply) {
	c := s.c
	c.Thaw()
	c.UnreportedLoss = c.UnreportedLoss || r.Died
	if r.OOMs >= 0 {
		c.OOMKills = r.OOMs
	}
}
