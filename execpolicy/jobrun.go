package execpolicy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
)

// A jobRun is a job that is being run.
type jobRun struct {
	*Job
	c     *conn
	cmd   Command
	proc  *Process
	event *Event
	start time.Time
	fed   chan error // the error of Command.Stdin, once that has ended
}

// A source is a job's stdin. It keeps the error of its Reader.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != io.EOF {
		s.err = err
	}
	return n, err
}

// feed copies the caller's Stdin to the job.
func (x *jobRun) feed() {
	from := source{Reader: x.cmd.Stdin}
	io.Copy(x.stdin, &from)
	x.fed <- from.err
	x.stdin.Close()
}

// A countedStdin counts what was written to a job's stdin.
type countedStdin struct {
	io.WriteCloser
	n atomic.Int64
}

func (s *countedStdin) Write(p []byte) (int, error) {
	n, err := s.WriteCloser.Write(p)
	s.n.Add(int64(n))
	return n, err
}

// begin returns when the command begins, or when nothing is left of it.
func (x *jobRun) begin(ctx context.Context, wire shellwire.Job) (err error) {
	c := x.c
	x.Job = &Job{stdin: &countedStdin{WriteCloser: x.proc.Stdin}, redactor: &c.redactor, done: make(chan struct{})}
	life, cancel := context.WithCancelCause(c.jobLife)
	x.cancel = cancel
	x.out = c.newOutput(x.cmd, c.jobFilter, cancel)
	x.job, err = c.StartJob(ctx, shell.JobOptions{
		Job: wire, Stdin: x.proc.Stdin, Stdout: x.proc.Stdout, Stderr: x.proc.Stderr, Inside: x.proc.inside,
		Out: x.out.Stdout, ErrOut: x.out.Stderr, Ending: isEnding, Filter: c.redactor.Writer,
	})
	if err != nil {
		cancel(nil)
		err = errors.Join(x.jobError(ctx, err), x.abandon(time.Time{}))
		x.out.Drop()
		return err
	}
	if x.cmd.Stdin != nil {
		go x.feed()
	}
	go x.run(life)
	return nil
}

// jobError returns the error of a job that did not begin.
func (x *jobRun) jobError(ctx context.Context, err error) error {
	c := x.c
	switch {
	case errors.Is(err, shell.ErrNoDir):
		return fmt.Errorf("%w: %q", ErrNoDir, c.redact(x.cmd.Dir))
	case errors.Is(err, shell.ErrNoFile):
		return fmt.Errorf("%w: %w", ErrTransfer, err)
	case errors.Is(err, shell.ErrEarly) && errors.Is(err, ErrStillThere):
		return errors.Join(c.lost(), err)
	case errors.Is(err, shell.ErrEarly):
		return c.lost()
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return err
	}
	return fmt.Errorf("%w: %w", ErrStart, err)
}

// abandon gives up what a job took, by a time, unless that is zero.
func (x *jobRun) abandon(by time.Time) error {
	ctx, cancel := context.WithDeadline(context.Background(), bound.Earlier(bound.After(x.c.limits.TerminationTimeout), by))
	defer cancel()
	err := x.proc.Kill(ctx)
	x.job.Drained()
	return err
}

// run sees to the end of the job.
func (x *jobRun) run(ctx context.Context) {
	c := x.c
	defer close(x.done)
	defer c.jobs.Give()
	defer x.cancel(nil)
	deadline := bound.After(x.cmd.Timeout)
	r := x.job.Run(ctx, deadline)
	res := &Result{
		ExitCode: -1, Duration: time.Since(x.start), Timeout: x.cmd.Timeout, Cause: r.Cause, Escalation: Escalation(r.Step),
		Gone: r.Gone, OOMBefore: x.job.OOMsBefore, OOMAfter: r.OOMs, Engine: c.proc.Engine,
		text: x.out.Text, values: c.redactor.Values(),
	}
	var errs []error
	if r.EndErr != nil {
		errs = append(errs, r.EndErr)
	}
	errs = append(errs, x.abandon(r.EndBy))
	select {
	case err := <-x.fed:
		if err != nil {
			errs = append(errs, fmt.Errorf("reading stdin: %w", err))
		}
	default:
	}
	evidence := ending{cause: r.Cause, lost: r.Lost, status: r.Mark.Status, signal: r.Mark.Signal}
	switch {
	case r.Cause != nil:
	case r.Lost:
		evidence.oom = r.EndErr == nil && c.OOMKilled(r.EndBy)
	default:
		evidence.oom = res.OOMBefore >= 0 && res.OOMAfter > res.OOMBefore
	}
	res.ended = r.Lost
	errs = append(errs, c.conclude(res, evidence))
	errs = append(errs, x.flush(ctx, res, r, deadline)...)
	res.ImageID, _ = c.imageID()
	x.result = res
	t := tally{in: x.stdin.n.Load(), out: x.out.Came(), endBy: r.EndBy}
	x.err = c.audit.finishJob(c, x.event, res, t, errors.Join(errs...))
}

// flush hands the rest of the output over. When the job's context ends, it is given a
// moment: who ends a job that has ended does not wait for the caller's writers.
func (x *jobRun) flush(life context.Context, res *Result, r shell.Reply, deadline time.Time) []error {
	limit := x.c.limits.TerminationTimeout
	flush, done := context.WithDeadline(context.Background(), bound.Flush(r.Cause != nil, deadline, limit))
	defer done()
	defer context.AfterFunc(life, func() { time.AfterFunc(bound.Moment(limit), done) })()
	errs := x.out.Finish(flush.Done())
	x.taking.Lock()
	defer x.taking.Unlock()
	errs = append(errs, res.take(&x.out))
	x.kept = res
	return errs
}

// jobFilter makes a writer through which a job's output passes: it redacts the secrets
// that the session was given, also those that come while the job runs. After that
// comes the caller's filter.
func (c *conn) jobFilter(w io.Writer) io.WriteCloser {
	if c.filter != nil {
		w = c.filter(w)
	}
	return c.redactor.Writer(w)
}
