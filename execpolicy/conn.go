package execpolicy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/ordered"
	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/truncate"
)

// A conn is a session's end of one process with a worker shell in it. Only the holder of
// the session's turn uses what is not said to be safe.
type conn struct {
	*shell.Conn
	proc    *Process
	limits  Limits
	env     map[string]string
	startup []string
	approve func(context.Context, Request) error // asked about commands; nil if nobody is
	orderly bool                                 // something is done before it is closed
	life    context.Context                      // ends with ErrExpired
	audit   Auditor                              // nil if nobody wants records

	raw      bool   // the startup scripts have not run in the worker
	unsaid   bool   // a worker was lost, and no result has said so
	dir      string // where the worker is
	oomKills int    // counted by the kernel so far, -1 if it does not tell

	// Of what is under way, for its record.
	in, out  int64     // bytes
	left     time.Time // when the escalation must be done, if there was one
	recorded bool      // it has its record

	known atomic.Pointer[known]                                     // of all secrets that were ever given to the session; nil if there are none
	given []string                                                  // names of the session's own
	renew func(ctx context.Context, deadline, left time.Time) error // gives a new worker what its environment does not; nil if there is nothing
}

var errEarly = errors.New("the process ended before its shell answered")

// dial makes a supervisor of a process that waits for one. If it fails, the process has
// been ended.
func dial(ctx context.Context, proc *Process, spec Spec) (*conn, error) {
	c := &conn{
		proc:     proc,
		limits:   proc.Limits.withDefaults(),
		env:      map[string]string{},
		audit:    spec.Audit,
		orderly:  len(spec.Shutdown) > 0 || spec.Finish != nil,
		raw:      true,
		oomKills: -1,
	}
	maps.Copy(c.env, proc.Env)
	maps.Copy(c.env, spec.Env)
	var expire context.CancelCauseFunc
	c.life, expire = context.WithCancelCause(context.Background())
	var clock *time.Timer
	c.Conn = shell.New(shell.Options{
		Name:      proc.Name,
		Stdin:     proc.Stdin,
		Stdout:    proc.Stdout,
		Stderr:    proc.Stderr,
		Done:      proc.Done,
		Kill:      proc.Kill,
		ExitCode:  proc.ExitCode,
		Diagnose:  proc.Diagnose,
		OOMKilled: proc.OOMKilled,
		Setup: shellwire.Setup{
			Dir: proc.Scratch, Namespace: proc.OwnPIDNamespace, Worker: proc.Worker, Name: proc.Name,
		},
		TerminationTimeout: c.limits.TerminationTimeout,
		Abrupt:             func(cause error) bool { return cause == ErrExpired || cause == ErrClosed && !c.orderly },
		Conceal:            c.conceal,
		Stepped:            func(step shell.Step, cause error) { c.tell(EventKill, Escalation(step), cause) },
		Ended:              func(err error) { c.tell(EventEnd, 0, err) },
		Finished:           func() { clock.Stop() },
	})
	c.Filter = inTurn(spec.Filter)
	lifetime := c.limits.Lifetime
	if lifetime < 0 {
		lifetime = math.MaxInt64
	}
	clock = time.AfterFunc(lifetime, func() {
		expire(ErrExpired)
		c.End(c.limits.TerminationTimeout)
	})
	c.Start()
	ctx, cancel := bound(ctx, c.life)
	defer cancel(nil)
	if err := c.handshake(ctx, after(c.limits.StartupTimeout), time.Time{}); err != nil {
		return nil, c.failed(err)
	}
	return c, nil
}

// inTurn returns a filter's function that is called once at a time: the words between
// commands come on a goroutine of their own.
func inTurn(filter func(io.Writer) io.WriteCloser) shell.Filter {
	if filter == nil {
		return nil
	}
	var mu sync.Mutex
	return func(w io.Writer) io.WriteCloser {
		mu.Lock()
		defer mu.Unlock()
		return filter(w)
	}
}

// prepare makes what answers a session's: with its secrets, Spec.Prepare, and the startup
// scripts. If it fails, the process has been ended.
func (c *conn) prepare(ctx context.Context, spec Spec, secrets SecretSet) error {
	ctx, cancel := bound(ctx, c.life)
	defer cancel(nil)
	var err error
	if secrets != nil {
		c.given = secrets.names()
	}
	if c.audit != nil {
		err = c.audit.await(ctx, c, EventStart, nil)
	}
	if err == nil && secrets != nil {
		err = secrets.open(ctx, c)
	}
	if err == nil && spec.Prepare != nil {
		err = c.lend(ctx, spec.Prepare, c.limits.StartupTimeout)
		c.raw = true
	}
	if err == nil {
		c.startup, c.approve = spec.Startup, spec.Approve
		err = c.ready(ctx, after(c.limits.StartupTimeout), time.Time{})
	}
	if err != nil {
		return c.failed(err)
	}
	return nil
}

// lend calls f with a session of its own around the conn, of which nothing is in use when
// it returns.
func (c *conn) lend(ctx context.Context, f func(context.Context, *Session) error, timeout time.Duration) error {
	if timeout >= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	s := newSession(nil, Spec{}, c)
	c.approve = nil // what f does is the caller's own
	returned := false
	defer func() {
		s.close(ErrClosed)
		s.turn <- struct{}{}
		if !returned {
			// A caller that recovers has no session to close.
			c.End(c.limits.TerminationTimeout)
		}
	}()
	err := f(ctx, s)
	returned = true
	return err
}

// failed ends a process that did not come up, and joins what is known of why.
func (c *conn) failed(err error) error {
	said := c.Words()
	// An end that has had its time is tried again when the program has ended.
	endErr := c.EndSince(time.Time{})
	// A program that ended by itself says why; one that was ended does not.
	if errors.Is(err, errEarly) && c.Diagnosis() != nil {
		err = c.Diagnosis()
	} else if len(said) > 0 {
		err = fmt.Errorf("%w; it said: %s", err, strings.TrimSpace(string(said)))
	}
	return errors.Join(fmt.Errorf("%w: %w", ErrStart, err), endErr)
}

// handshake sets the worker's environment and directory.
func (c *conn) handshake(ctx context.Context, deadline, left time.Time) error {
	var script string
	if !c.proc.OwnPIDNamespace {
		// What ends a command there is a SIGTERM to the whole group, which the worker
		// outlives.
		script += "trap : TERM\n"
	} else {
		// When memory is short, the kernel takes what the commands started before process
		// 1, with which all would end.
		script += "{ echo 500 >/proc/$$/oom_score_adj; } 2>/dev/null\n"
		if c.Worker() == 1 {
			// What Look counts, without another round trip.
			script += "for cf_file in /sys/fs/cgroup/memory.events " +
				"/sys/fs/cgroup/memory/memory.oom_control; do " +
				"while read -r cf_key cf_value; do " +
				"case $cf_key in oom_kill) echo $cf_value ;; esac; " +
				"done <$cf_file; done 2>/dev/null\nunset cf_file cf_key cf_value\n"
		}
	}
	for _, name := range ordered.Keys(c.env) {
		script += "export " + name + "=" + shellwire.Quote(c.env[name]) + "\n"
	}
	script += ":"
	if c.proc.Dir != "" {
		script += "\ncd -- " + shellwire.Quote(c.proc.Dir)
		if c.proc.DirWritable {
			script += " && { [ -w . ] || { echo 'the workspace can not be written to; if the image has a directory of its name, " +
				"runc before 1.1.8 gives it the mode of that' >&2; false; }; }"
		}
	}
	out := &shell.Sink{Kept: truncate.Buffer{Limit: shell.WordsKept}}
	in, errOut := shell.NewSink(c.Filter, shell.WordsKept, nil, nil)
	r := c.exchange(ctx, deadline, left, shell.Unit(script), out, in)
	said := errOut.Words(in)
	switch {
	case r.Cause == ErrTimeout:
		return fmt.Errorf("the worker shell did not answer in time; if the command is not a shell, it can't be a session's: %w", context.DeadlineExceeded)
	case r.Cause != nil:
		return r.Cause
	case r.Lost:
		return fmt.Errorf("%w, with status %d", errEarly, c.ExitCode())
	case r.Died:
		return fmt.Errorf("the worker shell ended with status %d (127: it is not there; 126: it can't be run) and said %q", r.Mark.Status, said)
	case r.Mark.Status != 0:
		return fmt.Errorf("the worker shell could not be set up: %s", said)
	}
	if c.proc.Answered != nil {
		c.proc.Answered()
	}
	c.dir = r.Mark.Dir
	if c.Worker() == 1 {
		c.oomKills = shell.ParseCount(string(out.Kept.Bytes()))
		return nil
	}
	// Earlier commands may have left jobs that print.
	c.Background += out.Came + in.Came
	if c.proc.OwnPIDNamespace {
		c.oomKills, _, _ = c.look(context.WithoutCancel(ctx), time.Time{})
	}
	return nil
}

// ready replaces a worker that has ended, within the deadline and the time left to end
// one that does not answer, and runs the startup scripts for a new one: within the same,
// if there is a time left, and else each within its own.
func (c *conn) ready(ctx context.Context, deadline, left time.Time) error {
	if err := c.respawn(ctx, deadline, left); err != nil {
		return err
	}
	if !c.raw {
		return nil
	}
	var by time.Time
	if !left.IsZero() {
		by = deadline
	}
	if err := c.startUp(ctx, by, left); err != nil {
		return err
	}
	c.raw = false
	return nil
}

// readyFor is ready for a command that must be over when nothing is left of its time, or
// that has no end if left is zero. Even one that has next to no time gets a shell; but
// its end comes in time.
func (c *conn) readyFor(ctx context.Context, left time.Time) error {
	if left.IsZero() {
		return c.ready(ctx, after(c.limits.StartupTimeout), left)
	}
	return c.ready(ctx, left.Add(-c.limits.TerminationTimeout/2), left)
}

// leftFor returns when a command that begins now and may run so long must be over; the
// zero time if the timeout is negative, for never.
func (c *conn) leftFor(timeout time.Duration) time.Time {
	if timeout < 0 {
		return time.Time{}
	}
	// The timeout may be the largest that there is.
	return after(timeout).Add(c.limits.TerminationTimeout)
}

// respawn replaces a worker that has ended.
func (c *conn) respawn(ctx context.Context, deadline, left time.Time) error {
	// It may have been killed while it had nothing to do.
	if !c.Dead {
		if !c.Died() {
			return nil
		}
		c.unsaid = true
	}
	c.Replace()
	c.raw = true
	err := c.handshake(ctx, deadline, left)
	if err == nil && c.renew != nil {
		err = c.renew(ctx, deadline, left)
	}
	if err != nil {
		c.Dead = true
		return fmt.Errorf("%w: the shell could not be replaced: %w", ErrStart, err)
	}
	return nil
}

// startUp runs the startup scripts in order up to the first that fails. None of them runs
// longer than StartupTimeout, nor beyond by, unless that is zero.
func (c *conn) startUp(ctx context.Context, by, left time.Time) error {
	for _, script := range c.startup {
		if c.Dead {
			return fmt.Errorf("startup %w: the shell has ended", ErrScript)
		}
		if err := c.script(ctx, "startup", script, earlier(after(c.limits.StartupTimeout), by), left); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) script(ctx context.Context, kind, script string, deadline, left time.Time) error {
	if c.audit != nil && !c.recorded {
		return c.audit.script(ctx, c, kind, script, deadline, left)
	}
	c.recorded = false
	in, errOut := shell.NewSink(c.Filter, shell.WordsKept, nil, nil)
	r := c.exchange(ctx, deadline, left, shell.Unit(script), &shell.Sink{}, in)
	said := errOut.Words(in)
	var how string
	script = c.conceal(script)
	switch {
	case r.Cause != nil:
		return fmt.Errorf("%s %w: %q: %w", kind, ErrScript, script, r.Cause)
	case r.Lost:
		return fmt.Errorf("%s %w: %q: %w", kind, ErrScript, script, c.lost())
	case r.Mark.Status == 0 && !r.Died:
		return nil
	case r.Mark.Status < 0:
		how = "it was killed"
	default:
		how = "exit code " + strconv.Itoa(r.Mark.Status)
	}
	return fmt.Errorf("%s %w: %q: %s: %s", kind, ErrScript, script, how, said)
}

// tell has what happens recorded. It waits for nobody.
func (c *conn) tell(kind EventKind, step Escalation, err error) {
	if c.audit != nil {
		c.audit.tell(c, kind, step, err)
	}
}

// after returns when a time that is counted from now has passed; the zero time if it is
// negative, for never.
func after(d time.Duration) time.Time {
	if d < 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}

// earlier returns the earlier of two times, of which the zero time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// exchange is [shell.Conn.Run], and notes what the unit's record is to have.
func (c *conn) exchange(ctx context.Context, deadline, left time.Time, ops []shell.Op, out, errOut *shell.Sink) shell.Reply {
	r := c.Run(ctx, deadline, left, ops, out, errOut)
	c.out += out.Came
	c.escalated(r)
	return r
}

// look is [shell.Conn.Look], and notes the same.
func (c *conn) look(ctx context.Context, left time.Time) (oomKills int, gone bool, r shell.Reply) {
	oomKills, gone, r = c.Look(ctx, left)
	c.escalated(r)
	return oomKills, gone, r
}

// escalated notes when an escalation must be done, if there was one.
func (c *conn) escalated(r shell.Reply) {
	if !r.Left.IsZero() {
		c.left = r.Left
	}
}

// lives returns the error for a container that has ended, if it has.
func (c *conn) lives() error {
	select {
	case <-c.Over():
		return c.lost()
	case <-c.Ended():
		return c.lost()
	default:
		return nil
	}
}

// lost returns the error for a container that has ended.
func (c *conn) lost() error {
	err := context.Cause(c.life)
	if err == nil {
		err = c.OwnEnd(time.Now().Add(shell.LearnTime))
	}
	if err == nil {
		return ErrEnded
	}
	return fmt.Errorf("%w: %w", ErrEnded, err)
}
