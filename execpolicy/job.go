package execpolicy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/secret"
	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/truncate"
)

// A Job is a command that runs beside the commands of its session. [Session.StartJob]
// starts one. Its methods are safe for concurrent use.
type Job struct {
	job      *shell.Job
	stdin    *countedStdin
	out      shell.Output
	redactor *secret.Redactor
	cancel   context.CancelCauseFunc
	done     chan struct{}

	taking sync.Mutex // of what is kept
	kept   *Result    // what out has kept, which it has no more; nil before

	// These are set before done is closed.
	result *Result
	err    error
}

// StartJob starts a command beside the session's others, in the same container, and
// returns when it begins. It does not wait for a command that runs, unless the job has
// Secrets: those are given when the session's turn has come. ctx bounds the start only.
//
// A job has streams of its own, which are kept, counted, redacted, filtered and recorded
// as a command's are, and [Spec.Approve] is asked about it. It has a shell of its own for
// a Script, which begins with the session's environment, in the directory where the last
// command has left the session's shell. It knows no variable, function or export of that
// shell, and leaves it none. No startup script runs for it.
//
// These fields of [Command] differ for a job:
//
//   - Stdin is copied to the job as it comes, and is not bounded. If it fails, the job's
//     stdin ends there, and Wait returns its error with the result. A Read that waits may
//     go on when the job has ended. If Stdin is nil, the job's stdin is [Job.Stdin], and
//     does not end before that is closed.
//   - Timeout has no default: if it is not positive, the job runs until it ends, or its
//     session does.
//   - Usage must not be set: the kernel counts for the whole container.
//   - Stdout and Stderr hold up neither Kill nor a Timeout nor the end of the session.
//     But over the engine's client, docker may not see that the container has ended while
//     a Write to one of them waits.
//
// A job ends with its session: when that is closed, restarted or expired, and when this
// program ends, however it does. It is a command like any other for the container's
// limits. Jobs and commands are not isolated from each other: they run as one user, and
// can read, signal and end each other. A session is one level of trust.
//
// A command that is ended leaves jobs alone, and so does a shell that is replaced. A file
// transfer, and the sending of a long command, stop jobs meanwhile, as they stop
// everything else. Podman's client hands the session nothing while a Write to a command's
// Stdout or Stderr waits: then no job can start, be signaled or be ended, and what is to
// do that fails in time.
//
// The error wraps one of these, and nothing of the job runs:
//
//   - ErrInvalid: the command is not a valid one for a job.
//   - ErrNoJobs: the policy has no jobs.
//   - ErrTooManyJobs: the session has [MaxJobs].
//   - ErrRefused: [Spec.Approve] has refused it.
//   - ErrClosed: the session was closed.
//   - ErrEnded: the session has ended, along with ErrExpired if its lifetime is over, or
//     is restarted meanwhile.
//   - ErrNoDir: [Command.Dir] can't be entered, or is not absolute while the name of the
//     shell's own directory is not known: see [Result.Dir].
//   - ErrStart: it did not begin within [Limits.StartupTimeout], or what was to run it
//     has ended. What was started may take [Limits.TerminationTimeout] to end on top of
//     that.
//   - ErrAudit: [Spec.Audit] did not take its record.
//   - ErrTransfer: a secret's file could not be made.
//   - The error of a secret's Lookup, what is wrong with the value that it returned, or
//     the cause of ctx.
//
// It also wraps ErrStillThere if it is not known that all that was started is gone.
func (s *Session) StartJob(ctx context.Context, cmd Command) (*Job, error) {
	if err := cmd.validateJob(); err != nil {
		return nil, problems.Redact(err, s.Redact)
	}
	if s.life.Err() != nil {
		return nil, ErrClosed
	}
	c := s.current()
	if err := c.lives(); err != nil {
		return nil, err
	}
	if c.proc.Exec == nil || !c.proc.OwnPIDNamespace {
		return nil, ErrNoJobs
	}
	if !c.jobs.Take() {
		return nil, ErrTooManyJobs
	}
	cmd.Timeout = max(cmd.Timeout, 0)
	if cmd.Timeout == 0 {
		cmd.Timeout = -1
	}
	ctx, leave := bound.By(ctx, s.life)
	defer leave(nil)
	ctx, cancel := bound.By(ctx, c.jobLife)
	defer cancel(nil)
	var j *Job
	// A caller's Audit or Approve may panic.
	defer func() {
		if j == nil {
			c.jobs.Give()
		}
	}()
	event, err := c.audit.beginJob(ctx, c, cmd)
	if err == nil {
		j, err = s.startJob(ctx, c, cmd, event)
	}
	if err == nil {
		return j, nil
	}
	// Why it did not begin may be only what came of that.
	of := func(target error) bool { return errors.Is(err, target) }
	switch {
	case s.life.Err() != nil && (of(ErrClosed) || of(ErrEnded) || of(ErrStart)) && !of(ErrStillThere):
		err = ErrClosed
	case of(ErrStart) && !of(ErrEnded) && c.hasEnded():
		err = errors.Join(c.lost(), err)
	}
	return nil, c.audit.finishJob(c, event, nil, tally{}, c.expired(err))
}

// startJob starts a job that has its record.
func (s *Session) startJob(ctx context.Context, c *conn, cmd Command, event *Event) (*Job, error) {
	cmd.Argv, cmd.Env = slices.Clone(cmd.Argv), maps.Clone(cmd.Env)
	if err := s.approveJob(ctx, c, cmd); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, positive(c.limits.StartupTimeout),
		fmt.Errorf("%w: the job did not begin in time: %w", ErrStart, context.DeadlineExceeded))
	defer cancel()
	wire, err := s.jobText(ctx, c, cmd)
	if err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		proc, err := c.proc.Exec(ctx, shellwire.Boot())
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrStart, err)
		}
		x := &jobRun{c: c, cmd: cmd, proc: proc, event: event, start: time.Now(), fed: make(chan error, 1)}
		err = x.begin(ctx, wire)
		if err == nil {
			return x.Job, nil
		}
		// A shell that was never heard was told no command.
		again := try < maxRecoveries && proc.Recover != nil && errors.Is(err, shell.ErrUnheard) && !errors.Is(err, ErrStillThere)
		if !again || proc.Recover(ctx, err) != nil {
			return nil, err
		}
	}
}

// positive returns a time that a start may take.
func positive(d time.Duration) time.Duration {
	if d < 0 {
		return 1 << 62
	}
	return d
}

// approveJob waits for the caller's word on a job.
func (s *Session) approveJob(ctx context.Context, c *conn, cmd Command) error {
	approve := s.spec.Approve
	if approve == nil {
		return nil
	}
	r := c.request(cmd, nil)
	r.Job = true
	refused, err := c.answer(ctx, approve, r, cmd.Secrets, nil)
	return cmp.Or(refused, err)
}

// jobText returns what is sent to a job's keeper.
func (s *Session) jobText(ctx context.Context, c *conn, cmd Command) (shellwire.Job, error) {
	wire := shellwire.Job{Scratch: c.proc.Scratch, Worker: c.proc.Worker, Script: cmd.Script, Argv: cmd.Argv, Dir: cmd.Dir}
	// The keeper begins where the shell did.
	if at := c.Dir(); !strings.HasPrefix(wire.Dir, "/") {
		switch {
		case at == "":
			return wire, fmt.Errorf("%w: the name of the shell's own directory is not known; set Dir to an absolute path", ErrNoDir)
		case wire.Dir == "":
			wire.Dir = at
		default:
			wire.Dir = at + "/" + wire.Dir
		}
	}
	env := maps.Clone(c.env)
	maps.Copy(env, cmd.Env)
	if len(cmd.Secrets) > 0 {
		// Whatever runs from now on is to be searched for them.
		if err := s.acquire(ctx); err != nil {
			return wire, err
		}
		secrets, err := c.fetch(ctx, cmd.Secrets, bound.After(c.limits.StartupTimeout), env)
		s.release()
		if err != nil {
			return wire, err
		}
		for _, secret := range secrets {
			if secret.File {
				wire.Files = append(wire.Files, shellwire.File{Name: env[secret.Name], Text: secret.Value})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		wire.Env = append(wire.Env, name+"="+env[name])
	}
	return wire, nil
}

// isEnding reports whether a cause of a job's end ends its process too.
func isEnding(cause error) bool {
	return cause == ErrClosed || cause == ErrExpired || cause == errRestart
}

// Stdin returns the job's live stdin. What is written to it waits for the job to read it,
// in a buffer of the kernel's of 64 KiB or less; a Write waits while that is full. Close
// ends the job's stdin, and a Write that waits. When the job has ended, a Write fails. If
// [Command.Stdin] was given, nothing else may be written.
func (j *Job) Stdin() io.WriteCloser { return j.stdin }

// Output returns what is kept of the job's output so far. Of the Result only Stdout,
// Stderr and what counts them are set, and nothing if [Spec.Filter] has blocked them.
// [Result.Render] shows it; [Result.Text] has no output.
func (j *Job) Output() *Result {
	j.taking.Lock()
	defer j.taking.Unlock()
	r := &Result{values: j.redactor.Values()}
	switch {
	case j.kept != nil:
		r.Stdout, r.StdoutInfo = slices.Clone(j.kept.Stdout), j.kept.StdoutInfo
		r.Stderr, r.StderrInfo = slices.Clone(j.kept.Stderr), j.kept.StderrInfo
	case j.out.Blocked() == nil:
		stdout, stderr := j.out.Kept()
		stdout.Look(func(b *truncate.Buffer) { r.Stdout, r.StdoutInfo = b.Bytes(), streamInfo(b) })
		stderr.Look(func(b *truncate.Buffer) { r.Stderr, r.StderrInfo = b.Bytes(), streamInfo(b) })
	}
	return r
}

// Done returns a channel that is closed when the job has ended and its Result is there.
func (j *Job) Done() <-chan struct{} { return j.done }

// Wait returns how the job has ended, once it has. ctx bounds the wait only: if it ends
// first, there is no result, and the error is its cause. The result and the error are
// those of [Session.Run], except that Dir and StateLost mean nothing, and that OOMAfter
// is known only if the job has ended with status 137.
//
// Gone has a narrower meaning for a job. It says that process 1 has looked while
// everything inside was stopped, and has found none of the job's processes. Those are the
// ones whose chain of parents leads to the job or, where the image has setsid, that are
// in the same Unix session as such a process, as daemons are. A process that has made a
// Unix session of its own and whose parent has ended can't be told from others, and ends
// with the session. A job that ends by itself leaves what it has started in the
// background. If the shell that sees to the job is killed, the library kills what is left
// of the job, and Gone says what was seen of that. A slow [Command.Stdout] of the
// session's own command may keep it from being seen.
func (j *Job) Wait(ctx context.Context) (*Result, error) {
	select {
	case <-j.done:
		return j.result, j.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// jobSignals are those that a job can be sent: they do not stop it, because all that is
// stopped inside goes on whenever a command is ended.
var jobSignals = []string{"SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGTERM", "SIGWINCH"}

// Signal sends a signal to all processes of the job, and returns when it was sent. name
// is SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM or SIGWINCH: the numbers
// differ between systems. A program gets SIGINT and SIGQUIT only if it asks for them,
// since a shell starts a job in the background.
//
// The error wraps ErrInvalid if the signal is none of these, and [ErrJobEnded] if the job
// has ended or is being ended. Any other error says that the signal is not known to have
// been sent.
func (j *Job) Signal(ctx context.Context, name string) error {
	if !slices.Contains(jobSignals, name) {
		return fmt.Errorf("%w: %q is not one of the signals %s; Job.Kill sends SIGKILL", ErrInvalid, name, strings.Join(jobSignals, ", "))
	}
	select {
	case <-j.done:
		return ErrJobEnded
	default:
	}
	err := j.job.Signal(ctx, strings.TrimPrefix(name, "SIG"))
	if errors.Is(err, shell.ErrNoKeeper) || errors.Is(err, shell.ErrEarly) {
		return ErrJobEnded
	}
	if err != nil {
		return fmt.Errorf("%s is not known to have been sent: %w", name, err)
	}
	return nil
}

// Kill ends the job, unless it has ended: it sends SIGTERM to all processes of the job,
// and SIGKILL to what is left of them after 250 ms, or after an eighth of
// [Limits.TerminationTimeout] if that is shorter. Kill returns when the job is over, at
// the latest TerminationTimeout later. If ctx ends first, Kill returns its cause, and the
// job is ended all the same. The outcome of a job that Kill has ended is
// [OutcomeCanceled] with the cause [ErrKilled], and Gone says what was proved. The error
// wraps ErrStillThere if something may be left.
func (j *Job) Kill(ctx context.Context) error {
	j.cancel(ErrKilled)
	_, err := j.Wait(ctx)
	select {
	case <-j.done:
		// Wait may have seen the end of ctx all the same.
		if err = j.err; !errors.Is(err, ErrStillThere) {
			return nil
		}
	default:
	}
	return err
}

// validateJob is validate for a job.
func (c Command) validateJob() error {
	found := c.problems()
	if c.Usage {
		found.Add("a job's Usage can't be told from its session's")
	}
	return problems.Join(validateSecrets(found, c.Secrets, c.Env)...)
}
