package execpolicy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/seed-64a260eb/cofferdam/internal/ours"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/truncate"
)

// A Session is a shell in isolation that stays: what a command leaves behind, the next
// one finds. Its methods may be called at the same time; commands run one at a time, in
// the order in which they came.
type Session struct {
	policy Policy
	spec   *Spec         // which fmt does not follow: it may hold secrets
	turn   chan struct{} // held by whoever talks to the worker; the runtime hands it on in the order of waiting
	life   context.Context
	close  context.CancelCauseFunc

	mu   sync.Mutex
	conn *conn

	closed   chan struct{}
	closeErr error
}

// Start opens a session. ctx bounds the start only. An error wraps [ErrInvalid] if
// nothing was started, else [ErrStart] with the cause, and then nothing is left.
//
// A program starts at most 8 sessions at a time, Restart included; more wait, and their
// [Limits.StartupTimeout] begins when their turn has come. Neither a pull of the image
// nor a startup script holds up another's start.
//
// All that is wrong with the spec is reported at once, and with the policy too if that is
// a [Checker].
func Start(ctx context.Context, p Policy, spec Spec) (*Session, error) {
	return start(ctx, p, spec, nil)
}

// Check returns what keeps [Start] from starting such a session, as far as that is known
// without starting anything; nil if that is nothing. Its error wraps [ErrInvalid] and
// says all that is wrong with the spec, and with the policy if that is a [Checker]. If
// nothing is, it may be another error of the Checker's.
func Check(ctx context.Context, p Policy, spec Spec) error {
	invalid, refused := check(ctx, p, spec, nil)
	return cmp.Or(invalid, refused)
}

// check is Check, with what is wrong with the first command. If nothing is wrong with
// that or the spec, the policy's own error is apart.
func check(ctx context.Context, p Policy, spec Spec, command error) (invalid, refused error) {
	invalid = spec.validate()
	if command != nil {
		if spec.Secrets != nil {
			command = fmt.Errorf("%w%s", ErrInvalid, strings.TrimPrefix(spec.Secrets.concealer()(command.Error()), ErrInvalid.Error()))
		}
		invalid = problems.Join(invalid, command)
	}
	if c, ok := p.(Checker); ok {
		refused = c.Check(ctx, spec.forPolicy())
	}
	// What has kept the policy from an answer is no problem of the spec.
	if invalid != nil && errors.Is(refused, ErrInvalid) {
		invalid = problems.Join(invalid, refused)
	}
	return invalid, refused
}

// start is Start for a session whose first command may be known, with what is wrong with
// that.
func start(ctx context.Context, p Policy, spec Spec, command error) (*Session, error) {
	invalid, refused := check(ctx, p, spec, command)
	if invalid != nil {
		return nil, invalid
	}
	if spec.Audit != nil {
		spec.Audit = spec.Audit.session()
	}
	if refused != nil {
		if spec.Audit != nil {
			refused = spec.Audit.await(ctx, nil, EventFailed, refused)
		}
		return nil, refused
	}
	c, err := open(ctx, p, spec)
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

// errRestart is why a session that is begun anew is ended.
var errRestart = errors.New("the session is begun anew")

// errLent is returned where a session that is lent to Spec.Prepare or Spec.Finish is to
// be ended.
var errLent = fmt.Errorf("%w: the session is not yet or no more the caller's", ErrInvalid)

// newSession makes a session, which without a policy is one that is lent.
func newSession(p Policy, spec Spec, c *conn) *Session {
	s := &Session{policy: p, spec: &spec, turn: make(chan struct{}, 1), conn: c, closed: make(chan struct{})}
	s.life, s.close = context.WithCancelCause(context.Background())
	return s
}

// Run runs one command in a session of its own. The session is closed when Run returns;
// an error that says it is not known to be gone comes beside the result.
func Run(ctx context.Context, p Policy, spec Spec, c Command) (*Result, error) {
	s, err := start(ctx, p, spec, c.validate())
	if err != nil {
		return nil, err
	}
	r, err := s.Run(ctx, c)
	return r, errors.Join(err, s.Close())
}

func (s Spec) validate() error {
	errs := multierror.Append(nil, validateEnv(s.Env)...)
	for _, w := range s.Command {
		if strings.ContainsAny(w, "\x00\n") {
			errs = multierror.Append(errs, fmt.Errorf("the shell %q holds a NUL byte or a newline", w))
		}
	}
	for _, script := range slices.Concat(s.Startup, s.Shutdown) {
		for _, err := range (Command{Script: script}).problems().WrappedErrors() {
			errs = multierror.Append(errs, fmt.Errorf("script %q: %w", script, err))
		}
	}
	return judge(errs, s.Secrets, s.Env)
}

// open spawns a process and makes a session's end of it. A cause that the policy can mend
// costs a second try.
func open(ctx context.Context, p Policy, spec Spec) (*conn, error) {
	secrets := spec.Secrets
	spec = spec.forPolicy()
	for try := 0; ; try++ {
		proc, c, err := spawn(ctx, p, spec)
		if err == nil {
			if err = c.prepare(ctx, spec, secrets); err == nil {
				return c, nil
			}
		}
		if spec.Audit != nil {
			err = spec.Audit.await(ctx, c, EventFailed, err)
		}
		if proc == nil || try > 0 || proc.Recover == nil {
			return nil, err
		}
		if mend := proc.Recover(ctx, err); mend == err {
			return nil, err
		} else if mend != nil {
			return nil, errors.Join(err, mend)
		}
	}
}

// maxStarts is how many sessions are started at a time. More would only make each of them
// slower, up to its deadline.
const maxStarts = 8

// starts holds those that are being started.
var starts = make(chan struct{}, maxStarts)

// spawn spawns a process and makes it answer, in its turn. If that fails, the process has
// been ended; without a process, nothing was spawned.
func spawn(ctx context.Context, p Policy, spec Spec) (*Process, *conn, error) {
	select {
	case starts <- struct{}{}:
		defer func() { <-starts }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrStart, context.Cause(ctx))
	}
	proc, err := p.Spawn(ctx, spec)
	if err != nil {
		return nil, nil, err
	}
	c, err := dial(ctx, proc, spec)
	return proc, c, err
}

// Name returns the name of the container, or of whatever the policy started.
//
// A person can look inside with "docker exec -it NAME sh", or podman's. What runs so has
// the container's user, limits and filter of system calls. But it is no command of the
// session: [Spec.Approve], [Spec.Filter] and [Spec.Audit] do not see it, its output is
// not searched for secrets, it does not have the session's environment, and it begins in
// the root directory. A command that is ended takes down what was started so meanwhile.
func (s *Session) Name() string { return s.current().proc.Name }

// Done returns a channel that is closed when the session has ended, for whatever reason,
// and nothing of it is left that could be removed. After Restart it returns another.
func (s *Session) Done() <-chan struct{} { return s.current().ended }

// Redact returns a text with something else in place of the values of all [Secrets] that
// the session was ever given, as its output has it: for what the caller has read out of
// files.
func (s *Session) Redact(text string) string { return s.current().conceal(text) }

func (s *Session) current() *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn
}

// acquire waits for the turn to talk to the worker.
func (s *Session) acquire(ctx context.Context) error {
	waiting := func() error {
		if s.life.Err() != nil {
			return ErrClosed
		}
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for the session's turn: %w", context.Cause(ctx))
		}
		return nil
	}
	if err := waiting(); err != nil {
		return err
	}
	select {
	case s.turn <- struct{}{}:
		// Of two that are ready, either is chosen.
		err := waiting()
		if err != nil {
			s.release()
		}
		return err
	case <-ctx.Done():
	case <-s.life.Done():
	}
	return waiting()
}

func (s *Session) release() { <-s.turn }

// bound returns a context that also ends, with the same cause, when one of the others
// does.
func bound(ctx context.Context, others ...context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stops := make([]func() bool, len(others))
	for i, other := range others {
		stops[i] = context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	}
	return ctx, func(cause error) {
		for _, stop := range stops {
			stop()
		}
		cancel(cause)
	}
}

// Run runs a command, after those that came before it, and returns when it has ended, at
// the latest [Limits.TerminationTimeout] after its deadline.
//
// A program that fails is a result, not an error, and so is a command that [Spec.Approve]
// refuses. An error without a result says that the command did not run: it wraps
// ErrInvalid, ErrClosed, ErrEnded, ErrNoDir, ErrStdinTooLong, ErrAudit, the context's
// cause, the error of a secret's Lookup, ErrTransfer if a secret's file could not be
// made, or ErrStart if the shell was lost and could not be replaced. A result beside an
// error says what is known: the error is the context's cause if the outcome is
// OutcomeCanceled, wraps ErrEnded if it is OutcomeSessionLost, wraps ErrStillThere if it
// is not known that everything is gone, wraps ErrBlocked if the output must not be seen,
// wraps ErrAudit if there is no record of how it ended, or is that of one of the
// command's writers.
func (s *Session) Run(ctx context.Context, cmd Command) (*Result, error) {
	ctx, cmd.code = ours.TakeCode(ctx)
	if err := cmd.validate(); err != nil {
		if shown := s.Redact(err.Error()); shown != err.Error() {
			// It has a secret of the session in it.
			err = fmt.Errorf("%w%s", ErrInvalid, strings.TrimPrefix(shown, ErrInvalid.Error()))
		}
		return nil, err
	}
	if err := s.acquire(ctx); err != nil {
		return nil, err
	}
	defer s.release()
	c := s.current()
	ctx, cancel := bound(ctx, s.life, c.life)
	defer cancel(nil)
	return c.run(ctx, cancel, cmd)
}

// run runs a command for the holder of the turn.
func (c *conn) run(ctx context.Context, cancel context.CancelCauseFunc, cmd Command) (*Result, error) {
	recorded := c.recorded
	c.recorded = false
	if err := c.lives(); err != nil {
		return nil, err
	}
	if c.audit != nil && !recorded {
		return c.audit.run(ctx, cancel, c, cmd)
	}
	mine := ours.Marked(ctx)
	stdin := newSpool(cmd.Stdin)
	if c.approve != nil && !mine && (cmd.code == nil || !cmd.code.Approved) {
		// What was approved is what runs, whoever else has the caller's own.
		cmd.Argv, cmd.Env = slices.Clone(cmd.Argv), maps.Clone(cmd.Env)
		if refused, err := c.ask(ctx, cmd, stdin); refused != nil || err != nil {
			return refused, err
		}
	}
	timeout := cmd.Timeout
	if timeout == 0 {
		timeout = c.limits.CommandTimeout
	}
	left := c.leftFor(timeout)
	if err := c.readyFor(ctx, left); err != nil {
		return nil, err
	}
	start := time.Now()
	deadline := after(timeout)
	if !left.IsZero() {
		// A shell that had to be replaced first counts too.
		deadline = earlier(deadline, left.Add(-c.limits.TerminationTimeout/2))
	}

	if cmd.Dir != "" && (c.dir == "" || strings.Contains(c.dir, "\n")) {
		return nil, fmt.Errorf("%w: %q: the shell's own, to which it would have to go back, has no name that can be sent", ErrNoDir, c.conceal(cmd.Dir))
	}
	items, file, err := c.upload(ctx, stdin, deadline)
	if err != nil {
		return nil, err
	}
	var end func(left time.Time)
	if cmd.Secrets != nil {
		if cmd.Env, end, err = cmd.Secrets.give(ctx, c, cmd.Env, deadline, left); err != nil {
			return nil, err
		}
	}

	text := &truncate.Transcript{MaxLines: c.limits.MaxOutputLines, MaxBytes: c.limits.MaxOutputBytes}
	first, second := cmd.Stdout, cmd.Stderr
	if same(first, second) {
		// As with os/exec, one writer for both is never called by two at the same time.
		var one sync.Mutex
		first, second = locked{&one, first}, locked{&one, second}
	}
	filter := c.filter
	if mine {
		filter = c.hide()
	}
	in, out := newSink(filter, c.limits.MaxOutputBytes, text.Stdout(), first)
	errIn, errOut := newSink(filter, c.limits.MaxOutputBytes, text.Stderr(), second)
	if cmd.OutputLimit > 0 {
		room := new(atomic.Int64)
		room.Store(cmd.OutputLimit)
		full := func() { cancel(ErrOutputLimit) }
		in.room, errIn.room, in.full, errIn.full = room, room, full, full
	}
	exchange := func(before []item) reply {
		return c.exchange(ctx, deadline, left, append(before, item{data: cmd.unit(c.dir, file).Ops()}), in, errIn)
	}
	r := exchange(items)
	if r.cause == nil && r.mark.NotRun && in.came+errIn.came == 0 {
		// The command before this one had killed the shell as it ended, which shows only
		// now.
		c.unsaid = true
		if err := c.readyFor(ctx, left); err != nil {
			done := make(chan struct{})
			close(done)
			in.finish(done)
			errIn.finish(done)
			if end != nil {
				end(time.Time{})
			}
			return nil, err
		}
		r = exchange(nil)
	}
	res := &Result{
		ExitCode: -1, Duration: time.Since(start), Timeout: timeout, Cause: r.cause, Escalation: r.step, Gone: r.gone,
		OOMBefore: c.oomKills, OOMAfter: r.oomAfter, Dir: c.dir, text: text,
	}
	c.out += errIn.came
	errs := c.judge(ctx, res, r, cmd.Dir != "", left)
	if end != nil {
		end(r.left)
	}

	// The writers have the rest of the time to take the rest.
	flush, done := context.WithDeadline(context.Background(), c.flushBy(r, deadline))
	defer done()
	for _, k := range []*sink{in, errIn} {
		if err := k.finish(flush.Done()); err != nil {
			errs = append(errs, fmt.Errorf("writing the output: %w", err))
		}
		if res.blocked == nil {
			res.blocked = k.failed
		}
	}
	if r.mark.NoDir {
		c.late += in.came + errIn.came
		return nil, fmt.Errorf("%w: %q", ErrNoDir, c.conceal(cmd.Dir))
	}
	text.Close()
	if res.blocked != nil {
		res.text = nil
		errs = append(errs, fmt.Errorf("%w: %w", ErrBlocked, res.blocked))
	} else {
		res.Stdout, res.StdoutInfo = out.taken()
		res.Stderr, res.StderrInfo = errOut.taken()
	}
	res.BackgroundBytes, c.late = c.late, 0
	res.Dir = c.conceal(res.Dir)
	return res, errors.Join(errs...)
}

// lives returns the error for a container that has ended, if it has.
func (c *conn) lives() error {
	select {
	case <-c.over:
		return c.lost()
	case <-c.ended:
		return c.lost()
	default:
		return nil
	}
}

// leave returns what f does, or the cause of the context if that ends first; then f,
// which is the caller's own, is left behind.
func leave(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
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

// flushBy returns how long a command's writers may take.
func (c *conn) flushBy(r reply, deadline time.Time) time.Time {
	const grace = 250 * time.Millisecond
	switch {
	case r.cause != nil:
		return after(min(grace, c.limits.TerminationTimeout/8))
	case deadline.IsZero() || time.Until(deadline) > c.limits.TerminationTimeout:
		return after(c.limits.TerminationTimeout)
	}
	// At least a moment: it may have ended at its deadline.
	return deadline.Add(min(grace, c.limits.TerminationTimeout/8))
}

// judge says how the command ended. What the library did stands first, then what the
// kernel did, then what the shell said.
func (c *conn) judge(ctx context.Context, res *Result, r reply, moved bool, left time.Time) []error {
	var errs []error
	if r.endErr != nil {
		errs = append(errs, r.endErr)
	}
	if r.died || r.lost {
		res.Dir = ""
	}
	res.StateLost = r.died || r.lost || c.unsaid
	res.ended = r.lost
	c.unsaid = false
	if r.mark.Kind == shellwire.End && !r.died && !moved {
		c.dir = r.mark.Dir
		res.Dir = c.dir
	}
	end := ending{cause: r.cause, lost: r.lost, status: r.mark.Status, signal: r.mark.Signal}
	switch {
	case r.cause != nil:
		if !r.gone && !r.unsent && c.proc.OwnPIDNamespace && r.endErr == nil {
			errs = append(errs, fmt.Errorf("%s: processes of the command: %w", c.proc.Name, ErrStillThere))
		}
	case r.lost:
		// What could not say whether the container is there knows nothing of its end
		// either.
		end.oom = r.endErr == nil && c.oomKilled(r.left)
	case r.mark.Status != 0 && !r.mark.NoDir && c.oomKills >= 0:
		var l reply
		res.OOMAfter, _, l = c.look(ctx, earlier(after(c.limits.TerminationTimeout), left))
		if l.lost || l.died {
			res.Dir, res.StateLost = "", true
		}
		res.ended = l.lost
		end.oom = res.OOMAfter > res.OOMBefore || l.lost && l.endErr == nil && c.oomKilled(l.left)
		if l.endErr != nil {
			errs = append(errs, l.endErr)
		}
	}
	if res.OOMAfter >= 0 {
		c.oomKills = res.OOMAfter
	}
	res.Outcome = end.outcome()
	switch res.Outcome {
	case OutcomeCanceled:
		errs = append(errs, r.cause)
	case OutcomeSessionLost, OutcomeOOMKilled:
		if r.lost {
			errs = append(errs, c.lost())
		}
	case OutcomeSignaled:
		res.Signal = cmp.Or(r.mark.Signal, sigkill)
	case OutcomeExited:
		res.ExitCode = r.mark.Status
	}
	return errs
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

// outcome is the order of [Outcome].
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

// taken returns what was kept and counted. Nothing may be written, nor taken once more.
func (k *sink) taken() ([]byte, StreamInfo) {
	b := &k.kept
	head, tail := b.Head(), b.Tail()
	info := StreamInfo{Bytes: b.Total(), Lines: b.Lines(), DroppedBytes: b.Dropped(), DroppedLines: b.DroppedLines(), Cut: len(head)}
	// A large output keeps the buffer's own memory, in which both lie.
	if 2*(len(head)+len(tail)) > cap(head) {
		return slices.Clip(append(head, tail...)), info
	}
	return b.Bytes(), info
}

// upload reads a command's stdin, and returns what sends it into a file inside, and the
// file's name.
func (c *conn) upload(ctx context.Context, stdin *spool, deadline time.Time) ([]item, string, error) {
	if stdin == nil {
		return nil, "", nil
	}
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, deadline, ErrTimeout)
		defer cancel()
	}
	read := make(chan []byte, 1)
	err := leave(ctx, func() error {
		data, err := stdin.all(ctx)
		read <- data
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("reading stdin: %w", err)
	}
	got := <-read
	c.in = int64(len(got))
	switch {
	case len(got) > MaxStdin:
		return nil, "", fmt.Errorf("%w: more than %d bytes", ErrStdinTooLong, MaxStdin)
	case len(got) == 0:
		return nil, "", nil
	}
	name := "i" + token()
	data := slices.Concat(shellwire.Upload(name, int64(len(got))), got, []byte(shellwire.Thaw))
	return []item{{data: data, raw: true}}, c.proc.Scratch + "/" + name, nil
}

// Restart ends the container, if it still runs, and begins the session anew with the same
// spec: no state is left, nor any file but those of a mounted workspace, and startup
// scripts run again. If it fails the session has ended, and Restart may be tried again.
func (s *Session) Restart(ctx context.Context) error {
	if s.policy == nil {
		return errLent
	}
	if err := s.acquire(ctx); err != nil {
		return err
	}
	defer s.release()
	ctx, cancel := bound(ctx, s.life)
	defer cancel(nil)
	c := s.current()
	c.tell(eventEnding, 0, errRestart)
	if err := c.end(c.limits.TerminationTimeout); err != nil {
		return err
	}
	spec := *s.spec
	if k := c.known.Load(); k != nil {
		spec.Secrets = k.again(spec.Secrets)
	}
	c, err := open(ctx, s.policy, spec)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.conn = c
	s.mu.Unlock()
	return nil
}

// Close ends the command that runs, if any, runs the shutdown scripts, calls Spec.Finish,
// ends the container and returns when it is gone, at the latest
// [Limits.TerminationTimeout] after the last deadline. The error names scripts that
// failed, has that of Finish, wraps ErrStillThere if it is not known that everything is
// gone, and ErrAudit if records were lost. Closing again waits for the same end and
// returns the same error.
func (s *Session) Close() error {
	if s.policy == nil {
		return errLent
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
	begin := time.Now()
	s.turn <- struct{}{}
	defer s.release()
	c := s.current()
	err := c.shutdown(s.spec.Shutdown)
	if s.spec.Finish != nil {
		err = errors.Join(err, c.lend(context.Background(), s.spec.Finish, c.closeTimeout()))
	}
	c.tell(eventEnding, 0, ErrClosed)
	s.closeErr = errors.Join(err, c.endSince(begin))
	if c.audit != nil {
		s.closeErr = c.audit.await(context.Background(), c, eventEnding, s.closeErr)
	}
	return s.closeErr
}

// shutdown runs all of the scripts, if the container lives.
func (c *conn) shutdown(scripts []string) error {
	var errs []error
	for _, script := range scripts {
		select {
		case <-c.over:
			return errors.Join(errs...)
		default:
		}
		err := c.ready(context.Background(), after(c.limits.StartupTimeout), time.Time{})
		if err == nil {
			err = c.script(context.Background(), "shutdown", script, after(c.closeTimeout()), time.Time{})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// closeTimeout is how long each thing may take that is done before the end. A Close
// without an end would be worse than a limit.
func (c *conn) closeTimeout() time.Duration {
	if c.limits.CommandTimeout < 0 {
		return defaultCommandTimeout
	}
	return c.limits.CommandTimeout
}
