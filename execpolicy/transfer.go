package execpolicy

import (
	"context"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/internal/tarball"
	"github.com/seed-64a260eb/cofferdam/internal/transfer"
)

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
	if c.respawn(ctx, endBy, endBy) != nil {
		return
	}
	var out, errOut shell.Sink
	r := c.Exchange(ctx, endBy, endBy, []shell.Op{{Data: shellwire.Help(script), Marked: true, Unit: true}}, &out, &errOut)
	c.escalated(r)
	s.end(r)
}

func (s steps) Lost() error { return s.c.lost() }

// end sees to the end of a step.
func (s steps) end(r shell.Reply) {
	c := s.c
	c.Thaw()
	c.unreportedLoss = c.unreportedLoss || r.Died
	if r.OOMs >= 0 {
		c.oomKills = r.OOMs
	}
}
