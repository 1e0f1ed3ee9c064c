package shell

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/truncate"
)

// ErrEarly is wrapped by the error of a [Conn.SetUp] during which the process has ended.
var ErrEarly = errors.New("the process ended before its shell answered")

// ErrNotRun is wrapped by the error of a new worker that something killed, or that
// process 1 gave up, before it ran what it was started for. On a machine with little to
// spare it may be only late.
var ErrNotRun = errors.New("the shell was given up before anything ran in it")

// A Place is where a worker runs its commands.
type Place struct {
	Env map[string]string
	// Dir is the worker's directory. If empty, it stays where it is.
	Dir         string
	DirWritable bool // it must be
}

// setUp puts a new worker in its place, and returns where that is and how many processes
// the kernel has killed for memory so far, in a reply's Mark.Dir and OOMs. The reply also
// says how long an escalation may take, if there was one.
func (c *Conn) setUp(ctx context.Context, deadline, endBy time.Time, p Place) (Reply, error) {
	out := &Sink{Kept: truncate.Buffer{Limit: WordsKept}}
	in, errOut := NewSink(c.Filter, WordsKept, nil, nil)
	r := c.Run(ctx, deadline, endBy, Unit(c.setUpScript(p)), out, in)
	stderrText := errOut.Words(in)
	switch {
	case r.Cause == ErrTimeout:
		return r, fmt.Errorf("the worker shell did not answer in time; if the command is not a shell, it can't be a session's: %w", context.DeadlineExceeded)
	case r.Cause != nil:
		return r, r.Cause
	case r.Lost:
		return r, c.early(ctx, endBy)
	case r.Died && r.Mark.NotRun:
		return r, ErrNotRun
	case r.Died:
		return r, fmt.Errorf("the worker shell ended with status %d (127: it is not there; 126: it can't be run) and said %q", r.Mark.Status, stderrText)
	case r.Mark.Status != 0:
		return r, fmt.Errorf("the worker shell could not be set up: %s", stderrText)
	}
	r.OOMs = -1
	if c.worker == 1 {
		r.OOMs = shellwire.ParseCount(string(out.Kept.Bytes()))
		return r, nil
	}
	// Earlier commands may have left jobs that print.
	c.Background += out.Came + in.Came
	if !c.opts.Setup.Namespace {
		return r, nil
	}
	oomKills, _, l := c.Look(context.WithoutCancel(ctx), endBy)
	r.OOMs = oomKills
	if !l.EndBy.IsZero() {
		r.EndBy = l.EndBy
	}
	switch {
	case l.Lost:
		return r, c.early(ctx, endBy)
	case l.Died:
		// Something inside has ended it since, or it did not answer in time.
		return r, ErrNotRun
	}
	return r, nil
}

// early returns the error of a process that has ended, by endBy if that is not zero.
func (c *Conn) early(ctx context.Context, endBy time.Time) error {
	by := bound.Earlier(time.Now().Add(c.LearnTime()), endBy)
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), by)
	defer cancel()
	return fmt.Errorf("%w, with status %d", ErrEarly, c.exitCode(ctx))
}

// setUpScript returns what the worker runs. The first worker prints how many processes
// the kernel has killed for memory.
func (c *Conn) setUpScript(p Place) string {
	var script string
	if !c.opts.Setup.Namespace {
		// What ends a command there is a SIGTERM to the whole group, which the worker
		// outlives.
		script += "trap : TERM\n"
	} else {
		// When memory is short, the kernel takes what the commands started before process
		// 1, with which all would end.
		script += "{ echo 500 >/proc/$$/oom_score_adj; } 2>/dev/null\n"
		if c.worker == 1 {
			// The same count as the operation behind Look, without another round trip.
			script += "for cf_file in /sys/fs/cgroup/memory.events " +
				"/sys/fs/cgroup/memory/memory.oom_control; do " +
				"while read -r cf_key cf_value; do " +
				"case $cf_key in oom_kill) echo $cf_value ;; esac; " +
				"done <$cf_file; done 2>/dev/null\nunset cf_file cf_key cf_value\n"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		script += "export " + name + "=" + shellquote.Quote(p.Env[name]) + "\n"
	}
	script += ":"
	if p.Dir != "" {
		script += "\ncd -- " + shellquote.Quote(p.Dir)
		if p.DirWritable {
			script += " && { [ -w . ] || { echo 'the workspace can not be written to; if the image has a directory of its name, " +
				"runc before 1.1.8 gives it the mode of that' >&2; false; }; }"
		}
	}
	return script
}
