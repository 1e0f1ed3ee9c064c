//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
)

func TestMain(m *testing.M) {
	if os.Getenv(bystanderVar) != "" {
		tellSignals()
		return
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // or every bystander takes a second to end under -race
	os.Exit(m.Run())
}

// soon is for what is not going to change.
var soon = leftover.Patience{Time: 100 * time.Millisecond}

// testSuite returns a suite whose temporary directory is the test's.
func testSuite(t *testing.T, e enginetest.Engine) *suite {
	s := &suite{id: "test" + filepath.Base(t.TempDir()) + t.Name(), temp: os.Getenv("TMPDIR"), image: e.Image,
		out: io.Discard}
	t.Setenv(markerVar, s.id)
	if e.Engine != nil {
		own := *e.Engine
		own.Env = append(slices.Clip(os.Environ()), own.Env...)
		own.Env = append(own.Env, markerVar+"="+s.id)
		s.engine = &own
		s.labeled = leftover.Engine{Engine: &own, Labels: e.Labels}
	}
	return s
}

// engineless returns a suite without an engine.
func engineless(t *testing.T) *suite {
	enginetest.Check(t)
	return testSuite(t, enginetest.Engine{})
}

// reader starts a process on a pipe, and returns the pipe's other end.
func reader(t *testing.T, script string, args ...string) (*exec.Cmd, io.Closer) {
	t.Helper()
	r, w, err := os.Pipe()
	assert.NilError(t, err)
	defer r.Close()
	cmd := exec.Command("sh", append([]string{"-c", script}, args...)...)
	cmd.Stdin = r
	assert.NilError(t, cmd.Start())
	return cmd, w
}

func TestMarkedProcesses(t *testing.T) {
	s := engineless(t)
	assert.Equal(t, len(all(s.id)), 0)

	// An orphan is no child any more.
	cmd, stdin := reader(t, "exec 3<&0; { read x <&3; read y <&3; } & :")
	defer stdin.Close()
	assert.NilError(t, cmd.Wait())
	assert.Assert(t, leftover.Patient.Until(func() bool { return len(marked(s.id)) == 1 && marked(s.id)[0].Parent != os.Getpid() }))

	guard, guardStdin := reader(t, `sh -c 'sh -c "read x; :"; :'; :`, "cofferdam-guard")
	assert.Assert(t, leftover.Patient.Until(func() bool { return len(all(s.id)) == 4 }))
	assert.Equal(t, len(marked(s.id)), 1)
	guardStdin.Close()
	assert.NilError(t, guard.Wait())

	stdin.Close()
	assert.Assert(t, leftover.Patient.Until(func() bool { return len(all(s.id)) == 0 }))
}

// What stays is told, each kind of it, and what goes is waited for.
func TestSettle(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		s := testSuite(t, e)
		s.idle = s.look()
		stood := standstill()
		left, _ := s.settle(leftover.Patient, s.idle)
		stood()
		assert.Equal(t, len(left), 0, "%q", left)

		session, err := execpolicy.Start(t.Context(), s.policy(settings{}), execpolicy.Spec{Labels: e.Labels})
		assert.NilError(t, err)
		defer session.Close()
		id, err := s.containerID(t.Context(), session.Name())
		assert.NilError(t, err)
		file := filepath.Join(s.temp, "planted")
		assert.NilError(t, os.WriteFile(file, nil, 0o600))

		left, _ = s.settle(soon, s.idle, id)
		for _, kind := range []string{"container " + session.Name(), "file " + file, "descriptor ", "goroutine ",
			"process "} {
			found := slices.ContainsFunc(left, func(what string) bool { return strings.HasPrefix(what, kind) })
			assert.Assert(t, found, "%s is not in %q", kind, left)
		}
		assert.Assert(t, len(processesIn(id)) >= processesOfSession)
		assert.Assert(t, len(aliveIn(id)) >= processesOfSession)

		go func() {
			os.Remove(file)
			session.Close()
		}()
		left, _ = s.settle(leftover.Patient, s.idle, id)
		assert.Equal(t, len(left), 0, "%q", left)
		assert.Equal(t, len(processesIn(id)), 0)
	})
}

// A container that nobody has named is looked into, unless it was there before.
func TestOtherContainersAreSeen(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		s := testSuite(t, e)
		s.idle = s.look()
		session, err := execpolicy.Start(t.Context(), s.policy(settings{}), execpolicy.Spec{Labels: e.Labels})
		assert.NilError(t, err)
		defer session.Close()
		id, err := s.containerID(t.Context(), session.Name())
		assert.NilError(t, err)
		r := &round{suite: s}
		r.seeOthers(t.Context())
		assert.DeepEqual(t, r.containers, []string{id})
		s.open = &opened{session: session, ids: []string{id}, scene: s.look()}
		r = &round{suite: s}
		r.seeOthers(t.Context())
		assert.DeepEqual(t, r.containers, []string(nil))
		assert.DeepEqual(t, r.problems, []string(nil))
	})
}

func TestProcessesInsideAreCounted(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		s := testSuite(t, e)
		session, err := execpolicy.Start(t.Context(), s.policy(settings{}), execpolicy.Spec{Labels: e.Labels})
		assert.NilError(t, err)
		defer session.Close()
		id, err := s.containerID(t.Context(), session.Name())
		assert.NilError(t, err)
		s.open = &opened{session: session, ids: []string{id}}
		r := &round{suite: s, session: session}
		r.inside(leftover.Patient, processesOfSession, processesOfSession)
		assert.DeepEqual(t, r.problems, []string(nil))
		_, err = session.Run(t.Context(), execpolicy.Command{
			Script: `sleep 1000 & until read -r comm </proc/$!/comm && [ "$comm" = sleep ]; do :; done`,
		})
		assert.NilError(t, err)
		r.inside(soon, processesOfSession, processesOfSession)
		assert.Equal(t, len(r.problems), 1)
		assert.Assert(t, strings.Contains(r.problems[0], "sleep"), r.problems[0])
		assert.Equal(t, s.stats.survivors, 1)
	})
}

// What a result or a Close says to be gone is looked for at once.
func TestWhatIsSaidToBeGoneIsLookedFor(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		s := testSuite(t, e)
		session, err := execpolicy.Start(t.Context(), s.policy(settings{}), execpolicy.Spec{Labels: e.Labels})
		assert.NilError(t, err)
		defer session.Close()
		id, err := s.containerID(t.Context(), session.Name())
		assert.NilError(t, err)
		ended := execpolicy.Result{Outcome: execpolicy.OutcomeTimedOut, Cause: execpolicy.ErrTimeout, Gone: true}
		removed, unknown := ended, ended
		removed.Escalation = execpolicy.EscalationRemoval
		unknown.Gone = false
		believe := func(result *execpolicy.Result, err error) string {
			r := &round{suite: s, session: session, result: result, err: err}
			r.believe(id)
			return strings.Join(r.problems, "\n")
		}
		assert.Equal(t, believe(&ended, nil), "")
		assert.Assert(t, strings.Contains(believe(&removed, nil), "alive when Run says"))
		assert.Assert(t, strings.Contains(believe(&ended, execpolicy.ErrEnded), "alive when Run says"))
		_, err = session.Run(t.Context(), execpolicy.Command{Script: `sleep 4869 &`})
		assert.NilError(t, err)
		assert.Assert(t, strings.Contains(believe(&ended, nil), "sleep"))
		assert.Equal(t, believe(&unknown, nil), "")
		assert.Equal(t, believe(nil, execpolicy.ErrEnded), "")
		assert.ErrorContains(t, s.allDead("Close", id), "alive when Close says")

		assert.NilError(t, session.Close())
		assert.NilError(t, s.allDead("Close", id))
		assert.Equal(t, believe(&removed, nil), "")
	})
}

// What the library has ended is looked after, whatever the ending was to be.
func TestWhatCameToItsDeadlineIsLookedAfter(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		s := testSuite(t, e)
		session, err := execpolicy.Start(t.Context(), s.policy(settings{}), execpolicy.Spec{Labels: e.Labels})
		assert.NilError(t, err)
		defer session.Close()
		id, err := s.containerID(t.Context(), session.Name())
		assert.NilError(t, err)
		probe := func(result execpolicy.Result, moved bool) *round {
			s.open = &opened{session: session, ids: []string{id}}
			r := &round{suite: s, session: session, result: &result, moved: moved,
				plan: plan{ending: endings[0], programs: []*program{{name: "hangs", own: hangs}}}}
			r.probe(t.Context())
			return r
		}
		r, err := session.Run(t.Context(), execpolicy.Command{Script: "sleep 4870", Timeout: time.Second / 2})
		assert.NilError(t, err)
		assert.Assert(t, r.Gone)
		assert.Equal(t, strings.Join(probe(*r, false).problems, "\n"), "")
		// A worker that had to be killed leaves process 1 alone.
		loop := execpolicy.Command{Script: "trap '' TERM; while :; do :; done", Timeout: time.Second / 2}
		r, err = session.Run(t.Context(), loop)
		assert.NilError(t, err)
		assert.Equal(t, r.Escalation, execpolicy.EscalationShell)
		assert.Equal(t, strings.Join(probe(*r, false).problems, "\n"), "")

		shell := execpolicy.Result{Outcome: execpolicy.OutcomeTimedOut, Cause: execpolicy.ErrTimeout,
			Escalation: execpolicy.EscalationShell, Gone: true}
		got := probe(shell, false)
		assert.Equal(t, len(got.problems), 1, "%q", got.problems)
		assert.Assert(t, strings.Contains(got.problems[0], "3 processes are in the container"), got.problems[0])
		// A transfer has another worker started.
		assert.Equal(t, strings.Join(probe(shell, true).problems, "\n"), "")

		_, err = session.Run(t.Context(), execpolicy.Command{Script: "sleep 4870 &"})
		assert.NilError(t, err)
		ended := execpolicy.Result{Outcome: execpolicy.OutcomeTimedOut, Cause: execpolicy.ErrTimeout, Gone: true}
		got = probe(ended, false)
		assert.Equal(t, len(got.problems), 1, "%q", got.problems)
		assert.Assert(t, strings.Contains(got.problems[0], "sleep"), got.problems[0])
		assert.Assert(t, s.open.spent)
	})
}

// A round ends its jobs, and tells of those that did not begin.
func TestJobsOfARound(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		s := testSuite(t, e)
		session, err := execpolicy.Start(t.Context(), s.policy(settings{}), execpolicy.Spec{Labels: e.Labels})
		assert.NilError(t, err)
		defer session.Close()
		var deafs []*program
		for _, prog := range programs {
			if prog.name == "deaf job" {
				deafs = append(deafs, prog, prog)
			}
		}
		r := &round{suite: s, session: session, plan: plan{programs: deafs, ending: endings[0]}}
		r.startJobs(t.Context())
		jobs := r.jobs
		assert.Equal(t, len(jobs), 2)
		r.endJobs(t.Context(), true)
		assert.Equal(t, strings.Join(r.problems, "\n"), "")
		for _, j := range jobs {
			res, err := j.Wait(t.Context())
			assert.ErrorIs(t, err, execpolicy.ErrKilled)
			assert.Assert(t, res.Gone)
		}
		assert.NilError(t, session.Close())
		r.startJobs(t.Context())
		assert.Assert(t, len(r.jobs) == 0 && len(r.problems) == 2, "%q", r.problems)
	})
}

func TestBystander(t *testing.T) {
	enginetest.Check(t)
	for name, c := range map[string]struct {
		signal syscall.Signal
		says   string
	}{
		"told to end": {syscall.SIGTERM, "the bystander got the signal terminated"},
		"looked for":  {syscall.SIGCONT, "the bystander got the signal continued"},
		"stopped":     {syscall.SIGSTOP, "the bystander is stopped"},
		"killed":      {syscall.SIGKILL, "the bystander is dead"},
	} {
		t.Run(name, func(t *testing.T) {
			bystander, err := newBystander()
			assert.NilError(t, err)
			defer bystander.close()
			assert.NilError(t, bystander.check())
			defer bystander.cmd.Process.Signal(syscall.SIGCONT)
			assert.NilError(t, bystander.cmd.Process.Signal(c.signal))
			assert.Assert(t, leftover.Patient.Until(func() bool { return bystander.check() != nil }))
			assert.ErrorContains(t, bystander.check(), c.says)
		})
	}
}

func TestCheck(t *testing.T) {
	endless := &program{name: "endless", script: "sleep 1000"}
	says := &program{name: "says", script: "echo said; (exit 3)", ends: true, exit: 3, says: "said\n"}
	byName := map[string]*ending{}
	for _, e := range slices.Concat(endings, dockerEndings) {
		byName[e.name] = e
	}
	const second = time.Second
	timedOut := execpolicy.Result{Outcome: execpolicy.OutcomeTimedOut, ExitCode: -1,
		Cause: execpolicy.ErrTimeout, Duration: second, Gone: true}
	exited := execpolicy.Result{Outcome: execpolicy.OutcomeExited, ExitCode: 3, Stdout: []byte("said\n")}
	lost := execpolicy.Result{Outcome: execpolicy.OutcomeSessionLost, ExitCode: -1}
	early, causeless, unseen, holding := timedOut, timedOut, timedOut, timedOut
	early.Duration = second / 2
	causeless.Cause = nil
	unseen.Gone = false
	holding.Stdout = []byte(held)
	unremoved := unseen
	unremoved.Escalation = execpolicy.EscalationRemoval
	silent, zero, large := exited, exited, exited
	silent.Stdout = nil
	zero.ExitCode = 0
	large.ExitCode = 256
	for name, c := range map[string]struct {
		program *program
		ending  string
		result  execpolicy.Result
		err     error
		wrong   string // of what is said; empty if nothing is
	}{
		"timed out":     {program: endless, ending: "deadline", result: timedOut},
		"exited":        {program: says, ending: "its own end", result: exited},
		"not timed out": {endless, "deadline", silent, nil, "the outcome is exited"},
		"too early":     {endless, "deadline", early, nil, "timed out after 500ms of 1s"},
		"no cause":      {endless, "deadline", causeless, nil, "with the cause <nil>"},
		"not looked":    {endless, "deadline", unseen, nil, "the error of what is not known"},
		"not removed":   {endless, "deadline", unremoved, execpolicy.ErrStillThere, "nobody has seen"},
		"not sure":      {endless, "deadline", unseen, execpolicy.ErrStillThere, ""},
		"still there":   {endless, "deadline", timedOut, execpolicy.ErrStillThere, "not known to be gone"},
		"unknown":       {endless, "engine stopped", unseen, execpolicy.ErrStillThere, ""},
		"got hold":      {endless, "deadline", holding, nil, "process 1 was got hold of"},
		"other status":  {says, "its own end", zero, nil, "exit code 0"},
		"other words":   {says, "its own end", silent, nil, `after ""`},
		"no status":     {says, "its own end", large, nil, "with exit code 256"},
		"lost":          {endless, "client killed", lost, execpolicy.ErrEnded, ""},
		"lost silently": {endless, "client killed", lost, nil, "the error of a lost session"},
		"lost by none":  {endless, "deadline", lost, execpolicy.ErrEnded, "the outcome is session lost"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &round{suite: &suite{}, plan: plan{programs: []*program{c.program}, ending: byName[c.ending]},
				result: &c.result, err: c.err}
			r.check(execpolicy.Command{Timeout: second})
			if c.wrong == "" {
				assert.DeepEqual(t, r.problems, []string(nil))
				return
			}
			assert.Assert(t, strings.Contains(strings.Join(r.problems, "\n"), c.wrong), "%q", r.problems)
		})
	}
}

// What comes after a cancel is not the deadline, and comes in time.
func TestCanceled(t *testing.T) {
	canceled := execpolicy.Result{Outcome: execpolicy.OutcomeCanceled, ExitCode: -1, Cause: errCanceled, Gone: true}
	timedOut := execpolicy.Result{Outcome: execpolicy.OutcomeTimedOut, ExitCode: -1, Cause: execpolicy.ErrTimeout}
	exited := execpolicy.Result{Outcome: execpolicy.OutcomeExited}
	for name, c := range map[string]struct {
		result execpolicy.Result
		err    error
		after  time.Duration
		wrong  string // of what is said; empty if nothing is
	}{
		"canceled":          {canceled, errCanceled, time.Second, ""},
		"canceled late":     {canceled, errCanceled, terminationTimeout + 1, "past its end"},
		"another's error":   {canceled, context.Canceled, time.Second, "the error of a canceled command"},
		"to its deadline":   {timedOut, nil, farTimeout, "timed out came 20s after the cancel"},
		"at a deadline":     {timedOut, nil, 0, "timed out came"},
		"by itself":         {exited, nil, time.Second, ""},
		"by itself at last": {exited, nil, terminationTimeout + 1, "exited came"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &round{suite: &suite{}, result: &c.result, err: c.err,
				plan: plan{programs: []*program{{name: "hangs", own: hangs}}, ending: endings[2]}}
			r.canceled(c.after)
			if c.wrong == "" {
				assert.DeepEqual(t, r.problems, []string(nil))
				return
			}
			assert.Assert(t, strings.Contains(strings.Join(r.problems, "\n"), c.wrong), "%q", r.problems)
		})
	}
}

// A job that was killed says so, unless the programs or the end of the session were there
// first.
func TestCheckJob(t *testing.T) {
	plain, killer := &program{name: "plain"}, &program{name: "killer", own: kills}
	hanging, losing := &program{name: "hanging", own: hangs}, &program{name: "losing", own: loses}
	keeperless := &program{name: "keeperless", job: true, keeperless: true}
	killed := execpolicy.Result{Outcome: execpolicy.OutcomeCanceled, ExitCode: -1, Cause: execpolicy.ErrKilled, Gone: true}
	closed := killed
	closed.Cause = execpolicy.ErrClosed
	timedOut := killed
	timedOut.Outcome, timedOut.Cause = execpolicy.OutcomeTimedOut, execpolicy.ErrTimeout
	exited := execpolicy.Result{Outcome: execpolicy.OutcomeExited}
	signaled := execpolicy.Result{Outcome: execpolicy.OutcomeSignaled, ExitCode: -1, Signal: 9}
	lost := execpolicy.Result{Outcome: execpolicy.OutcomeSessionLost, ExitCode: -1}
	going := execpolicy.Result{Outcome: execpolicy.OutcomeExited}
	var shell, container execpolicy.Result
	shell.Escalation, container.Escalation = execpolicy.EscalationShell, execpolicy.EscalationContainer
	const wrong = "the outcome of a job that was killed is "
	for name, c := range map[string]struct {
		program *program
		ending  *ending
		round   *execpolicy.Result // of the command; nil if it did not run
		result  execpolicy.Result
		err     error
		wrong   string // of what is said; empty if nothing is
	}{
		"killed":             {plain, endings[0], &going, killed, execpolicy.ErrKilled, ""},
		"closed":             {plain, endings[0], &going, closed, execpolicy.ErrClosed, "the cause of a job"},
		"closed with all":    {plain, endings[0], &container, closed, execpolicy.ErrClosed, ""},
		"exited":             {plain, endings[0], &going, exited, nil, wrong + "exited"},
		"exited by a kill":   {killer, endings[0], &going, exited, nil, ""},
		"signaled":           {plain, endings[0], &going, signaled, nil, wrong + "signaled"},
		"signaled by a kill": {killer, endings[0], &going, signaled, nil, ""},
		"with its keeper":    {keeperless, endings[0], &going, signaled, nil, ""},
		"exited with it":     {keeperless, endings[0], &going, exited, nil, wrong + "exited"},
		"with the shell":     {plain, endings[0], &shell, signaled, nil, ""},
		"timed out":          {hanging, endings[0], &going, timedOut, nil, wrong + "timed out"},
		"lost":               {plain, endings[0], &going, lost, execpolicy.ErrEnded, wrong + "session lost"},
		"lost by a kill":     {killer, endings[0], &going, lost, execpolicy.ErrEnded, wrong + "session lost"},
		"lost by a program":  {losing, endings[0], &going, lost, execpolicy.ErrEnded, ""},
		"lost by the ending": {plain, endings[len(endings)-1], &going, lost, execpolicy.ErrEnded, ""},
		"lost with all":      {plain, endings[0], &container, lost, execpolicy.ErrEnded, ""},
		"lost before":        {losing, endings[0], nil, lost, execpolicy.ErrEnded, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := &round{suite: &suite{}, result: c.round, plan: plan{programs: []*program{c.program}, ending: c.ending}}
			r.checkJob(&c.result, c.err, true)
			said := strings.Join(r.problems, "\n")
			if c.wrong == "" {
				// The error of a lost session is judged elsewhere.
				assert.Assert(t, !strings.Contains(said, "of a job"), "%q", said)
				return
			}
			assert.Assert(t, strings.Contains(said, c.wrong), "%q", said)
		})
	}
}

func TestBounds(t *testing.T) {
	enough := func(d time.Duration) durations { return slices.Repeat(durations{d}, 9) }
	for name, c := range map[string]struct {
		stats stats
		peak  int64
		says  string
	}{
		"all well":    {stats{obeying: enough(obeyingBound), others: enough(othersBound), killed: enough(goneBound)}, memoryBound, ""},
		"obeying":     {stats{obeying: enough(obeyingBound + 1)}, 0, "half of the programs that obey"},
		"others":      {stats{others: enough(othersBound + 1)}, 0, "half of the others"},
		"worst":       {stats{others: durations{terminationTimeout + 1}}, 0, "one took more"},
		"a close":     {stats{closes: durations{terminationTimeout + 1}}, 0, "one took more"},
		"gone late":   {stats{killed: enough(goneBound + 1)}, 0, "what a killed program left"},
		"closed late": {stats{gone: enough(goneBound + 1)}, 0, "what a Close left"},
		"not seen":    {stats{ended: 20, unseen: 3}, 0, "not seen to be gone"},
		"memory":      {stats{}, memoryBound + 1, "the suite took more"},
		"a survivor":  {stats{survivors: 1}, 0, "not as they should be"},
		"a hang":      {stats{hangs: 1}, 0, "not as they should be"},
		"a bad round": {stats{bad: 1}, 0, "not as they should be"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.stats.print(io.Discard, c.peak, terminationTimeout)
			if c.says == "" {
				assert.NilError(t, err)
			} else {
				assert.ErrorContains(t, err, c.says)
			}
		})
	}
	memory, err := peak()
	assert.NilError(t, err)
	assert.Assert(t, memory > 1<<20)
}

func TestLateCallsAreHangs(t *testing.T) {
	s := &suite{out: io.Discard}
	p := plan{programs: programs[:1], ending: endings[0]}
	s.call(p, "a call", time.Minute, func() {})
	assert.Equal(t, s.stats.hangs, 0)
	s.call(p, "a call", -2*slack, func() {})
	assert.Equal(t, s.stats.hangs, 1)
}

// What keeps nobody from their time does not make a killed program's container stay.
func TestGoneLate(t *testing.T) {
	byName := map[string]*ending{}
	for _, e := range slices.Concat(endings, dockerEndings) {
		byName[e.name] = e
	}
	plain, killer := &program{name: "plain"}, &program{name: "killer", own: kills}
	for _, c := range []struct {
		ending   string
		programs []*program
		settings settings
		wrong    bool
	}{
		{"host killed", []*program{plain}, settings{}, true},
		{"host killed at its start", []*program{plain, plain}, settings{}, true},
		{"host killed in a transfer", []*program{plain}, settings{engineSeccomp: true}, true},
		{"host killed", []*program{plain, killer}, settings{}, false},
		{"host killed", []*program{{starves: true}}, settings{}, false},
		{"host killed", []*program{{idles: true}}, settings{}, false},
		{"host killed in a transfer", []*program{{hinders: true}}, settings{}, false},
		{"host killed", []*program{plain}, settings{egress: true}, false},
		{"engine killed", []*program{plain}, settings{}, false},
		{"close", []*program{plain}, settings{}, false},
	} {
		p := plan{ending: byName[c.ending], programs: c.programs, settings: c.settings}
		bound := goneBound + slack
		if p.ending.starts {
			bound += shellTimeout
		}
		assert.NilError(t, p.goneLate(bound, 0), p.String())
		assert.NilError(t, p.goneLate(bound+time.Second, time.Second), p.String())
		assert.Equal(t, p.goneLate(bound+1, 0) != nil, c.wrong, p.String())
	}
}

// A transfer may fail for what the programs do, and may cost the session only for some of
// that.
func TestCheckTransfer(t *testing.T) {
	plain := &program{name: "plain"}
	killer := &program{name: "killer", own: kills}
	hinders := &program{name: "hinders", hinders: true}
	starves := &program{name: "starves", starves: true, own: loses}
	idles := &program{name: "idles", idles: true, own: hangs}
	lost := fmt.Errorf("%w: %w", context.DeadlineExceeded, execpolicy.ErrEnded)
	unknown := errors.Join(lost, execpolicy.ErrStillThere)
	for name, c := range map[string]struct {
		program  *program
		settings settings
		err      error
		wrong    string // of what is said; empty if nothing is
	}{
		"done":            {program: plain},
		"failed":          {program: killer, err: execpolicy.ErrTransfer},
		"late":            {program: hinders, err: context.DeadlineExceeded},
		"lost":            {program: hinders, err: lost},
		"starved":         {program: starves, err: unknown, settings: settings{engineSeccomp: true}},
		"idle":            {program: idles, err: lost, settings: settings{engineSeccomp: true}},
		"idle by none":    {program: idles, err: lost, wrong: "cost the session"},
		"failed by none":  {program: plain, err: execpolicy.ErrTransfer, wrong: "the transfer failed"},
		"late by none":    {program: plain, err: context.DeadlineExceeded, wrong: "deadline exceeded"},
		"lost by a kill":  {program: killer, err: lost, wrong: "cost the session"},
		"not known":       {program: hinders, err: unknown, wrong: "not known to be gone"},
		"starved by none": {program: starves, err: unknown, wrong: "not known to be gone"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &round{suite: &suite{}, plan: plan{programs: []*program{c.program}, settings: c.settings}}
			r.checkTransfer("a transfer", c.err)
			if c.wrong == "" {
				assert.DeepEqual(t, r.problems, []string(nil))
				return
			}
			assert.Assert(t, strings.Contains(strings.Join(r.problems, "\n"), c.wrong), "%q", r.problems)
		})
	}
}

// A guard that an earlier round has stopped can be killed.
func TestStrikeOfAStoppedGuard(t *testing.T) {
	s := engineless(t)
	guard, stdin := reader(t, "read x; :", "cofferdam-guard")
	assert.Assert(t, leftover.Patient.Until(func() bool { return len(guardsOf(os.Getpid())) == 1 }))
	for _, fate := range []fate{stopped, killed} {
		r := &round{suite: s, plan: plan{guard: fate}}
		r.strike(os.Getpid(), true)
		assert.DeepEqual(t, r.problems, []string(nil))
	}
	assert.Equal(t, len(guardsOf(os.Getpid())), 0)
	assert.NilError(t, stdin.Close())
	assert.ErrorContains(t, guard.Wait(), "killed")
}

// The guard that is struck is the program's own, and one that was stopped goes on
// afterwards.
func TestStrike(t *testing.T) {
	for fate, want := range map[fate]string{killed: "", stopped: "T"} {
		t.Run(string(fate), func(t *testing.T) {
			s := engineless(t)
			r := &round{suite: s, plan: plan{guard: fate}}
			r.strike(os.Getpid(), false)
			assert.DeepEqual(t, r.problems, []string(nil))
			r.strike(os.Getpid(), true)
			assert.Equal(t, len(r.problems), 1)
			assert.Equal(t, s.stats.guards[fate], 2)

			const waits = "read x; :"
			own, ownStdin := reader(t, waits, "cofferdam-guard")
			other, otherStdin := reader(t, waits, "other")
			// Another's: its parent is not this process.
			parent, parentStdin := reader(t, "sh -c 'read x; :' cofferdam-guard; :", "parent")
			state := func(pid int) string {
				for _, p := range leftover.Processes() {
					if p.PID == pid && p.State != "Z" {
						return p.State
					}
				}
				return ""
			}
			assert.Assert(t, leftover.Patient.Until(func() bool {
				theirs := guardsOf(parent.Process.Pid)
				return len(all(s.id)) == 4 && len(guardsOf(os.Getpid())) == 1 && state(other.Process.Pid) == "S" &&
					len(theirs) == 1 && theirs[0].State == "S"
			}))
			r = &round{suite: s, plan: plan{guard: fate}}
			r.strike(os.Getpid(), true)
			assert.DeepEqual(t, r.problems, []string(nil))
			assert.Equal(t, state(own.Process.Pid), want)
			assert.Equal(t, state(other.Process.Pid), "S")
			theirs := guardsOf(parent.Process.Pid)
			assert.Equal(t, len(theirs), 1)
			assert.Equal(t, theirs[0].State, "S")
			s.letGo()
			for _, stdin := range []io.Closer{ownStdin, otherStdin, parentStdin} {
				stdin.Close()
			}
			err := own.Wait()
			assert.Equal(t, err == nil, fate == stopped, "%v", err)
			assert.NilError(t, other.Wait())
			assert.NilError(t, parent.Wait())
		})
	}
}

// A process is said to be stopped when all of its threads are.
func TestFreeze(t *testing.T) {
	enginetest.Check(t)
	cmd, stdin := reader(t, "read x; :")
	assert.NilError(t, freeze(cmd.Process))
	assert.DeepEqual(t, threads(cmd.Process.Pid), []string{"T"})
	assert.NilError(t, cmd.Process.Signal(syscall.SIGCONT))
	stdin.Close()
	assert.NilError(t, cmd.Wait())
}

// In half of the rounds something becomes of the guard, and never in a round before one
// that may share its session and leaves it alone.
func TestFates(t *testing.T) {
	s := &suite{engine: &dockercli.Engine{}}
	const rounds = 100 * sameSettings
	count := map[fate]int{}
	for seed := range uint64(rounds) {
		p := s.plan(seed)
		count[p.guard]++
		assert.Equal(t, strings.HasSuffix(p.String(), ", guard "+string(p.guard)), p.guard != "", p.String())
		if seed%sameSettings > 0 {
			before := s.plan(seed - 1).guard
			assert.Assert(t, before == "" || before == p.guard)
		}
	}
	assert.Equal(t, count[""], rounds/2)
	assert.Assert(t, count[killed] > count[stopped] && count[stopped] > 0, "%v", count)
}

// A seed is all that it takes to do a round again.
func TestPlans(t *testing.T) {
	s := &suite{engine: &dockercli.Engine{}}
	seen := map[string]bool{}
	for seed := range uint64(3000) {
		p := s.plan(seed)
		assert.Equal(t, p.String(), s.plan(seed).String())
		assert.Equal(t, p.script(), s.plan(seed).script())
		set := newSettings(seed - seed%sameSettings)
		set.egress = set.egress && os.Geteuid() == 0
		assert.Equal(t, p.settings, set)
		assert.Equal(t, strings.HasPrefix(p.script(), callOut), set.egress)
		seen["keep-alive"] = seen["keep-alive"] || set.keepAlive
		for _, prog := range p.programs {
			seen[prog.name] = true
		}
		// What runs as a job runs nowhere else.
		if worker := p.beside(false); len(worker) > 0 {
			assert.Equal(t, p.script(), plan{settings: set, programs: worker, ending: p.ending}.script())
		}
		seen[p.ending.name] = true
	}
	for _, prog := range programs {
		assert.Assert(t, seen[prog.name], prog.name)
	}
	assert.Assert(t, seen["keep-alive"])
	for _, e := range slices.Concat(endings, dockerEndings) {
		assert.Assert(t, seen[e.name], e.name)
	}
}

// A program with an error in it would do no harm. Nothing of them is ever given to a
// shell of the host, not even to be read.
func TestProgramsCanBeRead(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		s := testSuite(t, e)
		session, err := execpolicy.Start(t.Context(), s.policy(settings{}), execpolicy.Spec{Labels: e.Labels})
		assert.NilError(t, err)
		defer session.Close()
		for _, prog := range programs {
			for _, e := range []*ending{endings[0], endings[1], endings[3]} {
				text := prog.script
				if !prog.job {
					text = plan{programs: []*program{prog, prog}, ending: e}.script()
				}
				r, err := session.Run(t.Context(), execpolicy.Command{Argv: []string{"sh", "-n", "-c", text}})
				assert.NilError(t, err)
				assert.Equal(t, r.ExitCode, 0, "%s: %s", prog.name, r.Stderr)
			}
			_, text, ok := strings.Cut(prog.script, "python3 -c '")
			assert.Equal(t, ok, prog.needs == "python3", prog.name)
			if !ok {
				continue
			}
			text, _, _ = strings.Cut(text, "'")
			compile := []string{"python3", "-c", "import sys; compile(sys.argv[1], 'program', 'exec')", text}
			r, err := session.Run(t.Context(), execpolicy.Command{Argv: compile})
			assert.NilError(t, err)
			assert.Equal(t, r.ExitCode, 0, "%s: %s", prog.name, r.Stderr)
		}
	})
}
