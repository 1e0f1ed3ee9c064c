package execpolicy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/ordered"
)

// ErrAudit is wrapped by the error of a call of which [Spec.Audit] has not taken all
// records. Without the record before it, nothing is done: a command has no result then.
// Without the one behind it, it has been done.
var ErrAudit = errors.New("no record")

// An EventKind is what happens. Each comment says when the record is made, and what it
// has beside Time, Kind, Seq and Name.
type EventKind string

const (
	// EventSpawn comes before the engine's client is started: Argv. A start that is tried
	// again, and Restart, have one of their own.
	EventSpawn EventKind = "spawn"
	// EventStart comes when the session has answered, before anything is run in it:
	// Image, Env, Secrets, Duration since the spawn, and Error if the engine did not tell
	// the image.
	EventStart EventKind = "start"
	// EventFailed comes behind the end of a start that has failed: Error. It has no Name
	// if nothing was started.
	EventFailed EventKind = "failed"
	// EventCommand comes before anything of a command is sent, and before [Spec.Approve]
	// is asked: Script or Argv, Dir, Env, Secrets; or before a startup or shutdown
	// script: Op, Script.
	EventCommand EventKind = "command"
	// EventResult comes behind each EventCommand: Of, Duration, In, Out, the fields from
	// Outcome to Gone, Error. Outcome is 0 of a command that did not run and of a script
	// that failed: then Error says more.
	EventResult EventKind = "result"
	// EventTransfer comes before anything of a file or a tree is sent or fetched: Op,
	// Path.
	EventTransfer EventKind = "transfer"
	// EventTransferred comes behind each EventTransfer: Of, Duration, In, Out, Error.
	EventTransferred EventKind = "transferred"
	// EventKill comes with each step of the escalation that ends a command or a transfer:
	// Escalation, Cause. What it is of is the last one that has no result yet. One of
	// [EscalationRemoval] is of the session.
	EventKill EventKind = "kill"
	// EventEnd comes when the session has ended, for whatever reason: Duration of its
	// life, Gone, and Error, which says what is not known to be gone; then another comes
	// when that was tried again. Cause is why the library ended it, or what is known of
	// why it ended by itself. The result of what was under way comes behind it.
	EventEnd EventKind = "end"
)

// An Event is a record for an [Auditor]. It holds no value of a variable, no content of a
// file and nothing of stdin or the output, but for what an Error quotes of a script's
// stderr, or of the engine's, and for a Cause that quotes code which [Spec.Approve] has
// refused, if it is short.
type Event struct {
	// Time is when it happened.
	Time time.Time
	Kind EventKind
	// Seq counts the records of a session from 1, which is that of its spawn: one that is
	// missing was lost.
	Seq int
	// Of is the Seq of the record to which this one belongs.
	Of int
	// Name is the container's, or that of whatever the policy started. A [HostPolicy] has
	// none for its spawn.
	Name string

	// Argv is the engine's command line, without the values of variables; or the
	// command's program and its arguments.
	Argv []string
	// Image is the image's ID, from the engine.
	Image string
	// Op is "startup" or "shutdown" of a script; "write", "read", "write files", "mkdir",
	// "readdir", "stat", "remove", "copy to" or "copy from" (Walk too) of a transfer.
	Op string
	// Script, Dir and Path are as the caller gave them.
	Script, Dir, Path string
	// Env are the names of the variables that are set, and Secrets those of the secrets
	// that are given.
	Env, Secrets []string
	// Duration is how long it took; of a result, as in [Result].
	Duration time.Duration
	// In and Out are how many bytes went in: of stdin, or of content; and how many came
	// out: of both streams together, before any Filter, of a script's stdout, or of
	// content. A tree's are those of its archive.
	In, Out int64

	// These are a [Result]'s. OOMBefore and OOMAfter are -1 if they are not known.
	Outcome             Outcome
	ExitCode, Signal    int
	Escalation          Escalation
	Cause               string
	OOMBefore, OOMAfter int
	Gone                bool
	// Error is that of the call.
	Error string
}

// conceal puts what f returns for them in the place of the texts that come from the
// caller or from inside.
func (e *Event) conceal(f func(string) string) {
	for _, text := range []*string{&e.Script, &e.Dir, &e.Path, &e.Cause, &e.Error} {
		*text = f(*text)
	}
	e.Argv = slices.Clone(e.Argv)
	for i := range e.Argv {
		e.Argv[i] = f(e.Argv[i])
	}
}

// An Auditor takes records of all that happens in sessions. [NewAuditor] makes one, and a
// program that makes none has nothing of it in its binary: therefore it is an interface,
// which nothing else implements.
type Auditor interface {
	// Spawn is for those who write a [Policy]: it records an EventSpawn. e is the engine
	// that can tell the image of the container of that name, and is nil if there is none;
	// then argv is recorded as it is, values of variables included.
	Spawn(ctx context.Context, e *dockercli.Engine, name string, argv []string) error

	session() Auditor
	tell(c *conn, kind EventKind, step Escalation, err error)
	await(ctx context.Context, c *conn, kind EventKind, err error) error
	run(ctx context.Context, cancel context.CancelCauseFunc, c *conn, cmd Command) (*Result, error)
	script(ctx context.Context, c *conn, kind, script string, deadline, left time.Time) error
	transfer(ctx context.Context, c *conn, op, name string, do func() error) error
}

// NewAuditor returns what gives f a record of each event, for any number of sessions: see
// [EventKind]. What [Start] refuses because the spec is invalid, and what a session
// refuses before its turn, has none, nor has [Sweep].
//
// An error of f for a record that comes before something refuses that, and one for a
// record that comes behind is joined to the error of the call: both wrap [ErrAudit]. One
// for a record of a kill, of an end or of what was refused is that of the next call that
// has a record, or of Close.
//
// The records of a session are handed over one at a time, in order, on a goroutine of
// their own; those of several sessions at the same time. What ends commands and sessions
// waits for no record. Everything else waits, before its own time begins, at most
// [Limits.TerminationTimeout] (10 s for a spawn), and behind what was ended as long as
// that has left; a record that was not taken by then may still be. While one is stuck,
// what needs a record before it is refused at once, and up to 64 of the others are kept.
// f must not wait for the same session. If it panics, it takes the program with it.
func NewAuditor(f func(Event) error) Auditor { return &auditor{audit: f} }

// eventEnding is no event: it comes before the library ends a session that nobody uses.
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

	engine  *dockercli.Engine // of the last spawn; nil if there is none
	spawned time.Time         // the last
	asked   bool              // the policy has recorded the spawn of what is being started
	ending  time.Time         // when its end was asked for

	mu     sync.Mutex
	name   string // of the container that is being started
	anew   bool   // what still comes before a spawn is of one that is to be no more
	cause  error  // why it is ended; nil if it is not
	seq    int
	queue  []record // the first is with audit
	left   error    // why somebody waits for it no longer; errLate if that was for too long
	missed error    // of records that nobody has waited for
}

// A record is one that waits.
type record struct {
	event *Event     // nil if there is none, only somebody who waits for those before
	done  chan error // nil if nobody waits
}

func (a *auditor) session() Auditor { return &auditor{audit: a.audit} }

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
		a.queue, a.left = a.queue[1:], nil
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
		if len(a.queue) > 0 && a.left != errLate {
			a.left = err
		}
		select {
		case lost := <-done:
			// Of two that are ready, either is chosen.
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
	return a.left
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

// patience is how long a record may take behind what had so long to end. Of that time a
// moment is always left.
func (c *conn) patience(left time.Time) time.Duration {
	if left.IsZero() {
		return c.limits.TerminationTimeout
	}
	return max(time.Until(left), c.limits.TerminationTimeout/8)
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

func (a *auditor) Spawn(ctx context.Context, e *dockercli.Engine, name string, argv []string) error {
	if e != nil {
		argv = dockercli.Redact(argv)
	}
	event := &Event{Kind: EventSpawn, Time: time.Now(), Name: name, Argv: argv}
	a.engine, a.spawned = e, event.Time
	err := a.before(ctx, event, defaultTerminationTimeout)
	a.asked = err == nil
	return err
}

// tell records what nobody waits for, with its error or its cause.
func (a *auditor) tell(c *conn, kind EventKind, step Escalation, err error) {
	e := c.event(kind)
	switch {
	case kind == EventEnd:
		e.Gone, e.Error = err == nil, text(err)
		if !a.spawned.IsZero() {
			e.Duration = e.Time.Sub(a.spawned)
		}
		cause := a.because(context.Cause(c.life))
		if cause == nil {
			cause = c.OwnEnd(time.Now())
		}
		e.Cause = text(cause)
	case kind == eventEnding:
		a.ending = e.Time
		a.because(err)
		if err == errRestart {
			a.mu.Lock()
			a.name, a.anew = "", true
			a.mu.Unlock()
		}
		return
	case step == EscalationRemoval:
		e.Escalation, e.Cause = step, text(a.because(context.Cause(c.life)))
	case step == EscalationContainer:
		a.because(err)
		fallthrough
	default:
		e.Escalation, e.Cause = step, text(err)
	}
	a.post(c.plain(e), nil)
}

// because keeps the first cause of a session's end, and returns it.
func (a *auditor) because(cause error) error {
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
		return a.behind(nil, c.patience(a.ending.Add(c.limits.TerminationTimeout)), err)
	}
	if !a.asked {
		return fmt.Errorf("%w: %w", ErrAudit, errNotAsked)
	}
	a.asked = false
	e := c.event(kind)
	e.Duration, e.Env, e.Secrets = e.Time.Sub(a.spawned), ordered.Keys(c.env), c.given
	if a.engine != nil {
		ctx, cancel := context.WithTimeout(ctx, c.limits.TerminationTimeout)
		defer cancel()
		state, err := a.engine.Inspect(ctx, e.Name)
		if err == nil {
			e.Image = state.ImageID
		}
		e.Error = text(err)
	}
	return a.before(ctx, c.plain(e), c.limits.TerminationTimeout)
}

// begin records what is about to be done.
func (a *auditor) begin(ctx context.Context, c *conn, e *Event) error {
	c.in, c.out, c.left = 0, 0, time.Time{}
	return a.before(ctx, c.plain(e), c.limits.TerminationTimeout)
}

func (a *auditor) run(ctx context.Context, cancel context.CancelCauseFunc, c *conn, cmd Command) (*Result, error) {
	e := c.event(EventCommand)
	e.Script, e.Argv, e.Dir, e.Env = cmd.Script, cmd.Argv, cmd.Dir, ordered.Keys(cmd.Env)
	if cmd.Secrets != nil {
		e.Secrets = cmd.Secrets.names()
		e.conceal(cmd.Secrets.concealer())
	}
	var res *Result
	err := a.begin(ctx, c, e)
	if err == nil {
		c.recorded = true
		res, err = c.run(ctx, cancel, cmd)
	}
	return res, a.finish(c, e, EventResult, res, err)
}

func (a *auditor) script(ctx context.Context, c *conn, kind, script string, deadline, by time.Time) error {
	in, out, left := c.in, c.out, c.left
	defer func() {
		// It may be a part of a command or a transfer, which has no more time than this
		// left.
		c.in, c.out = in, out
		if c.left.IsZero() {
			c.left = left
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
	timeout := c.patience(c.left)
	if e.Of == 0 {
		// It was refused at once, without a record.
		return err
	}
	return a.behind(c.plain(e), timeout, err)
}
