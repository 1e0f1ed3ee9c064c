package execpolicy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/delivery"
	"github.com/seed-64a260eb/cofferdam/internal/secret"
)

// maxRecords is how many records wait at most for one that is stuck. More are lost, and
// make a gap.
const maxRecords = 64

var errNotRecorded = errors.New("the policy has not recorded its spawn")

// RecordSpawn records an [EventSpawn], if the spec has an Auditor. A [Policy] calls it in
// Spawn, on the spec that it was given or on a copy, before it starts anything. If it
// returns an error, which wraps [ErrAudit], Spawn must start nothing, and return that
// error. argv is recorded as it is: [dockercli.Redact] takes the values of variables out
// of an engine's command line. Both are arguments because there is no Process yet.
func (s Spec) RecordSpawn(ctx context.Context, name string, argv []string) error {
	if s.Audit == nil {
		return nil
	}
	a := s.auditor
	if a == nil {
		// It is spawned without a session.
		a = newAuditor(s.Audit)
	}
	return a.spawning(ctx, name, argv)
}

// An auditor makes the records of a session, and has them delivered. A nil auditor makes
// none.
//
// What it records is done by whoever calls it: begin comes before, finish after.
type auditor struct {
	records *delivery.Queue[Event]

	values   *secret.Values // what a policy is not told is secret
	spawned  time.Time      // the last
	recorded bool           // the policy has recorded the spawn of what is being started
	closing  time.Time      // when its end was asked for

	mu    sync.Mutex
	name  string // of the container that is being started
	anew  bool   // what still comes before a spawn is of one that is to be no more
	cause error  // why it is ended; nil if it is not
	seq   int
	ways  int // the connections through the policy's Egress
}

// newAuditor returns the auditor of one session; nil if f is nil.
func newAuditor(f Auditor) *auditor {
	if f == nil {
		return nil
	}
	return &auditor{records: delivery.New(maxRecords, f)}
}

// number gives a record its place. It is called with the lock, under which the record is
// handed over too.
func (a *auditor) number(e *Event) {
	if e.Kind == EventSpawn {
		a.seq, a.ways, a.cause, a.name, a.anew = 0, 0, nil, "", false
	}
	a.seq++
	e.Seq = a.seq
	if e.Name == "" {
		e.Name = a.name
	} else if !a.anew {
		a.name = e.Name
	}
}

// post hands a record over for which nobody waits.
func (a *auditor) post(e *Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.number(e)
	a.records.Post(*e)
}

// take hands a record over and waits until it and all before were taken, or the time is
// over.
func (a *auditor) take(ctx context.Context, e *Event, timeout time.Duration) error {
	a.mu.Lock()
	a.number(e)
	receipt, err := a.records.Submit(*e)
	a.mu.Unlock()
	if err == nil {
		err = receipt.Wait(ctx, timeout)
	}
	return noRecord(err)
}

// noRecord returns the error of a call for that of a record.
func noRecord(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrAudit, err)
}

// before is take for what must not be done if there is no record. While an earlier one is
// stuck, it has none.
func (a *auditor) before(ctx context.Context, e *Event, timeout time.Duration) error {
	if a.records.Abandoned() == delivery.ErrLate {
		return noRecord(delivery.ErrLate)
	}
	return a.take(ctx, e, timeout)
}

// after is take for what has been done with that error, to which it joins its own. What
// was refused because an earlier record is stuck does not wait for another.
func (a *auditor) after(e *Event, timeout time.Duration, err error) error {
	if a.records.Abandoned() != nil && errors.Is(err, ErrAudit) {
		a.post(e)
		return err
	}
	if lost := a.take(context.Background(), e, timeout); lost != nil {
		return errors.Join(err, lost)
	}
	return err
}

// newEvent begins a record of what happens in a session.
func (c *conn) newEvent(kind EventKind) *Event {
	return &Event{Kind: kind, Time: time.Now(), Name: c.proc.Name}
}

// redactEvent makes the texts of a record fit to be kept.
func (c *conn) redactEvent(e *Event) *Event {
	e.redact(c.redact)
	return e
}

// text returns an error's, if there is one.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// spawning records that a process is about to be started.
func (a *auditor) spawning(ctx context.Context, name string, argv []string) error {
	e := &Event{Kind: EventSpawn, Time: time.Now(), Name: name, Argv: argv}
	e.redact(a.values.Redact)
	a.spawned = e.Time
	err := a.before(ctx, e, defaultTerminationTimeout)
	a.recorded = err == nil
	return err
}

// started records that the session has answered.
func (a *auditor) started(ctx context.Context, c *conn) error {
	if a == nil {
		return nil
	}
	if !a.recorded {
		return noRecord(errNotRecorded)
	}
	a.recorded = false
	e := c.newEvent(EventStart)
	e.Duration, e.Env, e.Secrets = e.Time.Sub(a.spawned), slices.Sorted(maps.Keys(c.env)), secretNames(c.secrets)
	var err error
	e.Image, err = c.imageID()
	e.Transport, e.Error = c.proc.Transport, text(err)
	return a.before(ctx, c.redactEvent(e), c.limits.TerminationTimeout)
}

// startedAhead is called before the start of a session that was spawned ahead.
func (a *auditor) startedAhead() {
	if a == nil {
		return
	}
	if a.recorded = true; a.spawned.IsZero() {
		a.spawned = time.Now()
	}
}

// failed records a start that has failed, and returns its error. c is nil if nothing was
// started.
func (a *auditor) failed(c *conn, err error) error {
	if a == nil {
		return err
	}
	e := &Event{Kind: EventFailed, Time: time.Now(), Error: err.Error()}
	if c != nil {
		c.redactEvent(e)
	}
	return a.after(e, defaultTerminationTimeout, err)
}

// ending notes why Close or Restart is about to end the session. It makes no record.
func (a *auditor) ending(cause error) {
	if a == nil {
		return
	}
	a.closing = time.Now()
	a.keepCause(cause)
	if cause == errRestart {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.name, a.anew = "", true
	}
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

// killed records a step of an escalation, and does not block.
func (a *auditor) killed(c *conn, step Escalation, cause error) {
	if a == nil {
		return
	}
	switch step {
	case EscalationRemoval:
		cause = a.keepCause(context.Cause(c.life))
	case EscalationContainer:
		a.keepCause(cause)
	}
	e := c.newEvent(EventKill)
	e.Escalation, e.Cause = step, text(cause)
	a.post(c.redactEvent(e))
}

// ended emits the record of the session's end, with what is not known to be gone. It does
// not block.
func (a *auditor) ended(c *conn, err error) {
	if a == nil {
		return
	}
	e := c.newEvent(EventEnd)
	e.Gone, e.Error = err == nil, text(err)
	if !a.spawned.IsZero() {
		e.Duration = e.Time.Sub(a.spawned)
	}
	cause := a.keepCause(context.Cause(c.life))
	if cause == nil {
		cause = c.OwnEnd(time.Now())
	}
	e.Cause = text(cause)
	a.post(c.redactEvent(e))
}

// connected records a connection through the policy's Egress, and does not block.
func (a *auditor) connected(c *conn, e Event) {
	if a == nil {
		return
	}
	e.Name = c.proc.Name
	c.redactEvent(&e)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ways++
	e.Seq = a.ways
	a.records.PostAside(e)
}

// closed waits for all records of a session that is closed, and returns the error of
// that with theirs.
func (a *auditor) closed(c *conn, err error) error {
	if a == nil {
		return err
	}
	timeout := c.auditTimeout(a.closing.Add(c.limits.TerminationTimeout))
	by := time.Now().Add(timeout)
	err = errors.Join(err, noRecord(a.records.Flush(context.Background(), timeout)))
	if lost := a.records.FlushAside(context.Background(), time.Until(by)); lost != nil {
		err = errors.Join(err, noRecord(fmt.Errorf("of connections through Egress: %w", lost)))
	}
	return err
}

// A tally counts what is under way, for its record.
type tally struct {
	in, out int64     // bytes
	endBy   time.Time // when the escalation must be done, if there was one
}

// auditTimeout returns how long a record may take after a call that must be over by
// endBy: until then, and at least an eighth of TerminationTimeout.
func (c *conn) auditTimeout(endBy time.Time) time.Duration {
	if endBy.IsZero() {
		return c.limits.TerminationTimeout
	}
	return max(time.Until(endBy), c.limits.TerminationTimeout/8)
}

// beginCommand records a command that is about to be run. Whatever its error, finish is
// called with the event.
func (a *auditor) beginCommand(ctx context.Context, c *conn, cmd Command) (*Event, error) {
	if a == nil {
		return nil, nil
	}
	e := c.commandEvent(cmd)
	return e, a.begin(ctx, c, e)
}

func (c *conn) commandEvent(cmd Command) *Event {
	e := c.newEvent(EventCommand)
	e.Script, e.Argv, e.Dir = cmd.Script, cmd.Argv, cmd.Dir
	if code := cmd.code; code != nil {
		// It may go by stdin, which no record has. One that was asked about before has a
		// record with it.
		if !code.Approved || code.Fork {
			e.Script = cmp.Or(code.Text, e.Script)
		}
		if code.Fork {
			e.Argv = nil // no program, and the code once more
		}
	}
	e.Env, e.Secrets = slices.Sorted(maps.Keys(cmd.Env)), secretNames(cmd.Secrets)
	// In one go: a short value may stand in a long one.
	e.redact(addValues(c.redactor.Values(), cmd.Secrets).Redact)
	return e
}

// beginScript is beginCommand for a startup or a shutdown script.
func (a *auditor) beginScript(ctx context.Context, c *conn, kind, script string) (*Event, error) {
	if a == nil {
		return nil, nil
	}
	e := c.newEvent(EventCommand)
	e.Op, e.Script = kind, script
	return e, a.begin(ctx, c, e)
}

// beginTransfer is beginCommand for a transfer.
func (a *auditor) beginTransfer(ctx context.Context, c *conn, op, name string) (*Event, error) {
	if a == nil {
		return nil, nil
	}
	e := c.newEvent(EventTransfer)
	e.Op, e.Path = op, name
	return e, a.begin(ctx, c, e)
}

// beginJob is beginCommand for a job, beside which others are under way.
func (a *auditor) beginJob(ctx context.Context, c *conn, cmd Command) (*Event, error) {
	if a == nil {
		return nil, nil
	}
	e := c.commandEvent(cmd)
	e.Op = "job"
	return e, a.before(ctx, c.redactEvent(e), c.limits.TerminationTimeout)
}

// finishJob is finish for a job, which has a tally of its own, or for one that did not
// begin.
func (a *auditor) finishJob(c *conn, of *Event, res *Result, t tally, err error) error {
	if a == nil || of.Seq == 0 {
		// If it has no number, it was refused at once without a record.
		return err
	}
	return a.after(c.resultEvent(of, res, t, err), c.auditTimeout(t.endBy), err)
}

func (a *auditor) begin(ctx context.Context, c *conn, e *Event) error {
	c.tally = tally{}
	return a.before(ctx, c.redactEvent(e), c.limits.TerminationTimeout)
}

// finish records what has become of what was begun, with its result if it has one, and
// returns its error.
func (a *auditor) finish(c *conn, of *Event, res *Result, err error) error {
	return a.finishJob(c, of, res, c.tally, err)
}

// resultEvent returns the record of what has become of what was begun.
func (c *conn) resultEvent(of *Event, res *Result, t tally, err error) *Event {
	e := c.newEvent(EventResult)
	if of.Kind == EventTransfer {
		e.Kind = EventTransferred
	}
	e.Of, e.Duration, e.In, e.Out, e.Error = of.Seq, e.Time.Sub(of.Time), t.in, t.out, text(err)
	if res != nil {
		e.Outcome, e.ExitCode, e.Signal, e.Duration = res.Outcome, res.ExitCode, res.Signal, res.Duration
		if res.Usage != nil {
			usage := *res.Usage // a record may be used when the result is the caller's
			e.Usage = &usage
		}
		e.Escalation, e.Cause, e.OOMBefore, e.OOMAfter, e.Gone = res.Escalation, text(res.Cause), res.OOMBefore, res.OOMAfter, res.Gone
	}
	return c.redactEvent(e)
}
