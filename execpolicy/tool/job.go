package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/turn"
)

// RequestInput is the kind of a request about input that the tool job is to write to a
// job's stdin. Code is the input, which may be a command if the job is a shell. Path
// names the job, as in "job 2" or "job 2, whose stdin ends then".
const RequestInput execpolicy.RequestKind = "input"

const (
	// maxEnded is how many jobs that have ended are remembered.
	maxEnded = 32
	// maxWait is how many seconds a call may wait for a job to end.
	maxWait = 60
	// writeTimeout is how long a job may take to read what is written to its stdin.
	writeTimeout = 5 * time.Second
)

const jobAbout = "Run a command in the background, beside the shell, such as a server, a long build or a " +
	"program that is talked to. \"start\" begins one and returns its number; \"status\" shows what it has " +
	"printed, and whether it runs; \"write\" writes to its stdin; \"signal\" sends it a signal; \"kill\" ends " +
	"it; \"list\" lists all. A job has a shell of its own, with no variables of the tool shell's, and has no " +
	"time limit. It ends with the session."

var jobForm = form{
	{name: "action", kind: text, about: "What to do.", required: true,
		choices: []string{"start", "status", "write", "signal", "kill", "list"}},
	{name: "command", kind: text, about: "The shell command to start."},
	{name: "job", kind: integer, about: "The number of the job, for every action but start and list."},
	{name: "wait", kind: integer, about: fmt.Sprintf("For status: how many seconds to wait for the job to end, at most %d. By default 0.", maxWait)},
	{name: "text", kind: text, about: "For write: the text, with a newline at its end if the job reads lines."},
	{name: "eof", kind: flag, about: "For write: whether to close the job's stdin after the text."},
	{name: "signal", kind: text, about: "For signal: its name.",
		choices: []string{"SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGTERM", "SIGWINCH"}},
}

// jobs are those that a set has started, by their numbers.
type jobs struct {
	sync.Mutex
	last int
	byID map[int]*job
}

// A job is one of a set's.
type job struct {
	*execpolicy.Job
	id      int
	command string
	begun   time.Time
	writing turn.Turn
}

func (j *job) ended() bool {
	select {
	case <-j.Done():
		return true
	default:
		return false
	}
}

func (s *Set) job(ctx context.Context, in input) (Reply, error) {
	action := in.text("action")
	switch action {
	case "start":
		return s.startJob(ctx, in.text("command"))
	case "list":
		return s.listJobs(), nil
	}
	if !in.has("job") {
		return failed(`"job" is missing: %s needs the number of a job.`, action), nil
	}
	s.jobs.Lock()
	j := s.jobs.byID[in.number("job", 0)]
	s.jobs.Unlock()
	if j == nil {
		return failed("There is no job %d. %s", in.number("job", 0), s.listJobs().Text), nil
	}
	switch action {
	case "status":
		return s.status(ctx, j, in.number("wait", 0))
	case "write":
		return s.writeTo(ctx, j, in.text("text"), in.flag("eof"))
	case "signal":
		return s.signal(ctx, j, in.text("signal"))
	}
	if err := j.Kill(ctx); err != nil {
		return s.unanswered(ctx, err)
	}
	return s.status(ctx, j, 0)
}

func (s *Set) startJob(ctx context.Context, command string) (Reply, error) {
	if command == "" {
		return failed(`"command" is missing: start needs a command.`), nil
	}
	started, err := s.Session.StartJob(ctx, execpolicy.Command{Script: command})
	if err != nil {
		return s.noJob(ctx, err)
	}
	s.jobs.Lock()
	defer s.jobs.Unlock()
	s.jobs.last++
	j := &job{Job: started, id: s.jobs.last, command: command, begun: time.Now(), writing: turn.New(1)}
	if s.jobs.byID == nil {
		s.jobs.byID = map[int]*job{}
	}
	s.jobs.byID[j.id] = j
	s.jobs.forget()
	return Reply{Text: fmt.Sprintf("Job %d has started.", j.id)}, nil
}

// noJob returns the reply for a job that did not start.
func (s *Set) noJob(ctx context.Context, err error) (Reply, error) {
	switch {
	case hosts(ctx, err) || errors.Is(err, execpolicy.ErrEnded):
		return s.unanswered(ctx, err)
	case errors.Is(err, execpolicy.ErrRefused):
		return failed("Error: %s.", excerpt(err.Error())), nil
	case errors.Is(err, execpolicy.ErrStart):
		// The error's text is about the session, which goes on.
		return failed("The job did not start. The session goes on."), nil
	}
	return s.unanswered(ctx, err)
}

// forget drops the oldest of the jobs that have ended, if there are too many.
func (l *jobs) forget() {
	var ended []int
	for _, id := range slices.Sorted(maps.Keys(l.byID)) {
		if l.byID[id].ended() {
			ended = append(ended, id)
		}
	}
	for _, id := range ended[:max(0, len(ended)-maxEnded)] {
		delete(l.byID, id)
	}
}

// status returns what a job has printed, and whether it runs.
func (s *Set) status(ctx context.Context, j *job, wait int) (Reply, error) {
	if wait < 0 || wait > maxWait {
		return failed(`"wait" must be from 0 to %d.`, maxWait), nil
	}
	select {
	case <-j.Done():
	case <-time.After(time.Duration(wait) * time.Second):
	case <-ctx.Done():
		return failed(unusable), context.Cause(ctx)
	}
	if !j.ended() {
		r := j.Output()
		r.Outcome = execpolicy.OutcomeExited // the note says what there is to say
		return Reply{Text: s.noted(r.Render, fmt.Sprintf("Job %d runs, for %.0f s so far.", j.id, time.Since(j.begun).Seconds()))}, nil
	}
	r, err := j.Wait(ctx)
	if r == nil {
		return s.unanswered(ctx, err)
	}
	reply := Reply{Text: s.noted(r.Render, fmt.Sprintf("Job %d has ended after %.0f s.", j.id, r.Duration.Seconds())), Result: r}
	if isAny(err, execpolicy.ErrStillThere, execpolicy.ErrAudit) {
		return reply, err
	}
	return reply, nil
}

// writeTo writes to the stdin of a job. What the job does not read at once goes on
// waiting for it.
func (s *Set) writeTo(ctx context.Context, j *job, text string, eof bool) (Reply, error) {
	if j.ended() {
		return failed("Job %d has ended.", j.id), nil
	}
	which := fmt.Sprintf("job %d", j.id)
	if eof {
		which += ", whose stdin ends then"
	}
	if reply, err := s.approve(ctx, RequestInput, which, text); reply.Failed {
		return reply, err
	}
	soon, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if j.writing.Take(soon) != nil {
		if ctx.Err() != nil {
			return failed(unusable), context.Cause(ctx)
		}
		return failed("Job %d has not read what was written to it before, so this was not written.", j.id), nil
	}
	written := make(chan error, 1)
	go func() {
		defer j.writing.Give()
		_, err := io.WriteString(j.Stdin(), text)
		if err == nil && eof {
			err = j.Stdin().Close()
		}
		written <- err
	}()
	select {
	case err := <-written:
		if err != nil {
			return failed("The stdin of job %d is closed.", j.id), nil
		}
		return Reply{Text: fmt.Sprintf("Wrote %d bytes to job %d.", len(text), j.id)}, nil
	case <-soon.Done():
		if ctx.Err() != nil {
			return failed(unusable), context.Cause(ctx)
		}
		return failed("Job %d does not read what was written to it so far. It goes on waiting for the job.", j.id), nil
	}
}

func (s *Set) signal(ctx context.Context, j *job, name string) (Reply, error) {
	if name == "" {
		return failed(`"signal" is missing.`), nil
	}
	switch err := j.Signal(ctx, name); {
	case errors.Is(err, execpolicy.ErrJobEnded):
		return failed("Job %d has ended.", j.id), nil
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		// What runs inside may keep process 1 from answering.
		return failed("It is not known whether %s was sent to job %d.", name, j.id), nil
	case err != nil:
		return s.unanswered(ctx, err)
	}
	return Reply{Text: fmt.Sprintf("Sent %s to job %d.", name, j.id)}, nil
}

func (s *Set) listJobs() Reply {
	s.jobs.Lock()
	defer s.jobs.Unlock()
	if len(s.jobs.byID) == 0 {
		return Reply{Text: "There are no jobs."}
	}
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(s.jobs.byID)) {
		j := s.jobs.byID[id]
		state := "runs"
		if j.ended() {
			state = "has ended"
		}
		fmt.Fprintf(&b, "Job %d %s: %s\n", id, state, s.shown(j.command))
	}
	return Reply{Text: b.String()}
}
