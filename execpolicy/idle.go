package execpolicy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/shell"
)

// An Idle is a session that was started ahead, for a user who is not known yet. It is
// taken once, and never again. Package execpolicy/warm keeps some. The methods may be
// called at the same time.
type Idle struct {
	s     *Session // nobody else's until it is taken
	ahead Spec
	state atomic.Int32
}

// The states of an Idle.
const (
	idleFree int32 = iota
	idleTaken
	idleClosed
)

// StartIdle is [Start] for a session that belongs to nobody yet. The spec has what all
// users have in common: Command, Env, Labels, Startup, Limits and Audit. The startup
// scripts run now. What belongs to one user is refused.
func StartIdle(ctx context.Context, p Policy, spec Spec) (*Idle, error) {
	s, err := start(ctx, p, spec, spec.ahead())
	if err != nil {
		return nil, err
	}
	return &Idle{s: s, ahead: *s.spec}, nil
}

// ahead reports what of a spec belongs to one user.
func (s Spec) ahead() error {
	return refuse("belongs to whoever takes the session, and can't be had ahead", []given{
		{"Workspace", s.Workspace != ""},
		{"Secrets", len(s.Secrets) > 0},
		{"Shutdown", len(s.Shutdown) > 0},
		{"Prepare", s.Prepare != nil},
		{"Finish", s.Finish != nil},
		{"Filter", s.Filter != nil},
		{"Approve", s.Approve != nil},
	})
}

// A given is whether a spec sets a field.
type given struct {
	field string
	set   bool
}

func refuse(why string, fields []given) error {
	var found problems.List
	for _, f := range fields {
		if f.set {
			found.Add("%s %s", f.field, why)
		}
	}
	return problems.Join(found...)
}

// CheckTake reports why [StartIdle] would refuse ahead, or [Idle.Take] would refuse spec.
// It returns nil if it found no reason. Its error wraps [ErrInvalid], and [ErrNoMount]
// too if spec has a Workspace, and says all that is wrong with both.
func CheckTake(ahead, spec Spec) error {
	err := problems.Join(ahead.ahead(), refuse("belongs to the container, which was started ahead", []given{
		{"Command", len(spec.Command) > 0},
		{"Labels", len(spec.Labels) > 0},
		{"Supervisor", len(spec.Supervisor) > 0},
		{"Limits.TerminationTimeout", spec.Limits.TerminationTimeout != 0},
	}))
	if spec.Workspace != "" {
		err = problems.Join(err, fmt.Errorf("%w: the container was started ahead", ErrNoMount))
	}
	invalid, _ := check(context.Background(), nil, ahead.with(spec), err)
	return invalid
}

// with returns the spec of a session that is taken, and was started with s.
func (s Spec) with(use Spec) Spec {
	use.Command, use.Workspace, use.Labels = s.Command, s.Workspace, s.Labels
	env := maps.Clone(s.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, use.Env)
	use.Env = env
	use.Startup = slices.Concat(s.Startup, use.Startup)
	if use.Audit == nil {
		use.Audit, use.auditor = s.Audit, s.auditor
	}
	use.Limits = s.Limits.with(use.Limits)
	return use
}

// errTaken is the error of a session that is taken again.
var errTaken = fmt.Errorf("%w: it was taken before", ErrClosed)

// Take makes the session that of a user. spec has what belongs to that user: Env,
// Secrets, Startup, Shutdown, Prepare, Finish, Filter, Approve, Audit and Limits. Env is
// on top of the Env that the session was started with, and the startup scripts run after
// those of StartIdle. ctx bounds the taking only.
//
// Command, Workspace, Labels and [Limits.TerminationTimeout] belong to the container. If
// the spec has one of them, or is wrong in another way, the session stays idle, and the
// error wraps [ErrInvalid] and says all that is wrong. With a Workspace it wraps
// [ErrNoMount] too. If the session was taken or closed before, the error wraps
// [ErrClosed]. Any other error is one of [Start], and the session has ended.
//
// Audit has the records from here on, the first being an [EventStart]. If it is nil, that
// of StartIdle goes on. A [Limits.Lifetime] begins here, and ends at the latest with the
// container's. [Session.Restart] starts a container anew, with both specs together.
func (i *Idle) Take(ctx context.Context, spec Spec) (*Session, error) {
	if err := CheckTake(i.ahead, spec); err != nil {
		return nil, err
	}
	if !i.state.CompareAndSwap(idleFree, idleTaken) {
		return nil, errTaken
	}
	s := i.s
	spec.auditor = newAuditor(spec.Audit)
	all := i.ahead.with(spec)
	// Check may have the turn.
	if err := s.turn.TakeOf(ctx, "session"); err != nil {
		err = errors.Join(fmt.Errorf("%w: %w", ErrStart, err), s.Close())
		return nil, all.auditor.failed(s.current(), err)
	}
	defer s.release()
	s.spec = &all
	err := s.conn.take(ctx, spec, all)
	if err == nil {
		return s, nil
	}
	return nil, all.auditor.failed(s.conn, err)
}

// take makes an idle conn that of a session with that spec, which with what it was
// started with is all. If it fails, the process has been ended.
func (c *conn) take(ctx context.Context, spec, all Spec) error {
	all.auditor.startedAhead()
	c.audit = all.auditor
	c.observer.Store(c.audit)
	c.limits = c.proc.limits(all)
	if own := spec.Limits.Lifetime; own > 0 {
		c.expireAt(bound.Earlier(bound.After(own), c.expiry))
	}
	c.endsInOrder = len(all.Shutdown) > 0 || all.Finish != nil
	c.filter = shell.Filter(all.Filter).InTurn()
	c.SetFilter(c.filter)
	c.setValues(addValues(nil, spec.Secrets))
	err := c.lives()
	if err == nil && len(spec.Env) > 0 {
		ctx, cancel := bound.By(ctx, c.life)
		err = c.addEnv(ctx, spec.Env, bound.After(c.limits.StartupTimeout))
		cancel(nil)
	}
	if err != nil {
		return c.failed(err)
	}
	return c.prepare(ctx, spec, spec.Secrets)
}

// errNoAnswer is why an idle session is of no use.
var errNoAnswer = errors.New("the idle session's shell does not answer")

// Check asks the shell for an answer, and reports whether the session can be taken. An
// error wraps [ErrEnded] if the container has ended, and [ErrClosed] if the session was
// taken or closed. If ctx ends before there is an answer, Check fails, and may have ended
// the session, which takes [Limits.TerminationTimeout] at most. Close it then.
func (i *Idle) Check(ctx context.Context) error {
	s := i.s
	if i.state.Load() != idleFree {
		return errTaken // whoever has taken it may run a command for long
	}
	if err := s.acquire(ctx); err != nil {
		return err
	}
	defer s.release()
	if i.state.Load() != idleFree {
		return errTaken
	}
	c := s.conn
	if err := c.lives(); err != nil {
		return err
	}
	ctx, cancel := bound.By(ctx, s.both)
	defer cancel(nil)
	var out, errOut shell.Sink
	r := c.runUnit(ctx, time.Time{}, time.Time{}, shell.Unit(":"), &out, &errOut)
	switch {
	case r.Cause != nil:
		return fmt.Errorf("%w: %w", errNoAnswer, r.Cause)
	case r.Lost:
		return c.lost()
	case r.Died || r.Mark.Status != 0:
		return errNoAnswer
	}
	return nil
}

// Name returns the name of the container, as [Session.Name] does.
func (i *Idle) Name() string { return i.s.Name() }

// Done returns a channel that is closed when the session has ended, as [Session.Done]
// does.
func (i *Idle) Done() <-chan struct{} { return i.s.Done() }

// Close ends the session as [Session.Close] does. If the session was taken, Close does
// nothing and returns nil.
func (i *Idle) Close() error {
	i.state.CompareAndSwap(idleFree, idleClosed)
	if i.state.Load() == idleTaken {
		return nil
	}
	return i.s.Close()
}
