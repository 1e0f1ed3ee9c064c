package execpolicy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/ordered"
)

// eventEnding is emitted before Close or Restart ends a session. It makes no record.
const eventEnding EventKind = "ending"

// maxRecords is how many records wait at most for one that is stuck; more are lost, and
// make a gap.
const maxRecords = 64

var (
	errLate     = errors.New("it was not taken in time")
	errNotAsked = errors.New("the policy has not recorded its spawn")
)

// An auditor hands the records of a session to a function, one at a time and in order.
type auditor struct {
	audit func(Event) error

	spawned time.Time // the last
	asked   bool      // the policy has recorded the spawn of what is being started
	ending  time.Time // when its end was asked for

	mu    sync.Mutex
	name  string // of the container that is being started
	anew  bool   // what still comes before a spawn is of one that is to be no more
	cause error  // why it is ended; nil if it is not
	seq   int
	queue []record // queue[0] is being delivered
	// abandoned is why nobody waits for queue[0] any more: errLate if it took too long.
	abandoned error
	missed    error // of records that nobody has waited for
}

// A record is one that waits.
type record struct {
	event *Event     // nil if there is none, only somebody who waits for those before
	done  chan error // nil if nobody waits
}

func (a *auditor) session() Auditor { return &auditor{audit: a.audit} }

func (a *auditor) taken() {
	if a.asked = true; a.spawned.IsZero() {
		a.spawned = time.Now()
	}
}

// post hands a record over.
func (a *auditor) post(e *Event, done chan error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e != nil {
		if e.Kind == EventSpawn {
			a.seq, a.cause, a.name, a.anew = 0, nil, "", false
		}
		a.seq++
		e.Seq = a.seq
		if e.Name == "" {
			e.Name = a.name
		} else if !a.anew {
			a.name = e.Name
		}
		if len(a.queue) >= maxRecords {
			a.missed = errLate
			if done != nil {
				done <- errLate
			}
			return
		}
	}
	a.queue = append(a.queue, record{e, done})
	if len(a.queue) == 1 {
		go a.drain()
	}
}

func (a *auditor) drain() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.queue) > 0 {
		if e := a.queue[0].event; e != nil {
			if err := a.give(e); err != nil {
				a.missed = errors.Join(a.missed, err)
			}
		}
		// Who waited may have gone meanwhile.
		if done := a.queue[0].done; done != nil {
			done <- a.missed
			a.missed = nil
		}
		a.queue, a.abandoned = a.queue[1:], nil
	}
}

// give calls audit without the lock, which is held again even if it panics: else the
// panic would not be seen for another.
func (a *auditor) give(e *Event) error {
	a.mu.Unlock()
	defer a.mu.Lock()
	return a.audit(*e)
}

// take hands a record over, if there is one, and waits until it and all before were
// taken, or the time is over.
func (a *auditor) take(ctx context.Context, e *Event, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errLate)
	defer cancel()
	done := make(chan error, 1)
	a.post(e, done)
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
		a.mu.Lock()
		if len(a.queue) > 0 && a.abandoned != errLate {
			a.abandoned = err
		}
		select {
		case lost := <-done:
			// Both were ready, and select picked the other.
			a.missed = errors.Join(lost, a.missed)
		default:
		}
		for i := range a.queue {
			if a.queue[i].done == done {
				a.queue[i].done = nil
			}
		}
		a.mu.Unlock()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAudit, err)
	}
	return nil
}

// stuck returns why somebody no longer waits for the record that is with audit; nil if
// nobody has gone.
func (a *auditor) stuck() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.abandoned
}

// before is take for what must not be done if there is no record. While an earlier one is
// stuck, it has none.
func (a *auditor) before(ctx context.Context, e *Event, timeout time.Duration) error {
	if a.stuck() == errLate {
		return fmt.Errorf("%w: %w", ErrAudit, errLate)
	}
	return a.take(ctx, e, timeout)
}

// behind adds the error of a record to one that has to stay what it is if there is no
// other. What was refused because nobody waits for a record does not wait for another.
func (a *auditor) behind(e *Event, timeout time.Duration, err error) error {
	if e != nil && a.stuck() != nil && errors.Is(err, ErrAudit) {
		a.post(e, nil)
		return err
	}
	if lost := a.take(context.Background(), e, timeout); lost != nil {
		return errors.Join(err, lost)
	}
	return err
}

// emit emits an event without blocking.
func (c *conn) emit(kind EventKind, step Escalation, err error) {
	c.auditing.Lock()
	audit := c.audit
	c.auditing.Unlock()
	if audit != nil {
		audit.emit(c, kind, step, err)
	}
}

// auditTimeout returns how long a record may take after a call that must be over by endBy:
// until then, and at least an eighth of TerminationTimeout.
func (c *conn) auditTimeout(endBy time.Time) time.Duration {
	if endBy.IsZero() {
		return c.limits.TerminationTimeout
	}
	return max(time.Until(endBy), c.limits.TerminationTimeout/8)
}

// event begins a record of what happens in a session.
func (c *conn) event(kind EventKind) *Event {
	return &Event{Kind: kind, Time: time.Now(), Name: c.proc.Name}
}

// plain makes the texts of a record fit to be kept.
func (c *conn) plain(e *Event) *Event {
	e.conceal(c.conceal)
	return e
}

// text returns an error's, if there is one.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (a *auditor) Spawn(ctx context.Context, name string, argv []string) error {
	event := &Event{Kind: EventSpawn, Time: time.Now(), Name: name, Argv: argv}
	a.spawned = event.Time
	err := a.before(ctx, event, defaultTerminationTimeout)
	a.asked = err == nil
	return err
}

// emit records an event that nobody waits for, with its error or its cause.
func (a *auditor) emit(c *conn, kind EventKind, step Escalation, err error) {
	e := c.event(kind)
	switch {
	case kind == EventEnd:
		e.Gone, e.Error = err == nil, text(err)
		if !a.spawned.IsZero() {
			e.Duration = e.Time.Sub(a.spawned)
		}
		cause := a.keepCause(context.Cause(c.life))
		if cause == nil {
			cause = c.OwnEnd(time.Now())
		}
		e.Cause = text(cause)
	case kind == eventEnding:
		a.ending = e.Time
		a.keepCause(err)
		if err == errRestart {
			a.mu.Lock()
			a.name, a.anew = "", true
			a.mu.Unlock()
		}
		return
	case step == EscalationRemoval:
		e.Escalation, e.Cause = step, text(a.keepCause(context.Cause(c.life)))
	case step == EscalationContainer:
		a.keepCause(err)
		fallthrough
	default:
		e.Escalation, e.Cause = step, text(err)
	}
	a.post(c.plain(e), nil)
}

// keepCause keeps the first cause of a session's end, and returns it.
func (a *auditor) keepCause(cause error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cause == nil {
		a.cause = cause
	}
	return a.cause
}

// await records a start and what has become of it, or waits for all records of a session
// that is closed.
func (a *auditor) await(ctx context.Context, c *conn, kind EventKind, err error) error {
	switch kind {
	case EventFailed:
		e := &Event{Kind: kind, Time: time.Now(), Error: err.Error()}
		if c != nil {
			c.plain(e)
		}
		return a.behind(e, defaultTerminationTimeout, err)
	case eventEnding:
		return a.behind(nil, c.auditTimeout(a.ending.Add(c.limits.TerminationTimeout)), err)
	}
	if !a.asked {
		return fmt.Errorf("%w: %w", ErrAudit, errNotAsked)
	}
	a.asked = false
	e := c.event(kind)
	e.Duration, e.Env, e.Secrets = e.Time.Sub(a.spawned), ordered.Keys(c.env), secretNames(c.secrets)
	if c.proc.ImageID != nil {
		ctx, cancel := context.WithTimeout(ctx, c.limits.TerminationTimeout)
		defer cancel()
		var err error
		e.Image, err = c.proc.ImageID(ctx)
		e.Error = text(err)
	}
	return a.before(ctx, c.plain(e), c.limits.TerminationTimeout)
}

// begin records what is about to be done.
func (a *auditor) begin(ctx context.Context, c *conn, e *Event) error {
	c.in, c.out, c.endBy = 0, 0, time.Time{}
	return a.before(ctx, c.plain(e), c.limits.TerminationTimeout)
}

func (a *auditor) run(ctx context.Context, cancel context.CancelCauseFunc, c *conn, cmd Command) (*Result, error) {
	e := c.event(EventCommand)
	e.Script, e.Argv, e.Dir, e.Env = cmd.Script, cmd.Argv, cmd.Dir, ordered.Keys(cmd.Env)
	e.Secrets = secretNames(cmd.Secrets)
	e.conceal(addValues(nil, cmd.Secrets).Redact)
	var res *Result
	err := a.begin(ctx, c, e)
	if err == nil {
		c.recorded = true
		res, err = c.runCommand(ctx, cancel, cmd)
	}
	return res, a.finish(c, e, EventResult, res, err)
}

func (a *auditor) script(ctx context.Context, c *conn, kind, script string, deadline, by time.Time) error {
	in, out, endBy := c.in, c.out, c.endBy
	defer func() {
		// It may be a part of a command or a transfer, which has no more time than this
		// left.
		c.in, c.out = in, out
		if c.endBy.IsZero() {
			c.endBy = endBy
		}
	}()
	e := c.event(EventCommand)
	e.Op, e.Script = kind, script
	if err := a.begin(ctx, c, e); err != nil {
		return a.finish(c, e, EventResult, nil, fmt.Errorf("%s %w: %q: %w", kind, ErrScript, c.conceal(script), err))
	}
	c.recorded = true
	err := c.script(ctx, kind, script, deadline, by)
	var res *Result
	if err == nil {
		res = &Result{Outcome: OutcomeExited, Duration: time.Since(e.Time), OOMBefore: -1, OOMAfter: -1}
	}
	return a.finish(c, e, EventResult, res, err)
}

func (a *auditor) transfer(ctx context.Context, c *conn, op, name string, do func() error) error {
	e := c.event(EventTransfer)
	e.Op, e.Path = op, name
	err := a.begin(ctx, c, e)
	if err == nil {
		err = do()
	}
	return a.finish(c, e, EventTransferred, nil, err)
}

// finish records what has become of what had a record, with its result if it has one, and
// returns its error.
func (a *auditor) finish(c *conn, of *Event, kind EventKind, res *Result, err error) error {
	e := c.event(kind)
	e.Of, e.Duration, e.In, e.Out, e.Error = of.Seq, e.Time.Sub(of.Time), c.in, c.out, text(err)
	if res != nil {
		e.Outcome, e.ExitCode, e.Signal, e.Duration = res.Outcome, res.ExitCode, res.Signal, res.Duration
		e.Escalation, e.Cause, e.OOMBefore, e.OOMAfter, e.Gone = res.Escalation, text(res.Cause), res.OOMBefore, res.OOMAfter, res.Gone
	}
	timeout := c.auditTimeout(c.endBy)
	if e.Of == 0 {
		// It was refused at once, without a record.
		return err
	}
	return a.behind(c.plain(e), timeout, err)
}
