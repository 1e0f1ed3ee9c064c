package execpolicy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/truncate"
)

// handshake sets the worker's environment and directory.
func (c *conn) handshake(ctx context.Context, deadline, endBy time.Time) error {
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
			// The same count as the operation behind Look, without another round trip.
			script += "for cf_file in /sys/fs/cgroup/memory.events " +
				"/sys/fs/cgroup/memory/memory.oom_control; do " +
				"while read -r cf_key cf_value; do " +
				"case $cf_key in oom_kill) echo $cf_value ;; esac; " +
				"done <$cf_file; done 2>/dev/null\nunset cf_file cf_key cf_value\n"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.env)) {
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
	r := c.runUnit(ctx, deadline, endBy, shell.Unit(script), out, in)
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
		c.oomKills, _, _ = c.lookNow(context.WithoutCancel(ctx), time.Time{})
	}
	return nil
}

// ready replaces a worker that has ended, and runs the startup scripts for a new one. A
// worker that does not answer by the deadline has been ended by endBy. If endBy is zero,
// each startup script has the time of its own; else all have to be done by the deadline.
func (c *conn) ready(ctx context.Context, deadline, endBy time.Time) error {
	if err := c.respawn(ctx, deadline, endBy); err != nil {
		return err
	}
	if !c.needsStartup {
		return nil
	}
	var by time.Time
	if !endBy.IsZero() {
		by = deadline
	}
	if err := c.runStartup(ctx, by, endBy); err != nil {
		return err
	}
	c.needsStartup = false
	return nil
}

// readyFor is ready for a command that must be over by endBy, or that has no end if endBy
// is zero. A replacement shell gets at least half of TerminationTimeout.
func (c *conn) readyFor(ctx context.Context, endBy time.Time) error {
	if endBy.IsZero() {
		return c.ready(ctx, after(c.limits.StartupTimeout), endBy)
	}
	return c.ready(ctx, endBy.Add(-c.limits.TerminationTimeout/2), endBy)
}

// latestEnd returns when a command that begins now, with that timeout, must be over: the
// zero time, which is never, if the timeout is negative.
func (c *conn) latestEnd(timeout time.Duration) time.Time {
	if timeout < 0 {
		return time.Time{}
	}
	// The sum of the two durations could overflow.
	return after(timeout).Add(c.limits.TerminationTimeout)
}

// respawn replaces a worker that has ended.
func (c *conn) respawn(ctx context.Context, deadline, endBy time.Time) error {
	// It may have been killed while it had nothing to do.
	if !c.Dead {
		if !c.Died() {
			return nil
		}
		c.unreportedLoss = true
	}
	c.Replace()
	c.needsStartup = true
	err := c.handshake(ctx, deadline, endBy)
	if err == nil {
		err = c.renewSecrets(ctx, deadline, endBy)
	}
	if err != nil {
		c.Dead = true
		return fmt.Errorf("%w: the shell could not be replaced: %w", ErrStart, err)
	}
	return nil
}

// runStartup runs the startup scripts in order up to the first that fails. None of them
// runs longer than StartupTimeout, nor beyond by, unless that is zero.
func (c *conn) runStartup(ctx context.Context, by, endBy time.Time) error {
	for _, script := range c.startup {
		if c.Dead {
			return fmt.Errorf("startup %w: the shell has ended", ErrScript)
		}
		if err := c.script(ctx, "startup", script, earlier(after(c.limits.StartupTimeout), by), endBy); err != nil {
			return err
		}
	}
	return nil
}

// script runs a startup or a shutdown script.
func (c *conn) script(ctx context.Context, kind, script string, deadline, endBy time.Time) error {
	defer func(outer tally) {
		// It may be a part of a command or a transfer, which has no more time than this
		// left.
		if !c.tally.endBy.IsZero() {
			outer.endBy = c.tally.endBy
		}
		c.tally = outer
	}(c.tally)
	var res *Result
	start := time.Now()
	event, err := c.audit.beginScript(ctx, c, kind, script)
	if err != nil {
		err = fmt.Errorf("%s %w: %q: %w", kind, ErrScript, c.conceal(script), err)
	} else if err = c.runScript(ctx, kind, script, deadline, endBy); err == nil {
		res = &Result{Outcome: OutcomeExited, Duration: time.Since(start), OOMBefore: -1, OOMAfter: -1}
	}
	return c.audit.finish(c, event, res, err)
}

// runScript runs a script that has its record.
func (c *conn) runScript(ctx context.Context, kind, script string, deadline, endBy time.Time) error {
	in, errOut := shell.NewSink(c.Filter, shell.WordsKept, nil, nil)
	r := c.runUnit(ctx, deadline, endBy, shell.Unit(script), &shell.Sink{}, in)
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
