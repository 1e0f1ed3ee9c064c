//go:build linux

package execpolicy_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

// forkBombs are jobs that fork as fast as they can, within the process limit, and print
// "begun" before that.
var forkBombs = map[string]execpolicy.Command{
	"shells": {Script: "trap '' TERM; echo begun; f() { f & f & sleep 1000; }; f"},
	"programs": {Argv: []string{"python3", "-c", `
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("begun", flush=True)
while True:
    try: os.fork()
    except OSError: pass`}},
	// Each lives for a moment only, and is no longer its parent's when that has ended.
	// The first waits, or the job would end by itself.
	"a chain": {Argv: []string{"python3", "-c", `
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("begun", flush=True)
first = os.getpid()
for i in range(6): os.fork()
while os.getpid() == first: signal.pause()
while True:
    try:
        if os.fork(): os._exit(0)
    except OSError: pass`}},
	"one that lets itself go on": {Argv: []string{"python3", "-c", `
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("begun", flush=True)
while True:
    try: os.fork()
    except OSError: pass
    try: os.kill(-1, signal.SIGCONT)
    except OSError: pass`}},
}

// A job that forks as fast as it can is ended with proof, and the session's shell and its
// other jobs go on.
func TestForkBombInAJob(t *testing.T) {
	enginetest.Alone(t)
	withEachShell(t, func(t *testing.T, p place, _ string) {
		policy := p.policy()
		policy.PidsLimit, policy.TerminationTimeout = 128, ample
		s := open(t, policy, p.spec())
		defer s.Close()
		s.ok("kept=1")
		other := s.job(execpolicy.Command{Script: "echo begun; while read line; do echo got $line; done"})
		s.prints(other, "begun")
		v := p.victim(t, s.Name())
		for name, bomb := range forkBombs {
			j := s.job(bomb)
			s.prints(j, "begun")
			wait(t, func() bool { return len(v.left()) > 30 }, "%s: it does not fork", name)
			enginetest.Within(t, policy.TerminationTimeout+slack, name, func() { assert.NilError(t, j.Kill(t.Context()), name) })
			r, _ := s.result(j)
			assert.Assert(t, r.Gone && r.Outcome == execpolicy.OutcomeCanceled && errors.Is(r.Cause, execpolicy.ErrKilled), "%s: %+v", name, r)
			wait(t, func() bool { return len(v.left()) < 10 }, "%s: %d processes are left", name, len(v.left()))
			assert.Equal(t, s.ok("echo $kept"), "1", name)
			_, err := io.WriteString(other.Stdin(), name+"\n")
			assert.NilError(t, err)
			s.prints(other, "got "+name)
		}
	})
}

// Why a job has ended is told by the first of what ends it, and not by a status.
func TestCauseOfTheEndOfAJob(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		const waits = "trap '' TERM; echo begun; while :; do sleep 1000; done"
		for name, worker := range workersAt(t, p) {
			spec := p.spec()
			spec.Command = worker
			s := open(t, policy, spec)
			defer s.Close()
			for _, c := range []struct {
				name    string
				c       execpolicy.Command
				kill    bool
				outcome execpolicy.Outcome
				cause   error
				code    int
				signal  int
			}{
				{"killed", execpolicy.Command{Script: waits}, true, execpolicy.OutcomeCanceled, execpolicy.ErrKilled, -1, 0},
				{"killed, and exits", execpolicy.Command{Script: "trap 'exit 137' TERM; " + waits[len("trap '' TERM; "):] + " & wait"}, true,
					execpolicy.OutcomeCanceled, execpolicy.ErrKilled, -1, 0},
				{"deadline", execpolicy.Command{Script: waits, Timeout: short}, false, execpolicy.OutcomeTimedOut, execpolicy.ErrTimeout, -1, 0},
				{"limit", execpolicy.Command{Script: "trap '' TERM; yes; " + waits, OutputLimit: 1000}, false,
					execpolicy.OutcomeOutputLimit, execpolicy.ErrOutputLimit, -1, 0},
				{"its own signal", execpolicy.Command{Script: "kill -9 $$"}, false, execpolicy.OutcomeSignaled, nil, -1, 9},
				{"its own signal, ended by SIGTERM", execpolicy.Command{Argv: []string{"sh", "-c", "kill -15 $$"}}, false, execpolicy.OutcomeSignaled, nil, -1, 15},
				{"its own status", execpolicy.Command{Script: "exit 137"}, false, execpolicy.OutcomeExited, nil, 137, 0},
				{"its program's signal", execpolicy.Command{Script: "sh -c 'kill -9 $$'; exit $?"}, false, execpolicy.OutcomeExited, nil, 137, 0},
				{"its keeper's signal", execpolicy.Command{Script: "kill -9 $PPID; sleep 1000"}, false, execpolicy.OutcomeSignaled, nil, -1, 9},
			} {
				what := name + ": " + c.name
				j := s.job(c.c)
				if c.kill {
					s.prints(j, "begun")
					assert.NilError(t, j.Kill(t.Context()), what)
				}
				r, _ := s.result(j)
				assert.Equal(t, r.Outcome, c.outcome, what)
				assert.Assert(t, errors.Is(r.Cause, c.cause), "%s: %v", what, r.Cause)
				assert.Equal(t, r.ExitCode, c.code, what)
				assert.Equal(t, r.Signal, c.signal, what)
			}
		}
	})
}

// What has stopped itself, or all around it, is ended as anything else, also if it goes
// on and does so again.
func TestStoppedJobsAndCommands(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		for name, worker := range workersAt(t, p) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				spec := p.spec()
				spec.Command = worker
				s := open(t, policy, spec)
				defer s.Close()
				for _, stops := range []string{
					"kill -STOP $$",
					"kill -STOP 0",
					"kill -STOP -1; kill -STOP $$",
					"while :; do kill -STOP $$; done",
					"(while :; do sleep 0.01; kill -CONT -1; done) & while :; do kill -STOP $$; done",
				} {
					script := "trap '' TERM; echo begun; " + stops + "; while :; do sleep 1000; done"
					j := s.job(execpolicy.Command{Script: script})
					s.prints(j, "begun")
					assert.NilError(t, j.Kill(t.Context()), stops)
					r, _ := s.result(j)
					assert.Assert(t, r.Gone && r.Outcome == execpolicy.OutcomeCanceled, "%s: %+v", stops, r)
					r, _ = s.result(s.job(execpolicy.Command{Script: script, Timeout: short}))
					assert.Assert(t, r.Gone && r.Outcome == execpolicy.OutcomeTimedOut, "%s: %+v", stops, r)

					r = s.run(execpolicy.Command{Script: script, Timeout: short})
					assert.Assert(t, r.Gone && r.Outcome == execpolicy.OutcomeTimedOut, "%s: %+v", stops, r)
					ctx, cancel := context.WithCancel(t.Context())
					long := s.start(ctx, execpolicy.Command{Script: script})
					cancel()
					<-long.done
					assert.Assert(t, long.result.Gone && long.result.Outcome == execpolicy.OutcomeCanceled, "%s: %+v", stops, long.result)
					assert.Equal(t, s.ok("echo on"), "on", stops)
				}
			})
		}
	})
}
