package execpolicy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/ours"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/internal/spool"
	"github.com/seed-64a260eb/cofferdam/truncate"
)

// Run runs one command in a session of its own, which is closed when Run returns. It
// checks the command before it starts the session. Its error is that of [Start], or those
// of [Session.Run] and [Session.Close] together. There is a result whenever Session.Run
// has one, also with an error of Close. [Spec.Prepare] can write files before the command
// runs. Run does not limit how many sessions run at once, only how many start. So a
// caller who has many commands has to limit his calls.
func Run(ctx context.Context, p Policy, spec Spec, c Command) (r *Result, err error) {
	s, err := start(ctx, p, spec, c.Check())
	if err != nil {
		return nil, err
	}
	// Also if a function of the caller's panics.
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.Run(ctx, c)
}

// Run runs a command, after those that came before it, and returns when it has ended, at
// the latest [Limits.TerminationTimeout] after its deadline. [Command.Timeout] says when
// its time begins.
//
// A program that fails is a result, not an error, and so is a command that [Spec.Approve]
// refuses.
//
// An error without a result says that the command did not run. It wraps one of these:
//
//   - ErrInvalid: the command is not a valid one.
//   - ErrClosed: the session was closed before the command began.
//   - ErrEnded: the session had ended by itself, along with ErrExpired if its lifetime
//     was over.
//   - The cause of ctx: it ended before the command began.
//   - ErrTimeout: the command's time was over before its Stdin was read, or its secrets
//     were looked up.
//   - ErrNoDir: [Command.Dir] can't be entered.
//   - ErrStdinTooLong, or the error of [Command.Stdin].
//   - The error of a secret's Lookup, what is wrong with the value that it returned, or
//     ErrTransfer if the secret's file could not be made.
//   - ErrStart: the shell was lost and could not be replaced.
//   - ErrScript: it was replaced, and a startup script failed in the new one.
//   - ErrAudit: [Spec.Audit] did not take the record that comes before the command.
//
// A result with an error says what is known. The error wraps one or more of these:
//
//   - [Result.Cause], if the outcome is OutcomeCanceled.
//   - ErrEnded, if the container ended by itself: the outcome is OutcomeSessionLost or
//     OutcomeOOMKilled.
//   - ErrStillThere, if it is not known that all of the command is gone.
//   - ErrBlocked, with the error of [Spec.Filter]: the result has none of the output.
//   - The error of [Command.Stdout] or Stderr.
//   - ErrAudit: there is no record of how the command ended.
func (s *Session) Run(ctx context.Context, cmd Command) (*Result, error) {
	ctx, cmd.unseen = ours.TakeUnseen(ctx)
	ctx, cmd.code = ours.TakeCode(ctx)
	if err := cmd.Check(); err != nil {
		return nil, problems.Redact(err, s.Redact)
	}
	if err := s.acquire(ctx); err != nil {
		return nil, err
	}
	defer s.release()
	c := s.current()
	if cmd.code != nil && cmd.code.In != "" && cmd.code.In != c.proc.Name {
		return nil, ours.ErrElsewhere
	}
	ctx, cancel := bound.By(ctx, s.both)
	defer cancel(nil)
	return c.runCommand(ctx, cancel, cmd)
}

// runCommand runs a command for the holder of the turn.
func (c *conn) runCommand(ctx context.Context, cancel context.CancelCauseFunc, cmd Command) (*Result, error) {
	if err := c.lives(); err != nil {
		return nil, err
	}
	var res *Result
	event, err := c.audit.beginCommand(ctx, c, cmd)
	if err == nil {
		res, err = c.runRecorded(ctx, cancel, cmd)
	}
	if res == nil {
		err = c.expired(err)
	}
	return res, c.audit.finish(c, event, res, err)
}

// runRecorded runs a command that has its record.
func (c *conn) runRecorded(ctx context.Context, cancel context.CancelCauseFunc, cmd Command) (*Result, error) {
	if err := c.lives(); err != nil {
		return nil, err
	}
	x := &execution{c: c, ctx: ctx, cmd: cmd, own: ours.HooksSkipped(ctx), stdin: spool.New(cmd.Stdin, MaxStdin)}
	if refused, err := x.admit(); refused != nil || err != nil {
		return refused, err
	}
	if err := x.stage(); err != nil {
		return nil, err
	}
	x.listen(cancel)
	r, err := x.execute()
	if err != nil {
		return nil, err
	}
	return x.finish(r)
}

// An execution is a command that is being run.
type execution struct {
	c   *conn
	ctx context.Context
	cmd Command
	own bool // it is the library's own, and no caller sees the result

	timeout         time.Duration
	start           time.Time
	deadline, endBy time.Time // when it is to be ended, and when it must have been

	stdin *spool.Spool
	input []shell.Op            // what sends stdin
	file  string                // where stdin is then
	clean func(endBy time.Time) // removes what its secrets take; nil if there is nothing

	out shell.Output
}

// admit waits for the caller's approval, if it takes one. The result is that of a command
// that is refused.
func (x *execution) admit() (refused *Result, err error) {
	if x.c.approve == nil || x.own || x.cmd.code != nil && x.cmd.code.Approved {
		return nil, nil
	}
	// What was approved is what runs, whoever else has the caller's own.
	x.cmd.Argv, x.cmd.Env = slices.Clone(x.cmd.Argv), maps.Clone(x.cmd.Env)
	return x.c.ask(x.ctx, x.cmd, x.stdin)
}

// stage sees to all that the command needs inside: a shell, its stdin and its secrets.
// Its time begins when there is a shell.
func (x *execution) stage() (err error) {
	c := x.c
	x.timeout = cmp.Or(x.cmd.Timeout, c.limits.CommandTimeout)
	x.endBy = c.latestEnd(x.timeout)
	if err := c.readyFor(x.ctx, x.endBy); err != nil {
		return err
	}
	x.start = time.Now()
	// A shell that had to be replaced first counts too.
	x.deadline = bound.Earlier(bound.After(x.timeout), x.latestDeadline())
	if at := c.Dir(); x.cmd.Dir != "" && (at == "" || strings.Contains(at, "\n")) {
		// The shell does not have the command's own yet.
		dir := addValues(c.redactor.Values(), x.cmd.Secrets).Redact(x.cmd.Dir)
		return fmt.Errorf("%w: %q: the shell could not go back to its own directory, whose name is not known or holds a newline; run cd without a Dir first", ErrNoDir, dir)
	}
	if x.input, x.file, err = c.upload(x.ctx, x.stdin, x.deadline); err != nil {
		return err
	}
	if len(x.cmd.Secrets) > 0 {
		x.cmd.Env, x.clean, err = c.giveSecrets(x.ctx, x.cmd.Secrets, x.cmd.Env, x.deadline, x.endBy)
	}
	return err
}

// listen makes the sinks. cancel is called when they have taken more than the command's
// limit.
func (x *execution) listen(cancel context.CancelCauseFunc) {
	filter := x.c.Filter
	if x.own {
		filter = x.c.secretFilter()
	}
	x.out = x.c.newOutput(x.cmd, filter, cancel)
}

// newOutput makes the sinks of a command. cancel is called when they have taken more than
// its limit.
func (c *conn) newOutput(cmd Command, filter shell.Filter, cancel context.CancelCauseFunc) shell.Output {
	o := shell.OutputOptions{
		Filter: filter, MaxBytes: c.limits.MaxOutputBytes, MaxLines: c.limits.MaxOutputLines,
		Stdout: cmd.Stdout, Stderr: cmd.Stderr,
	}
	if cmd.OutputLimit > 0 {
		o.Limit, o.Full = cmd.OutputLimit, func() { cancel(ErrOutputLimit) }
	}
	out := shell.NewOutput(o)
	if code := cmd.code; code != nil && code.Reply != nil {
		out.Stdout.TakeOut(code.Tag, code.Reply)
	}
	return out
}

// execute runs the command to its end.
func (x *execution) execute() (shell.Reply, error) {
	c := x.c
	try := func(input []shell.Op) shell.Reply {
		ops := append(make([]shell.Op, 0, 4), input...)
		if x.cmd.Usage {
			ops = append(ops, shell.Op{Data: []byte(shellwire.Note)})
		}
		ops = append(ops, shell.Op{Data: x.cmd.unit(c.Dir(), x.file).Ops(), Unit: true})
		return c.runUnit(x.ctx, x.deadline, x.endBy, ops, x.out.Stdout, x.out.Stderr)
	}
	giveUp := func(r shell.Reply, err error) (shell.Reply, error) {
		x.out.Drop()
		if x.clean != nil {
			x.clean(time.Time{})
		}
		return r, err
	}
	// Something may have killed the shell while stdin was read or a secret looked up.
	if err := x.ready(); err != nil {
		return giveUp(shell.Reply{}, err)
	}
	r := try(x.input)
	if !x.neverRan(r) {
		return r, nil
	}
	// What a command before this one has started had killed the shell, which shows only
	// now.
	c.UnreportedLoss = true
	if err := x.ready(); err != nil {
		return giveUp(r, err)
	}
	if r = try(nil); x.neverRan(r) {
		c.UnreportedLoss = true
		return giveUp(r, fmt.Errorf("%w: %w", ErrStart, shell.ErrNotRun))
	}
	return r, nil
}

// ready sees to a shell once more. What that takes is not the command's time, as far as
// its end allows.
func (x *execution) ready() error {
	c := x.c
	if !c.Dead && !c.WorkerEnded() {
		return nil
	}
	began := time.Now()
	if err := c.readyFor(x.ctx, x.endBy); err != nil {
		return err
	}
	took := time.Since(began)
	x.start = x.start.Add(took)
	if !x.deadline.IsZero() {
		x.deadline = bound.Earlier(x.deadline.Add(took), x.latestDeadline())
	}
	return nil
}

// latestDeadline returns by when the command has to be told to end, so that it has ended
// in time; the zero time is never.
func (x *execution) latestDeadline() time.Time {
	if x.endBy.IsZero() {
		return time.Time{}
	}
	return x.endBy.Add(-x.c.limits.TerminationTimeout / 2)
}

// neverRan reports whether the shell had ended before it got the command.
func (x *execution) neverRan(r shell.Reply) bool {
	c := x.c
	if r.Cause != nil || r.Lost || r.Mark.Kind != shellwire.Death || x.out.Came() > 0 {
		return false
	}
	endBy := bound.Earlier(bound.After(c.limits.TerminationTimeout), x.endBy)
	by := bound.Earlier(bound.After(c.LearnTime()), endBy)
	return r.Mark.NotRun || c.NeverRan(context.WithoutCancel(x.ctx), by, endBy)
}

// finish says how the command ended, and hands the rest of its output over.
func (x *execution) finish(r shell.Reply) (*Result, error) {
	c := x.c
	res := &Result{
		ExitCode: -1, Duration: time.Since(x.start), Timeout: x.timeout, Cause: r.Cause, Escalation: Escalation(r.Step), Gone: r.Gone,
		OOMBefore: c.OOMKills, OOMAfter: r.OOMs, Dir: c.Dir(), Engine: c.proc.Engine, text: x.out.Text, values: c.redactor.Values(),
	}
	c.tally.out += x.out.Stderr.Came
	errs := c.classify(x.ctx, res, r, x.cmd, x.endBy)
	if x.clean != nil {
		x.clean(r.EndBy)
	}

	// The writers have the rest of the time to take the rest.
	flush := context.Background()
	if x.out.Waits() {
		var done context.CancelFunc
		flush, done = context.WithDeadline(flush, bound.Flush(r.Cause != nil, x.deadline, c.limits.TerminationTimeout))
		defer done()
	}
	errs = append(errs, x.out.Finish(flush.Done())...)
	if r.Mark.NoDir {
		c.Background += x.out.Came()
		c.UnreportedLoss = c.UnreportedLoss || res.StateLost
		return nil, fmt.Errorf("%w: %q", ErrNoDir, c.redact(x.cmd.Dir))
	}
	if err := res.take(&x.out); err != nil {
		errs = append(errs, err)
	}
	res.ImageID, _ = c.imageID()
	if x.own || x.cmd.unseen {
		// The caller never sees this result. The next one tells it.
		c.UnreportedLoss = c.UnreportedLoss || res.StateLost
	} else {
		res.BackgroundBytes, c.Background = c.Background, 0
	}
	res.Dir = c.redact(res.Dir)
	return res, errors.Join(errs...)
}

// take gives the result an output that is finished. It returns why the filter has blocked
// that.
func (r *Result) take(out *shell.Output) error {
	if r.blocked = out.Blocked(); r.blocked != nil {
		r.text = nil
		return fmt.Errorf("%w: %w", ErrBlocked, r.blocked)
	}
	stdout, stderr := out.Kept()
	r.Stdout, r.StdoutInfo = keptOutput(stdout)
	r.Stderr, r.StderrInfo = keptOutput(stderr)
	return nil
}

// keptOutput returns the bytes that a sink kept, and their counts. It is called once,
// after the last Write.
func keptOutput(k *shell.Sink) ([]byte, StreamInfo) {
	info := streamInfo(&k.Kept)
	return k.Taken(), info
}

func streamInfo(b *truncate.Buffer) StreamInfo {
	return StreamInfo{Bytes: b.Total(), Lines: b.Lines(), DroppedBytes: b.Dropped(), DroppedLines: b.DroppedLines(), Cut: len(b.Head())}
}
