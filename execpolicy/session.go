package execpolicy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/environ"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/secret"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/internal/turn"
)

// A Session is a shell in isolation that keeps its state: a command finds what the
// commands before it left behind. Its methods are safe for concurrent use. Commands
// run one at a time, in the order in which Run was called.
type Session struct {
	policy Policy
	spec   *Spec     // which fmt does not follow: it may hold secrets
	turn   turn.Turn // of whoever talks to the worker
	life   context.Context
	close  context.CancelCauseFunc

	mu   sync.Mutex
	conn *conn
	// both ends with life and with the conn's. It is the turn's, as leave is, which ends
	// it alone.
	both  context.Context
	leave context.CancelCauseFunc

	closed   chan struct{}
	closeErr error
}

// Start opens a session. ctx bounds the start only.
//
// A program starts at most 8 sessions at a time, Restart included. More wait, and their
// [Limits.StartupTimeout] begins when their turn has come. Neither the pull of a missing
// image, nor [Process.Ready], nor a startup script holds up another's start. A pull that
// [dockercli.PullAlways] asks for is a part of the start.
//
// The error says how far the start came. It wraps one of these:
//
//   - [ErrInvalid], if the policy or the spec is at fault. All that is wrong with the
//     spec is in one error, and with the policy too if that is a [Checker]. Nothing was
//     started.
//   - The error of the policy's Check or Spawn, which may be neither ErrInvalid nor
//     ErrStart: that of a [DockerPolicy] is [dockercli.ErrNoEngine] if there is no
//     engine. Nothing was started.
//   - [ErrAudit], if [Spec.Audit] did not take the record of a spawn. [ErrStart] stands
//     beside it if that spawn was to look up the number of [DockerPolicy.User]. What was
//     started before is gone.
//   - [ErrStart], with the cause, in every other case: the engine's error, that of
//     [Spec.Prepare], a startup script's or the cause of ctx. What was started is gone,
//     unless the error also wraps [ErrStillThere].
func Start(ctx context.Context, p Policy, spec Spec) (*Session, error) {
	return start(ctx, p, spec, nil)
}

// Check reports why [Start] would fail, as far as that is known without starting
// anything. It returns nil if it found no reason. Its error wraps [ErrInvalid] and says
// all that is wrong with the spec, and with the policy if that is a [Checker]. If nothing
// is wrong with them, it may be another error of the Checker's, such as
// [dockercli.ErrNoEngine].
func Check(ctx context.Context, p Policy, spec Spec) error {
	invalid, refused := check(ctx, p, spec, nil)
	return cmp.Or(invalid, refused)
}

// check is Check for a session whose first command may be known; command is what is wrong
// with it. If the spec and the command are valid, the policy's own error is refused.
func check(ctx context.Context, p Policy, spec Spec, command error) (invalid, refused error) {
	invalid = spec.validate()
	hide := addValues(nil, spec.Secrets).Redact
	if command != nil {
		invalid = problems.Join(invalid, problems.Redact(command, hide))
	}
	if c, ok := p.(Checker); ok {
		refused = problems.Redact(c.Check(ctx, spec.forPolicy()), hide)
	}
	// An error that kept the policy from answering is not a problem of the spec.
	if invalid != nil && errors.Is(refused, ErrInvalid) {
		invalid = problems.Join(invalid, refused)
	}
	return invalid, refused
}

// start is Start for a session whose first command may be known; command is what is wrong
// with it.
func start(ctx context.Context, p Policy, spec Spec, command error) (*Session, error) {
	invalid, refused := check(ctx, p, spec, command)
	if invalid != nil {
		return nil, invalid
	}
	spec.auditor = newAuditor(spec.Audit)
	if refused != nil {
		return nil, spec.auditor.failed(nil, refused)
	}
	c, err := open(ctx, p, spec, nil)
	if err != nil {
		return nil, err
	}
	return newSession(p, spec, c), nil
}

// forPolicy returns the spec as a policy gets it, which is to put no secrets anywhere.
func (s Spec) forPolicy() Spec {
	s.Supervisor, s.Secrets = shellwire.Boot(), nil
	return s
}

// errBorrowed is returned where a session that is borrowed by Spec.Prepare or Spec.Finish
// is to be ended.
var errBorrowed = fmt.Errorf("%w: Prepare and Finish only borrow the session, which they can neither close nor restart", ErrInvalid)

// newSession makes a session around a conn. Without a policy it is a borrowed one.
func newSession(p Policy, spec Spec, c *conn) *Session {
	s := &Session{policy: p, spec: &spec, turn: turn.New(1), closed: make(chan struct{})}
	s.life, s.close = context.WithCancelCause(context.Background())
	s.use(c)
	return s
}

// use makes a conn the session's.
func (s *Session) use(c *conn) {
	if s.leave != nil {
		s.leave(nil)
	}
	s.both, s.leave = bound.By(c.life, s.life)
	c.session = s.life
	s.mu.Lock()
	s.conn = c
	s.mu.Unlock()
}

func (s Spec) validate() error {
	found := environ.Check(s.Env)
	for _, w := range s.Command {
		if strings.ContainsAny(w, "\x00\n") {
			found.Add("the shell %q holds a NUL byte or a newline", w)
		}
	}
	scripts := func(name string, all []string) {
		for i, script := range all {
			for _, err := range (Command{Script: script}).problems() {
				found.Add("%s[%d]: %w", name, i, err)
			}
		}
	}
	scripts("Startup", s.Startup)
	scripts("Shutdown", s.Shutdown)
	return problems.Join(validateSecrets(found, s.Secrets, s.Env)...)
}

// open spawns a process and connects a session to it. If that fails for a cause that
// [Process.Recover] removes, it tries again. The values of the session's old conn, which
// may be nil, and those of the spec's secrets are redacted from the start. With an error
// that wraps ErrStillThere comes the conn of what may still be there.
func open(ctx context.Context, p Policy, spec Spec, old *conn) (*conn, error) {
	secrets := spec.Secrets
	var values *secret.Values
	if old != nil {
		values = old.redactor.Values()
	}
	values = addValues(values, secrets)
	spec = spec.forPolicy()
	if spec.auditor != nil {
		spec.auditor.values = values
	}
	for try := 0; ; try++ {
		c, err := spawn(ctx, p, spec, values)
		answered := err == nil
		if answered {
			err = c.openWay()
		}
		// A policy is not told what is secret.
		if err = problems.Redact(err, values.Redact); err == nil {
			err = c.prepare(ctx, spec, secrets)
		}
		if err == nil {
			return c, nil
		}
		err = spec.auditor.failed(c, err)
		if c == nil {
			return nil, err
		}
		if old != nil {
			// What was looked up may be in the workspace by now.
			old.redactor.Set(c.redactor.Values())
		}
		// What may still be there is told, whatever another try brings. What has answered
		// has failed for a cause of the caller's own.
		if errors.Is(err, ErrStillThere) {
			return c, err
		}
		if answered || try == maxRecoveries || c.proc.Recover == nil {
			return nil, err
		}
		if recoverErr := c.proc.Recover(ctx, err); recoverErr == err {
			return nil, err
		} else if recoverErr != nil {
			return nil, errors.Join(err, problems.Redact(recoverErr, values.Redact))
		}
	}
}

// maxRecoveries is how many times Process.Recover is called in one start: for an image
// that is missing, for example, and for a transport that does not carry.
const maxRecoveries = 2

// maxStarts is how many sessions are started at a time. More would only make each of them
// slower, up to its deadline.
const maxStarts = 8

// starts is the turn of those that are being started.
var starts = turn.New(maxStarts)

// spawn spawns a process and makes it answer, in its turn. If that fails, the process has
// been ended; without a conn, nothing was spawned.
func spawn(ctx context.Context, p Policy, spec Spec, values *secret.Values) (*conn, error) {
	if err := starts.Take(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	inTurn := true
	// A policy may panic, and its caller may recover.
	defer func() {
		if inTurn {
			starts.Give()
		}
	}()
	proc, err := p.Spawn(ctx, spec)
	if err != nil {
		return nil, err
	}
	c := connect(proc, spec, values)
	if proc.Ready != nil {
		starts.Give()
		inTurn = false
		err := c.wait(ctx)
		if err == nil {
			err = starts.Take(ctx)
		}
		if err != nil {
			return c, c.failed(err)
		}
		inTurn = true
	}
	if err := c.dial(ctx); err != nil {
		return c, c.failed(err)
	}
	return c, nil
}

// Name returns the name of the container, or of whatever the policy started.
//
// A person can look inside with "docker exec -it NAME sh", or with podman's exec. What
// runs that way has the container's user, limits and seccomp filter. But it is not a
// command of the session: [Spec.Approve], [Spec.Filter] and [Spec.Audit] do not see it,
// its output is not searched for secrets, it does not have the session's environment, and
// it begins in the root directory. When a command is ended, whatever a person has started
// since that command began is killed with it.
func (s *Session) Name() string { return s.current().proc.Name }

// Transport returns what carries the session's streams: TransportAttach or TransportFIFO
// for a container, else TransportAuto. After Restart it may be another.
func (s *Session) Transport() Transport { return s.current().proc.Transport }

// Done returns a channel that is closed when the session has ended, for whatever reason,
// and its container was removed or could not be removed within
// [Limits.TerminationTimeout]. After Restart it returns another.
func (s *Session) Done() <-chan struct{} { return s.current().CleanedUp() }

// Redact returns the text with "[secret NAME]" in place of the values of all secrets that
// the session was ever given. It is for what the caller has read out of files.
func (s *Session) Redact(text string) string { return s.current().redact(text) }

func (s *Session) current() *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn
}

// acquire waits for the turn to talk to the worker.
func (s *Session) acquire(ctx context.Context) error {
	if ctx.Err() == nil && s.turn.TryTake() {
		if s.life.Err() != nil {
			s.release()
			return ErrClosed
		}
		return nil
	}
	ctx, cancel := bound.By(ctx, s.life)
	defer cancel(nil)
	err := s.turn.Take(ctx)
	switch {
	case s.life.Err() != nil:
		if err == nil {
			s.release()
		}
		return ErrClosed
	case err != nil:
		return fmt.Errorf("waiting for the session's turn: %w", err)
	}
	return nil
}

func (s *Session) release() { s.turn.Give() }

// Restart takes its turn as a command does, ends the container, if it still runs, and
// begins the session anew with the same spec. No variable and no background job is left,
// and no file but those in a mounted workspace and in [DockerPolicy.Mounts].
// [Spec.Prepare] is called again, and the startup scripts run again. [Spec.Finish] is not
// called, and the shutdown scripts do not run.
//
// If ctx ends before the turn of Restart has come, the session goes on, and the error
// wraps the cause of ctx. A session that Prepare or Finish borrows goes on, too: the
// error wraps ErrInvalid. After any other error the session has ended. It wraps ErrClosed
// if the session was closed; else Restart may be tried again. It wraps ErrStillThere if
// the old container is not known to be gone, or is one of those of [Start]. If the new
// container is not known to be gone, the session has its name.
func (s *Session) Restart(ctx context.Context) error {
	if s.policy == nil {
		return errBorrowed
	}
	if err := s.acquire(ctx); err != nil {
		return err
	}
	defer s.release()
	ctx, cancel := bound.By(ctx, s.life)
	defer cancel(nil)
	c := s.current()
	c.audit.ending(errRestart)
	c.endJobs(errRestart)
	if err := c.End(c.limits.TerminationTimeout); err != nil {
		return err
	}
	// Their results would be the next container's.
	c.jobs.Wait(c.limits.TerminationTimeout / 4)
	c, err := open(ctx, s.policy, *s.spec, c)
	if c != nil {
		// If it has failed, Close and another Restart try again to end it.
		s.use(c)
	}
	return err
}

// Close ends the command that runs, if any, runs the shutdown scripts, calls
// [Spec.Finish] and ends the container. It returns when the container is gone, at the
// latest [Limits.TerminationTimeout] after the last deadline of these. The error names
// the scripts that failed and wraps the error of Finish. It wraps [ErrStillThere] if it
// is not known that everything is gone, and [ErrAudit] if records were lost. A second
// Close waits for the first one and returns the same error.
func (s *Session) Close() error {
	if s.policy == nil {
		return errBorrowed
	}
	s.mu.Lock()
	first := s.life.Err() == nil
	s.close(ErrClosed)
	s.mu.Unlock()
	if !first {
		<-s.closed
		return s.closeErr
	}
	defer close(s.closed)
	begin, finished := time.Now(), false
	defer func() {
		if !finished {
			// Finish has panicked, and a caller that recovers may call Close again.
			s.closeErr = s.current().EndSince(begin)
		}
	}()
	s.turn.Take(context.Background())
	defer s.release()
	c := s.current()
	err := c.shutdown(s.spec.Shutdown)
	if s.spec.Finish != nil {
		err = errors.Join(err, c.borrow(context.Background(), s.spec.Finish, c.closeTimeout()))
	}
	c.audit.ending(ErrClosed)
	c.endJobs(ErrClosed)
	err = errors.Join(err, c.EndSince(begin))
	c.jobs.Wait(c.limits.TerminationTimeout / 4)
	s.closeErr, finished = c.audit.closed(c, err), true
	return s.closeErr
}

// borrow calls f with a session of its own around the conn. It returns once that session
// is idle.
func (c *conn) borrow(ctx context.Context, f func(context.Context, *Session) error, timeout time.Duration) error {
	if timeout >= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	// What f leaves running ends as at a timeout, and not with the process.
	defer func(s context.Context, orderly bool) { c.session, c.endsInOrder = s, orderly }(c.session, c.endsInOrder)
	c.endsInOrder = true
	s := newSession(nil, Spec{}, c)
	c.approve = nil // what f does is the caller's own
	defer func() {
		s.close(ErrClosed)
		s.turn.Take(context.Background())
	}()
	return c.call(func() error { return f(ctx, s) })
}
