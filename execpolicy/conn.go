package execpolicy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/secret"
	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/internal/turn"
)

// A conn is a session's end of one process with a worker shell in it. Only the holder of
// the session's turn uses what is not said to be safe.
type conn struct {
	*shell.Conn
	proc        *Process
	limits      Limits
	env         map[string]string
	startup     []string
	endsInOrder bool            // something is done before it is closed
	life        context.Context // ends with ErrExpired
	lifetime    *time.Timer     // ends life, and the process
	expiry      time.Time       // when life ends; zero if never
	audit       *auditor        // nil if nobody wants records
	// observer is audit, for what happens without the turn.
	observer atomic.Pointer[auditor]
	// approve is asked about commands; nil if nobody is.
	approve func(context.Context, Request) error

	tally tally // of what is under way
	image imageQuestion

	jobs turn.Room // those that run
	// session ends with the session's Close; nil before there is a session.
	session context.Context
	jobLife context.Context // ends when the process is to
	endJobs context.CancelCauseFunc

	redactor secret.Redactor // the values of all secrets that the session was ever given
	secrets  []Secret        // the session's own; with values once the shell has them
	filter   shell.Filter    // the caller's, which gets no values of secrets
}

// connect makes a session's end of a process, which redacts the values.
func connect(proc *Process, spec Spec, values *secret.Values) *conn {
	c := &conn{
		proc:        proc,
		limits:      proc.limits(spec),
		env:         map[string]string{},
		audit:       spec.auditor,
		endsInOrder: len(spec.Shutdown) > 0 || spec.Finish != nil,
		jobs:        turn.Room{Places: MaxJobs},
	}
	var over context.CancelFunc
	c.image.over, over = context.WithCancel(context.Background())
	c.observer.Store(c.audit)
	maps.Copy(c.env, proc.Env)
	maps.Copy(c.env, spec.Env)
	var expire context.CancelCauseFunc
	c.life, expire = context.WithCancelCause(context.Background())
	c.jobLife, c.endJobs = context.WithCancelCause(c.life)
	timeout := c.limits.TerminationTimeout
	c.lifetime = time.AfterFunc(math.MaxInt64, func() {
		expire(ErrExpired)
		c.End(timeout)
	})
	c.Conn = shell.New(shell.Options{
		Name:      proc.Name,
		Stdin:     proc.Stdin,
		Stdout:    proc.Stdout,
		Stderr:    proc.Stderr,
		Blocks:    proc.blocks,
		Done:      proc.Done,
		Kill:      proc.Kill,
		ExitCode:  proc.ExitCode,
		Diagnose:  proc.Diagnose,
		OOMKilled: proc.OOMKilled,
		EndTold:   proc.EndTold,
		Setup: shellwire.Setup{
			Dir: proc.Scratch, Namespace: proc.OwnPIDNamespace, Worker: proc.Worker, Name: proc.Name,
			Readable: proc.ReadableShell,
		},
		TerminationTimeout: c.limits.TerminationTimeout,
		KeepAlive:          proc.keepAlive(),
		Abrupt:             c.abrupt,
		Redact:             c.redact,
		Stepped:            func(step shell.Step, cause error) { c.observer.Load().killed(c, Escalation(step), cause) },
		Ended:              func(err error) { c.observer.Load().ended(c, err) },
		Finished:           func() { c.lifetime.Stop(); over() },
		Place:              shell.Place{Env: c.env, Dir: proc.Dir, DirWritable: proc.DirWritable},
		Answered:           proc.Answered,
		Renew:              c.renewSecrets,
		Startup:            c.runStartup,
		Escalated:          c.escalated,
	})
	c.filter = shell.Filter(spec.Filter).InTurn()
	c.SetFilter(c.filter)
	c.setValues(values)
	c.Start()
	return c
}

// abrupt reports whether a unit that ends for that cause ends the process. A caller may
// bring a context of another session, which ends for such a cause of its own.
func (c *conn) abrupt(cause error) bool {
	switch cause {
	case ErrExpired:
		return c.life.Err() != nil
	case ErrClosed:
		return !c.endsInOrder && (c.session == nil || c.session.Err() != nil)
	}
	return false
}

// limits returns those of a session in the process.
func (p *Process) limits(spec Spec) Limits {
	return p.Limits.withDefaults().with(spec.Limits).withDefaults()
}

// keepAlive returns after how long a silent link ends a session in the process, in whole
// seconds; zero if it has no keep-alive.
func (p *Process) keepAlive() time.Duration {
	if p.KeepAlive <= 0 || !p.OwnPIDNamespace || p.blocks != nil {
		return 0
	}
	return (p.KeepAlive + time.Second - 1).Truncate(time.Second)
}

// wait calls [Process.Ready], whose context also ends with the process.
func (c *conn) wait(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-c.Exited():
			cancel(shell.ErrEarly)
		case <-ctx.Done():
		}
	}()
	err := c.call(func() error { return c.proc.Ready(ctx) })
	if err != nil && context.Cause(ctx) == shell.ErrEarly {
		return fmt.Errorf("%w: %w", shell.ErrEarly, err)
	}
	return err
}

// call calls a function of the caller's. If that panics, the process is ended: a caller
// that recovers has no session to close.
func (c *conn) call(f func() error) error {
	returned := false
	defer func() {
		if !returned {
			c.End(c.limits.TerminationTimeout)
		}
	}()
	err := f()
	returned = true
	return err
}

// dial makes a supervisor of the process. Its lifetime begins.
func (c *conn) dial(ctx context.Context) error {
	c.expireAt(bound.After(c.limits.Lifetime))
	c.Supervise()
	ctx, cancel := bound.By(ctx, c.life)
	defer cancel(nil)
	if err := c.Handshake(ctx, bound.After(c.limits.StartupTimeout), time.Time{}); err != nil {
		return err
	}
	c.askImage()
	return nil
}

// openWay opens the way out that the policy gives, if it gives one. If it fails, the
// process has been ended.
func (c *conn) openWay() error {
	if c.proc.openWay == nil {
		return nil
	}
	if err := c.proc.openWay(func(e Event) { c.observer.Load().connected(c, e) }); err != nil {
		return c.failed(err)
	}
	return nil
}

// expireAt ends the lifetime then; never if t is the zero time.
func (c *conn) expireAt(t time.Time) {
	if c.expiry = t; t.IsZero() {
		return
	}
	c.lifetime.Reset(time.Until(t))
	select {
	case <-c.Exited():
		c.lifetime.Stop()
	default:
	}
}

// prepare makes what answers a session's: with its secrets, Spec.Prepare, and startup
// scripts, after those that have run ahead. If it fails, the process has been ended.
func (c *conn) prepare(ctx context.Context, spec Spec, secrets []Secret) error {
	ctx, cancel := bound.By(ctx, c.life)
	defer cancel(nil)
	c.secrets = secrets
	err := c.audit.started(ctx, c)
	if err == nil {
		err = c.prove(ctx, c.proc.mounted)
	}
	if err == nil {
		err = c.openSecrets(ctx)
	}
	if err == nil && spec.Prepare != nil {
		err = c.borrow(ctx, spec.Prepare, c.limits.StartupTimeout)
	}
	if err == nil {
		c.approve = spec.Approve
		err = c.Ready(ctx, bound.After(c.limits.StartupTimeout), time.Time{})
	}
	if ahead := c.startup; err == nil {
		c.startup = spec.Startup
		err = c.runStartup(ctx, time.Time{}, time.Time{})
		c.startup = slices.Concat(ahead, c.startup)
	}
	if err != nil {
		return c.failed(err)
	}
	return nil
}

// failed ends a process that did not come up, and joins what is known of why.
func (c *conn) failed(err error) error {
	stderrText := c.Words()
	// An end that has had its time is tried again when the program has ended.
	endErr := c.EndSince(time.Time{})
	// A program that ended by itself says why; one that was ended does not.
	if errors.Is(err, shell.ErrEarly) && c.Diagnosis() != nil {
		err = c.Diagnosis()
	} else if len(stderrText) > 0 {
		err = fmt.Errorf("%w; it said: %s", err, strings.TrimSpace(string(stderrText)))
	}
	// A policy is not told what is secret.
	return problems.Redact(errors.Join(c.proc.onEngine(fmt.Errorf("%w: %w", ErrStart, err)), endErr), c.redact)
}

// onEngine returns an error that also names what has run the command. Another engine,
// which was passed over, may have the image, or what else is amiss.
func (p *Process) onEngine(err error) error {
	if p.Engine == "" {
		return err
	}
	return fmt.Errorf("%w; the engine is %s", err, p.Engine)
}

// runUnit is [shell.Conn.Run]. It counts stdout and notes the end of an escalation, both
// for the unit's record. A command's finish adds its stderr.
func (c *conn) runUnit(ctx context.Context, deadline, endBy time.Time, ops []shell.Op, out, errOut *shell.Sink) shell.Reply {
	r := c.Run(ctx, deadline, endBy, ops, out, errOut)
	c.tally.out += out.Came
	c.escalated(r)
	return r
}

// escalated notes when an escalation must be done, if there was one.
func (c *conn) escalated(r shell.Reply) {
	if !r.EndBy.IsZero() {
		c.tally.endBy = r.EndBy
	}
}

// lives returns the error for a container that has ended, if it has.
func (c *conn) lives() error {
	if c.hasEnded() {
		return c.lost()
	}
	return nil
}

// hasEnded reports whether the container has ended, or was given up.
func (c *conn) hasEnded() bool {
	select {
	case <-c.Exited():
		return true
	case <-c.CleanedUp():
		return true
	default:
		return false
	}
}

// lost returns the error for a container that has ended.
func (c *conn) lost() error {
	err := context.Cause(c.life)
	if err == nil {
		err = c.OwnEnd(time.Now().Add(c.LearnTime()))
	}
	if err == nil {
		return c.proc.onEngine(ErrEnded)
	}
	return c.proc.onEngine(fmt.Errorf("%w: %w", ErrEnded, err))
}

// expired adds ErrEnded to an error that says only that the lifetime is over, or that the
// session was restarted.
func (c *conn) expired(err error) error {
	over := errors.Is(err, ErrExpired) && c.life.Err() != nil || errors.Is(err, errRestart) && c.jobLife.Err() != nil
	if over && !errors.Is(err, ErrEnded) {
		return c.proc.onEngine(fmt.Errorf("%w: %w", ErrEnded, err))
	}
	return err
}

// closeTimeout is how long each thing may take that is done before the end. A Close
// without an end would be worse than a limit.
func (c *conn) closeTimeout() time.Duration {
	if c.limits.CommandTimeout < 0 {
		return defaultCommandTimeout
	}
	return c.limits.CommandTimeout
}
