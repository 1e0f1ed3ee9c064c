//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
)

// A round is a plan under way.
type round struct {
	plan
	suite      *suite
	session    *execpolicy.Session // nil if the ending has none
	jobs       []*execpolicy.Job   // that nobody has ended yet
	mu         sync.Mutex          // of problems: a command runs beside what ends it
	problems   []string
	over       bool     // the session, by a transfer or the end of a job
	moved      bool     // files were, after the command
	left       bool     // a job has ended, or may have, with processes behind it
	containers []string // IDs of those that were not in the session

	looked time.Duration // how long that took to learn once the host was killed

	began  time.Time                 // the command
	struck atomic.Pointer[time.Time] // when what was to be killed was killed

	// result and err are what the command's Run returned.
	result *execpolicy.Result
	err    error
	// failed says which transfer failed, and whether that cost the session.
	failed string
}

func (r *round) wrong(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// see adds the ID of a container whose processes are to be looked for, if it is there.
func (r *round) see(ctx context.Context, name string, to *[]string) {
	id, err := r.suite.containerID(ctx, name)
	switch {
	case err == nil:
		*to = append(*to, id)
	case !errors.Is(err, dockercli.ErrNoContainer):
		r.wrong("the ID of a container: %v", err)
	}
}

// String says how the command ended.
func (r *round) String() string {
	if r.result == nil {
		return "nobody knows"
	}
	text := r.result.Outcome.String()
	if r.result.Outcome == execpolicy.OutcomeExited {
		text += fmt.Sprintf(" %d", r.result.ExitCode)
	}
	if r.result.Escalation > 0 {
		text += " by " + r.result.Escalation.String()
	}
	if r.result.StateLost {
		text += ", shell lost"
	}
	return text + r.failed
}

// discard says that the session can't be used by others.
func (r *round) discard() { r.suite.open.spent = true }

// late notes how long after its end the command returned.
func (r *round) late(d time.Duration) {
	class := &r.suite.stats.others
	// What calls out forks without end.
	if !r.settings.egress && !r.any(func(p *program) bool { return !p.obeys }) {
		class = &r.suite.stats.obeying
	}
	class.add(d)
	if d > r.termination() {
		r.wrong("the command returned %v past its end", d)
	}
}

// starved reports whether it may not be known in time that something is gone.
func (r *round) starved() bool {
	return r.settings.engineSeccomp && r.any(func(p *program) bool { return p.starves })
}

// idled reports whether process 1 may have to wait for all others.
func (r *round) idled() bool {
	return r.settings.engineSeccomp && r.any(func(p *program) bool { return p.idles })
}

// honest returns err, or nil if it is ErrStillThere of what may not be known in time.
func (r *round) honest(err error) error {
	if r.starved() && errors.Is(err, execpolicy.ErrStillThere) {
		return nil
	}
	return err
}

// termination is the round's TerminationTimeout.
func (r *round) termination() time.Duration {
	if r.ending.away {
		return awayTermination
	}
	return r.suite.termination()
}

// A blocked writer takes nothing until it is closed.
type blocked chan struct{}

func (b blocked) Write(p []byte) (int, error) {
	<-b
	return len(p), nil
}

// run runs the round's command and judges how it ended.
func (r *round) run(ctx context.Context, c execpolicy.Command) {
	c.Script = r.script()
	if r.any(func(p *program) bool { return p.stuck }) {
		stuck := make(blocked)
		defer close(stuck)
		c.Stdout = stuck
	}
	r.began = time.Now()
	r.suite.call(r.plan, "Run", c.Timeout+r.termination(), func() { r.result, r.err = r.session.Run(ctx, c) })
	if r.result == nil {
		// A job may have cost the session before the command began.
		lost := errors.Is(r.err, execpolicy.ErrEnded) || errors.Is(r.err, execpolicy.ErrStart)
		if !lost || !r.any(func(p *program) bool { return p.job && p.mayLose() }) {
			r.wrong("the command did not run: %v", r.err)
		}
		return
	}
	r.check(c)
}

// own returns the outcomes to which the programs may come without help.
func (r *round) own() []execpolicy.Outcome {
	var own []execpolicy.Outcome
	for _, p := range r.programs {
		own = append(own, p.own...)
	}
	return own
}

// check compares the result with what is honest.
func (r *round) check(c execpolicy.Command) {
	res := r.result
	honest := slices.Concat(r.own(), r.ending.outcomes)
	if r.ending.own {
		honest = append(honest, execpolicy.OutcomeExited)
	}
	if struck := r.struck.Load(); r.ending.loses && (struck == nil || struck.Sub(r.began) >= c.Timeout) {
		// On a busy machine the command may have been there first.
		honest = append(honest, execpolicy.OutcomeTimedOut)
	}
	if !slices.Contains(honest, res.Outcome) {
		r.wrong("the outcome is %v, step %v, exit code %d, signal %d, OOM kills %d to %d, error %v; honest are "+
			"%v; stdout %q, stderr %q",
			res.Outcome, res.Escalation, res.ExitCode, res.Signal, res.OOMBefore, res.OOMAfter, r.err, honest,
			tail(res.Stdout), tail(res.Stderr))
	}
	r.evidence(res, r.err, c)
	if strings.Contains(string(res.Stdout), held) && !r.any(func(p *program) bool { return p.floods }) {
		r.wrong("process 1 was got hold of: %q", tail(res.Stdout))
	}
	if p := r.programs[0]; r.alone() && p.says != "" {
		if res.ExitCode != p.exit || !strings.HasSuffix(string(res.Stdout), p.says) {
			r.wrong("exit code %d after %q, not %d after %q", res.ExitCode, tail(res.Stdout), p.exit, p.says)
		}
	}
}

// evidence checks what a result says beside its outcome.
func (r *round) evidence(res *execpolicy.Result, err error, c execpolicy.Command) {
	exited, signaled := res.Outcome == execpolicy.OutcomeExited, res.Outcome == execpolicy.OutcomeSignaled
	if exited != (res.ExitCode >= 0) || res.ExitCode > 255 || signaled != (res.Signal > 0) {
		r.wrong("%v with exit code %d and signal %d", res.Outcome, res.ExitCode, res.Signal)
	}
	causes := map[execpolicy.Outcome]error{execpolicy.OutcomeTimedOut: execpolicy.ErrTimeout,
		execpolicy.OutcomeOutputLimit: execpolicy.ErrOutputLimit}
	canceled := res.Outcome == execpolicy.OutcomeCanceled
	if !canceled && res.Cause != causes[res.Outcome] || canceled && (res.Cause == nil || !errors.Is(err, res.Cause)) {
		r.wrong("%v with the cause %v and the error %v", res.Outcome, res.Cause, err)
	}
	unseen := res.Cause != nil && !res.Gone
	r.suite.stats.see(res.Cause != nil, unseen && !r.ending.away && !r.starved())
	// What can't be known must be said not to be. While the session goes on, a shell that
	// is slow may not come to look.
	blind := r.ending.away || r.starved() || unseen && res.Escalation < execpolicy.EscalationContainer
	if unseen && !blind {
		r.wrong("%v by %v, and nobody has seen that nothing is left: error %v", res.Outcome, res.Escalation, err)
	}
	if unseen && !errors.Is(err, execpolicy.ErrStillThere) {
		r.wrong("%v by %v, and the error of what is not known to be gone is %v", res.Outcome, res.Escalation, err)
	}
	known := res.OOMBefore >= 0 && res.OOMAfter >= 0 && !errors.Is(err, execpolicy.ErrEnded)
	if res.Outcome == execpolicy.OutcomeOOMKilled && known && res.OOMAfter <= res.OOMBefore {
		r.wrong("%v without a kill: %d to %d", res.Outcome, res.OOMBefore, res.OOMAfter)
	}
	if res.Outcome == execpolicy.OutcomeTimedOut && res.Duration < c.Timeout {
		r.wrong("timed out after %v of %v", res.Duration, c.Timeout)
	}
	if res.Outcome == execpolicy.OutcomeOutputLimit && res.StdoutInfo.Bytes+res.StderrInfo.Bytes <= c.OutputLimit {
		r.wrong("the limit of %d was not reached", c.OutputLimit)
	}
	if errors.Is(err, execpolicy.ErrStillThere) && !blind {
		r.wrong("%v", err)
	}
	switch lost := errors.Is(err, execpolicy.ErrEnded); {
	case res.Outcome == execpolicy.OutcomeSessionLost && !lost:
		r.wrong("the error of a lost session is %v", err)
	case res.Outcome == execpolicy.OutcomeCanceled, lost, err == nil, blind:
	case errors.Is(err, os.ErrDeadlineExceeded) && r.any(func(p *program) bool { return p.stuck }):
	case !r.any((*program).mayLose) && !r.ending.loses:
		r.wrong("%v with the error %v", res.Outcome, err)
	}
}

// startJobs starts the programs that are jobs.
func (r *round) startJobs(ctx context.Context) {
	for _, prog := range r.beside(true) {
		var job *execpolicy.Job
		var err error
		r.suite.call(r.plan, "StartJob", shellTimeout+r.suite.termination(), func() {
			job, err = r.session.StartJob(ctx, execpolicy.Command{Script: prog.script})
		})
		switch {
		case err == nil:
			r.jobs = append(r.jobs, job)
		case len(r.jobs) == 0 || !errors.Is(err, execpolicy.ErrStart):
			// A fork bomb may leave no room for the next.
			r.wrong("%s: %v", prog.name, err)
		}
	}
}

// endJobs ends the jobs, if the end of the session has not, and judges how they ended.
// lives says that nobody has closed or restarted the session.
func (r *round) endJobs(ctx context.Context, lives bool) {
	for _, job := range r.jobs {
		var res *execpolicy.Result
		var err error
		r.suite.call(r.plan, "Kill", r.termination(), func() {
			job.Kill(context.WithoutCancel(ctx))
			res, err = job.Wait(context.WithoutCancel(ctx))
		})
		if res == nil {
			r.wrong("a job that was killed: %v", err)
			continue
		}
		r.checkJob(res, err, lives)
		if res.Escalation >= execpolicy.EscalationContainer {
			r.over = true
		}
		if !res.Gone {
			r.left = true
			r.discard()
		}
	}
	r.jobs = nil
}

// checkJob compares the result of a job that was killed with what is honest.
func (r *round) checkJob(res *execpolicy.Result, err error, lives bool) {
	r.evidence(res, err, execpolicy.Command{})
	honest := []execpolicy.Outcome{execpolicy.OutcomeCanceled}
	for _, own := range r.own() {
		if own != execpolicy.OutcomeTimedOut { // it has no deadline
			honest = append(honest, own)
		}
	}
	// A shell for which the time is over may have to kill all that it can.
	shell := r.result != nil && (r.result.StateLost || r.result.Escalation >= execpolicy.EscalationShell)
	if shell || r.any(func(p *program) bool { return p.keeperless }) {
		honest = append(honest, execpolicy.OutcomeSignaled)
	}
	over := r.over || r.result == nil || r.result.Escalation >= execpolicy.EscalationContainer ||
		errors.Is(r.err, execpolicy.ErrEnded)
	if over || r.ending.loses || r.any((*program).mayLose) {
		honest = append(honest, execpolicy.OutcomeSessionLost)
	}
	if !slices.Contains(honest, res.Outcome) {
		r.wrong("the outcome of a job that was killed is %v, step %v, exit code %d, signal %d, error %v; honest are %v",
			res.Outcome, res.Escalation, res.ExitCode, res.Signal, err, honest)
	}
	if lives && !over && res.Outcome == execpolicy.OutcomeCanceled && res.Cause != execpolicy.ErrKilled {
		r.wrong("the cause of a job that was killed is %v", res.Cause)
	}
}

func tail(b []byte) []byte { return b[max(0, len(b)-200):] }

// echo runs a command that can only go well.
func (r *round) echo(ctx context.Context, word string) (string, error) {
	res, err := r.tryEcho(ctx, word, shellTimeout)
	if res == nil {
		return "", err
	}
	if res.Outcome != execpolicy.OutcomeExited || res.ExitCode != 0 {
		err = fmt.Errorf("%v, exit code %d: %w", res.Outcome, res.ExitCode, err)
	}
	return string(res.Stdout), err
}

func (r *round) tryEcho(ctx context.Context, word string, timeout time.Duration) (res *execpolicy.Result, err error) {
	c := execpolicy.Command{Script: `\echo ` + word, Timeout: timeout}
	r.suite.call(r.plan, "a probe", shellTimeout+c.Timeout+r.suite.termination(), func() { res, err = r.session.Run(ctx, c) })
	if res != nil {
		r.evidence(res, err, c)
	}
	return res, err
}

// probes is how many commands hostile code may cost that is said to be gone: one that
// kills the shell may be missed in the next.
const probes = 3

// probe sees whether the session is as good as the result said.
func (r *round) probe(ctx context.Context) {
	if r.result == nil {
		r.discard()
		return
	}
	r.endJobs(ctx, true)
	step := r.result.Escalation
	// What was not ended by the library may live on beside what comes next.
	ended := r.result.Cause != nil
	lies := r.any(func(p *program) bool { return p.lies })
	if ended && !r.left && r.result.Gone && step < execpolicy.EscalationContainer && !r.inside(promptly, 0, r.most()) {
		return
	}
	var said []string
	for i := range probes {
		word := fmt.Sprintf("probe-%d-%d", r.seed, i)
		res, err := r.tryEcho(ctx, word, 2*time.Second)
		if res == nil && !errors.Is(err, execpolicy.ErrEnded) && len(r.own()) > 0 && !r.any((*program).mayLose) {
			// The shell that was to take the lost one's place was killed too. Another may
			// have more luck.
			said = append(said, err.Error())
			continue
		}
		if res == nil || res.Outcome == execpolicy.OutcomeSessionLost || res.Outcome == execpolicy.OutcomeOOMKilled {
			r.discard()
			if !r.any((*program).mayLose) && step < execpolicy.EscalationContainer {
				r.wrong("the session was lost: %v", err)
			}
			return
		}
		step = max(step, res.Escalation)
		out := string(res.Stdout)
		// What lives on may print, too, and more than is kept.
		beside := !ended || r.any(func(p *program) bool { return p.traps })
		if res.Outcome == execpolicy.OutcomeExited && res.ExitCode == 0 &&
			(out == word+"\n" || beside && (strings.Contains(out, word+"\n") || res.StdoutInfo.DroppedBytes > 0)) {
			if ended && !r.left {
				r.inside(leftover.Patient, processesOfSession, processesOfSession)
			}
			if !ended || r.any(func(p *program) bool { return p.ends || p.lies || len(p.own) > 0 }) {
				r.discard()
			}
			return
		}
		said = append(said, fmt.Sprintf("%v %d %q %q, state lost %v, error %v",
			res.Outcome, res.ExitCode, tail(res.Stdout), tail(res.Stderr), res.StateLost, err))
		// What lives on may kill the shell under it.
		killed := !ended && res.ExitCode == 137 && res.StateLost
		if res.Outcome == execpolicy.OutcomeExited && !lies && !killed {
			r.wrong("a probe after %v: %s", r.result.Outcome, said[i])
		}
	}
	r.discard()
	if ended {
		r.wrong("no probe came through after %v: %s", r.result.Outcome, strings.Join(said, "; "))
	}
}

// processesOfSession are process 1, the worker and its parent.
const processesOfSession = 3

// most returns how many processes the session may have right after its command.
func (r *round) most() int {
	if r.result.Escalation == execpolicy.EscalationShell && !r.moved {
		return 1 // nothing has replaced the worker yet
	}
	return processesOfSession
}

// promptly is the patience with what a result says is gone: what the session itself has
// asked inside may take a moment to end.
var promptly = leftover.Patience{Time: 2 * time.Second, Looks: 3}

// inside counts the processes of the container, of which there may be more for a moment,
// and reports whether they are the session's own, from least to most of them.
func (r *round) inside(patience leftover.Patience, least, most int) bool {
	ok := r.insideOf(r.suite.open.id(), patience, least, most)
	if !ok {
		r.discard()
	}
	return ok
}

// insideOf is inside for a container that may be no open session's.
func (r *round) insideOf(id string, patience leftover.Patience, least, most int) bool {
	var of []string
	ok := patience.Until(func() bool {
		of = of[:0]
		for _, p := range processesIn(id) {
			if p.State != "Z" {
				of = append(of, p.String())
			}
		}
		return least <= len(of) && len(of) <= most
	})
	if !ok {
		r.suite.survived(1)
		r.wrong("%d processes are in the container:\n\t\t%s", len(of), strings.Join(of, "\n\t\t"))
	}
	return ok
}

// believe looks whether what the result says to be gone is: all that the command has
// started or, where the container has ended with it, all of the container.
func (r *round) believe(id string) {
	switch {
	case r.result == nil || !r.result.Gone:
	case r.result.Escalation >= execpolicy.EscalationContainer || errors.Is(r.err, execpolicy.ErrEnded):
		if err := r.suite.allDead("Run", id); err != nil {
			r.wrong("%v", err)
		}
	default:
		r.insideOf(id, promptly, 0, r.most())
	}
}
