package execpolicy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/redact"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

// onTransports runs f on each engine, over each transport or, with -short, over one.
func onTransports(t *testing.T, f func(t *testing.T, p place, policy placePolicy)) {
	onEngines(t, func(t *testing.T, p place) {
		if p.engine == clusterEngine {
			f(t, p, p.policy())
			return
		}
		var policies []placePolicy
		for _, transport := range []execpolicy.Transport{execpolicy.TransportAuto, execpolicy.TransportAttach} {
			policy := p.policy()
			policy.Transport = transport
			found, _, err := policy.FindTransport(t.Context())
			if err == nil && (transport == execpolicy.TransportAttach || found != execpolicy.TransportAttach) {
				policies = append(policies, policy)
			}
		}
		for _, policy := range enginetest.Chosen(t, policies) {
			t.Run(policy.Transport.String(), func(t *testing.T) { f(t, p, policy) })
		}
	})
}

// overFIFOs returns the policy of sessions over FIFOs, or leaves the test out where there
// are none.
func (p place) overFIFOs(t *testing.T) placePolicy {
	t.Helper()
	policy := p.policy()
	policy.Transport = execpolicy.TransportFIFO
	if _, _, err := policy.FindTransport(t.Context()); err != nil {
		leftout.Skip(t, "%v", err)
	}
	return policy
}

// job starts a job that is expected to begin. It is ended with the session.
func (s session) job(c execpolicy.Command) *execpolicy.Job {
	s.t.Helper()
	j, err := s.StartJob(s.t.Context(), c)
	assert.NilError(s.t, err)
	return j
}

// result waits for the end of a job.
func (s session) result(j *execpolicy.Job) (*execpolicy.Result, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	r, err := j.Wait(ctx)
	assert.Assert(s.t, r != nil, "%v", err)
	return r, err
}

// prints waits until the job has printed a text.
func (s session) prints(j *execpolicy.Job, text string) {
	s.t.Helper()
	wait(s.t, func() bool {
		return strings.Contains(string(j.Output().Stdout), text)
	}, "no %q", text)
}

func TestJobEnds(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		for name, worker := range workersAt(t, p) {
			t.Run(name, func(t *testing.T) {
				spec := p.spec()
				spec.Command, spec.Env = worker, map[string]string{"SESSION": "it's\n\"two\" lines"}
				s := open(t, policy, spec)
				defer s.Close()
				s.ok("mkdir d; cd d")
				const count = "set -- /proc/[0-9]*; echo $#"
				before := s.ok(count)
				for _, c := range []struct {
					c        execpolicy.Command
					outcome  execpolicy.Outcome
					code     int
					signal   int
					out, err string
				}{
					{c: execpolicy.Command{Script: "echo out; echo err >&2; exit 3"}, outcome: execpolicy.OutcomeExited, code: 3, out: "out\n", err: "err\n"},
					{c: execpolicy.Command{Script: "printf a\nprintf \"b'c\"\nfalse"}, outcome: execpolicy.OutcomeExited, code: 1, out: "ab'c"},
					{c: execpolicy.Command{Script: `printf %s "$SESSION$MINE"`, Env: map[string]string{"MINE": "x\n"}}, outcome: execpolicy.OutcomeExited, out: "it's\n\"two\" linesx\n"},
					{c: execpolicy.Command{Script: "pwd"}, outcome: execpolicy.OutcomeExited, out: "/workspace/d\n"},
					{c: execpolicy.Command{Argv: []string{"pwd"}, Dir: ".."}, outcome: execpolicy.OutcomeExited, out: "/workspace\n"},
					{c: execpolicy.Command{Argv: []string{"sh", "-c", `printf %s "$1"; exit 137`, "sh", "a\nb'"}}, outcome: execpolicy.OutcomeExited, code: 137, out: "a\nb'"},
					{c: execpolicy.Command{Argv: []string{"sh", "-c", "kill -9 $$"}}, outcome: execpolicy.OutcomeSignaled, code: -1, signal: 9},
					{c: execpolicy.Command{Argv: []string{"sh", "-c", "kill -TERM $$"}}, outcome: execpolicy.OutcomeSignaled, code: -1, signal: 15},
					{c: execpolicy.Command{Argv: []string{"sh", "-c", "kill -SEGV $$"}}, outcome: execpolicy.OutcomeSignaled, code: -1, signal: 11},
					{c: execpolicy.Command{Argv: []string{"cat"}, Stdin: strings.NewReader("a\x00b")}, outcome: execpolicy.OutcomeExited, out: "a\x00b"},
					{c: execpolicy.Command{Script: "for"}, outcome: execpolicy.OutcomeExited, code: 2, err: "*"},
				} {
					j := s.job(c.c)
					r, err := s.result(j)
					assert.NilError(t, err)
					what := fmt.Sprintf("%+v: %s %s", c.c, r.Stdout, r.Stderr)
					assert.Equal(t, r.Outcome, c.outcome, what)
					if c.err != "*" {
						assert.Equal(t, r.ExitCode, c.code, what)
						assert.Equal(t, string(r.Stderr), c.err, what)
					}
					assert.Equal(t, r.Signal, c.signal, what)
					assert.Equal(t, string(r.Stdout), c.out, what)
				}
				j := s.job(execpolicy.Command{Argv: []string{"/nowhere/at all"}})
				r, err := s.result(j)
				assert.NilError(t, err)
				assert.Equal(t, r.ExitCode, 127)
				_, err = s.StartJob(t.Context(), execpolicy.Command{Script: "true", Dir: "/nowhere"})
				assert.ErrorIs(t, err, execpolicy.ErrNoDir)
				assert.Equal(t, s.ok("pwd"), "/workspace/d")
				// A job does not start elsewhere in silence.
				s.ok("for i in 1 2 3 4 5; do mkdir -p $(printf %0250d $i) && cd $(printf %0250d $i) || exit; done")
				for _, dir := range []string{"", "sub"} {
					_, err = s.StartJob(t.Context(), execpolicy.Command{Script: "true", Dir: dir})
					assert.ErrorIs(t, err, execpolicy.ErrNoDir)
					assert.ErrorContains(t, err, "not known")
				}
				_, err = s.result(s.job(execpolicy.Command{Script: "true", Dir: "/"}))
				assert.NilError(t, err)
				s.ok("cd /workspace/d")
				wait(t, func() bool { return s.ok(count) == before }, "processes of jobs live on")
			})
		}
	})
}

// A job runs beside commands, and neither waits for the other.
func TestJobBesideCommands(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		s := open(t, policy, p.spec())
		defer s.Close()
		long := s.start(t.Context(), execpolicy.Command{Script: "echo begun; sleep 1000"})
		j := s.job(execpolicy.Command{Argv: []string{"cat"}})
		_, err := io.WriteString(j.Stdin(), "live\n")
		assert.NilError(t, err)
		s.prints(j, "live\n")
		select {
		case <-long.done:
			t.Fatal("the command has ended")
		default:
		}
		s.t = t
		_, err = io.WriteString(j.Stdin(), "again\n")
		assert.NilError(t, err)
		s.prints(j, "again\n")
		assert.NilError(t, j.Stdin().Close())
		r, err := s.result(j)
		assert.NilError(t, err)
		assert.Equal(t, string(r.Stdout), "live\nagain\n")
		assert.Equal(t, r.Timeout, time.Duration(-1))
	})
}

func TestJobIsKilled(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		s := open(t, policy, p.spec())
		defer s.Close()
		s.ok("kept=1")
		other := s.job(execpolicy.Command{Script: "sleep 1001; :"})
		for _, script := range []string{
			"echo begun; sleep 1000",
			"trap '' TERM; echo begun; while :; do sleep 1000; done",
			"setsid sh -c 'trap \"\" TERM; sleep 1000; :' & (sleep 1000 &) ; sleep 1000 & echo begun; sleep 1000; :",
		} {
			j := s.job(execpolicy.Command{Script: script})
			s.prints(j, "begun")
			assert.NilError(t, j.Kill(t.Context()), script)
			r, err := s.result(j)
			assert.ErrorIs(t, err, execpolicy.ErrKilled)
			assert.Equal(t, r.Outcome, execpolicy.OutcomeCanceled)
			assert.Assert(t, r.Gone)
			assert.Equal(t, string(r.Stdout), "begun\n")
			assert.Assert(t, r.Escalation == execpolicy.EscalationTerm || r.Escalation == execpolicy.EscalationKill)
			assert.ErrorIs(t, j.Signal(t.Context(), "SIGTERM"), execpolicy.ErrJobEnded)
			_, err = j.Stdin().Write([]byte("x"))
			assert.Assert(t, err != nil)
		}
		s.gone("sleep 1000")
		assert.Assert(t, s.lives("sleep 1001"))
		assert.Equal(t, s.ok("echo $kept"), "1")
		assert.NilError(t, other.Kill(t.Context()))

		j := s.job(execpolicy.Command{Script: "echo begun; sleep 1000", Timeout: 100 * time.Millisecond})
		r, err := s.result(j)
		assert.NilError(t, err)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
		assert.ErrorIs(t, r.Cause, execpolicy.ErrTimeout)
		assert.Assert(t, r.Gone)
		j = s.job(execpolicy.Command{Script: "yes", OutputLimit: 1000})
		r, err = s.result(j)
		assert.NilError(t, err)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeOutputLimit)
	})
}

// A command that is ended leaves jobs alone, and what they have begun meanwhile.
func TestJobSurvivesCommand(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		s := open(t, policy, p.spec())
		defer s.Close()
		before := s.job(execpolicy.Command{Script: "while read line; do (sleep 1001 & sleep 1002 & echo $line); done"})
		ctx, cancel := context.WithCancel(t.Context())
		long := s.start(ctx, execpolicy.Command{Script: "trap '' TERM; echo begun; sleep 1003; sleep 1003"})
		during := s.job(execpolicy.Command{Script: "echo begun; sleep 1004; :"})
		_, err := io.WriteString(before.Stdin(), "late\n")
		assert.NilError(t, err)
		s.prints(before, "late")
		s.prints(during, "begun")
		cancel()
		<-long.done
		assert.Equal(t, long.result.Outcome, execpolicy.OutcomeCanceled)
		assert.Assert(t, long.result.Gone, "%v", long.err)
		assert.Assert(t, !s.lives("sleep 1003"))
		for _, words := range []string{"sleep 1001", "sleep 1002", "sleep 1004"} {
			assert.Assert(t, s.lives(words), words)
		}
		// Nor does a shell that is lost.
		s.script("kill -9 $$")
		for _, words := range []string{"sleep 1001", "sleep 1002", "sleep 1004"} {
			assert.Assert(t, s.lives(words), words)
		}
		assert.NilError(t, before.Kill(t.Context()))
		s.gone("sleep 1001")
		assert.Assert(t, s.lives("sleep 1004"))
	})
}

func TestJobEndsWithSession(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		s := open(t, policy, p.spec())
		j := s.job(execpolicy.Command{Script: "trap '' TERM; echo begun; sleep 1000; sleep 1000"})
		s.prints(j, "begun")
		assert.NilError(t, s.Close())
		r, err := s.result(j)
		assert.ErrorIs(t, err, execpolicy.ErrClosed)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeCanceled)
		assert.Assert(t, r.Gone)
		_, err = s.StartJob(t.Context(), execpolicy.Command{Script: "true"})
		assert.ErrorIs(t, err, execpolicy.ErrClosed)

		s = open(t, policy, p.spec())
		defer s.Close()
		j = s.job(execpolicy.Command{Script: "echo begun; sleep 1000"})
		s.restart()
		r, _ = s.result(j)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeCanceled)
		j = s.job(execpolicy.Command{Script: "echo anew"})
		r, err = s.result(j)
		assert.NilError(t, err)
		assert.Equal(t, string(r.Stdout), "anew\n")
	})
}

func TestManyJobs(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		s := open(t, policy, p.spec())
		defer s.Close()
		many := 8
		results := make(chan error, 2*many)
		for i := range many {
			go func() {
				j, err := s.StartJob(t.Context(), execpolicy.Command{Script: fmt.Sprintf("cat; echo %d", i), Stdin: strings.NewReader("in ")})
				if err == nil {
					var r *execpolicy.Result
					if r, err = j.Wait(t.Context()); err == nil && string(r.Stdout) != fmt.Sprintf("in %d\n", i) {
						err = fmt.Errorf("%d: %q", i, r.Stdout)
					}
				}
				results <- err
			}()
			go func() {
				r, err := s.Run(t.Context(), execpolicy.Command{Script: fmt.Sprintf("echo %d", i)})
				if err == nil && string(r.Stdout) != fmt.Sprintf("%d\n", i) {
					err = errors.New("the command printed " + string(r.Stdout))
				}
				results <- err
			}()
		}
		for range 2 * many {
			assert.NilError(t, <-results)
		}
	})
}

// Whatever a job does to its keeper and to the container, the host sees its end, and the
// session and other jobs go on.
func TestHostileJobs(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		policy.PidsLimit = 64
		s := open(t, policy, p.spec())
		defer s.Close()
		other := s.job(execpolicy.Command{Script: "sleep 1001; :"})
		for _, c := range []struct {
			name, script string
			outcome      execpolicy.Outcome // if the job ends by itself
		}{
			{"keeper killed", "kill -9 $PPID; while :; do sleep 1000; done", execpolicy.OutcomeSignaled},
			{"keeper stopped", "kill -STOP $PPID; echo begun; sleep 1000", 0},
			{"flood", "echo begun; yes", 0},
			{"fork bomb", "trap '' TERM; echo begun; f() { f & f & sleep 1000; }; f", 0},
			{"nobody reads its stdin", "exec <&-; echo begun; sleep 1000", 0},
		} {
			t.Run(c.name, func(t *testing.T) {
				s.t = t
				j := s.job(execpolicy.Command{Script: c.script})
				if c.outcome == 0 {
					s.prints(j, "begun")
					go j.Stdin().Write(make([]byte, 4<<20))
					enginetest.Within(t, policy.TerminationTimeout+2*ample, "Kill", func() { assert.NilError(t, j.Kill(t.Context())) })
					r, _ := s.result(j)
					assert.Assert(t, r.Gone)
					assert.Assert(t, len(r.Stdout) <= 1<<20)
				} else {
					r, err := s.result(j)
					assert.NilError(t, err)
					assert.Equal(t, r.Outcome, c.outcome)
				}
				s.gone("sleep 1000")
			})
		}
		s.t = t
		assert.Assert(t, s.lives("sleep 1001"))
		assert.NilError(t, other.Kill(t.Context()))
		assert.Equal(t, s.ok("echo on"), "on")
	})
}

// A job is recorded, approved, filtered and redacted as a command is.
func TestJobHooks(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		spec := p.spec()
		var mu sync.Mutex
		var kinds []string
		spec.Audit = func(e execpolicy.Event) error {
			mu.Lock()
			defer mu.Unlock()
			if e.Op == "job" || e.Kind == execpolicy.EventResult {
				kinds = append(kinds, fmt.Sprint(e.Kind, e.Outcome, e.In, e.Secrets))
			}
			return nil
		}
		var asked []execpolicy.Request
		spec.Approve = func(_ context.Context, r execpolicy.Request) error {
			asked = append(asked, r)
			if strings.Contains(r.Code, "refuse") {
				return errors.New("no")
			}
			return nil
		}
		spec.Secrets = []execpolicy.Secret{{Name: "SESSION", Value: "session-secret"}}
		s := open(t, policy, spec)
		defer s.Close()
		j := s.job(execpolicy.Command{
			Script:  `printf '%s %s %s' "$SESSION" "$MINE" "$(cat "$FILE")"; stat -c %a "$FILE"; cat`,
			Secrets: []execpolicy.Secret{{Name: "MINE", Value: "my-secret"}, {Name: "FILE", Value: "file-secret\n", File: true}},
		})
		// A secret that is given later is redacted in what comes later.
		s.run(execpolicy.Command{Script: ":", Secrets: []execpolicy.Secret{{Name: "LATE", Value: "late-secret"}}})
		_, err := io.WriteString(j.Stdin(), "late-secret\n")
		assert.NilError(t, err)
		assert.NilError(t, j.Stdin().Close())
		r, err := s.result(j)
		assert.NilError(t, err)
		assert.Equal(t, string(r.Stdout), "[secret SESSION] [secret MINE] [secret FILE]400\n[secret LATE]\n")
		r, err = s.result(s.job(execpolicy.Command{Argv: []string{"cat"}, Stdin: strings.NewReader("fed")}))
		assert.NilError(t, err)
		assert.Equal(t, string(r.Stdout), "fed")
		assert.Equal(t, len(asked), 3)
		assert.Assert(t, asked[0].Job && asked[0].Timeout < 0 && !asked[1].Job && asked[2].Job)
		_, err = s.StartJob(t.Context(), execpolicy.Command{Script: "refuse"})
		assert.ErrorIs(t, err, execpolicy.ErrRefused)
		assert.NilError(t, s.Close())
		mu.Lock()
		defer mu.Unlock()
		assert.DeepEqual(t, kinds, []string{"commandunknown 0 [MINE FILE]", "resultexited 0 []", "resultexited 12 []",
			"commandunknown 0 []", "resultexited 3 []", "commandunknown 0 []", "resultunknown 0 []"})
	})
}

func TestJobSignal(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		s := open(t, policy, p.spec())
		defer s.Close()
		j := s.job(execpolicy.Command{Script: "trap 'echo got' USR1; echo begun; while :; do sleep 0.1; done"})
		s.prints(j, "begun")
		assert.NilError(t, j.Signal(t.Context(), "SIGUSR1"))
		s.prints(j, "got")
		assert.ErrorIs(t, j.Signal(t.Context(), "SIGSTOP"), execpolicy.ErrInvalid)
		assert.NilError(t, j.Signal(t.Context(), "SIGTERM"))
		r, err := s.result(j)
		assert.NilError(t, err)
		assert.Assert(t, !r.Gone && r.Cause == nil)
	})
}

// A signal whose answer can't come is sent once all the same, and does not make another
// wait for longer than its context.
func TestJobSignalIsSentOnce(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		s := open(t, policy, p.spec())
		defer s.Close()
		out := make(stuckWriter)
		defer close(out)
		j := s.job(execpolicy.Command{
			Script: "(trap '' HUP; exec cat /dev/zero) & echo $! >/tmp/cat; trap 'echo got >>/tmp/signals' HUP; while :; do sleep 0.1; done",
			Stdout: out,
		})
		until := func(script, what string) {
			t.Helper()
			wait(t, func() bool { return s.script(script).ExitCode == 0 }, "%s", what)
		}
		until(`p=$(cat /tmp/cat) && for i in 1 2 3 4 5 6 7 8 9 10; do grep -q '^State:.S' "/proc/$p/status" && sleep 0.05 || break; done && [ "$i" = 10 ]`,
			"there is room for more")
		first, cancel := context.WithCancel(t.Context())
		defer cancel()
		sent := make(chan error, 1)
		go func() { sent <- j.Signal(first, "SIGHUP") }()
		until("[ -s /tmp/signals ]", "the signal was not sent")
		second, cancelSecond := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancelSecond()
		assert.ErrorIs(t, j.Signal(second, "SIGHUP"), context.DeadlineExceeded)
		assert.Equal(t, len(sent), 0, "the second has waited for the first")
		// It is asked for again meanwhile.
		time.AfterFunc(3500*time.Millisecond, cancel)
		assert.ErrorContains(t, <-sent, "not known to have been sent")
		assert.Equal(t, s.ok("cat /tmp/signals"), "got")
		// The kill of the job ends the wait, unless it has let the answer come.
		go func() { sent <- j.Signal(t.Context(), "SIGHUP") }()
		until("[ $(wc -l </tmp/signals) = 2 ]", "the signal was not sent")
		assert.NilError(t, j.Kill(t.Context()))
		err := <-sent
		assert.Assert(t, err == nil || errors.Is(err, execpolicy.ErrJobEnded), "%v", err)
	})
}

// A job that does not begin leaves nothing of this program's behind either.
func TestJobThatDoesNotBeginIsForgotten(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		spec := p.spec()
		var opened atomic.Int64
		spec.Filter = func(w io.Writer) io.WriteCloser {
			opened.Add(1)
			return countedCloser{w, &opened}
		}
		s := open(t, policy, spec)
		defer s.Close()
		before := opened.Load()
		_, err := s.StartJob(t.Context(), execpolicy.Command{Script: "echo a", Dir: "/nowhere", Stdout: io.Discard, Stderr: io.Discard})
		assert.ErrorIs(t, err, execpolicy.ErrNoDir)
		assert.Equal(t, opened.Load(), before)
	})
}

// A countedCloser is one of those that are open.
type countedCloser struct {
	io.Writer
	open *atomic.Int64
}

func (c countedCloser) Close() error {
	c.open.Add(-1)
	return nil
}

func TestJobRefused(t *testing.T) {
	s := open(t, execpolicy.HostPolicy{}, execpolicy.Spec{})
	defer s.Close()
	_, err := s.StartJob(t.Context(), execpolicy.Command{Script: "true"})
	assert.ErrorIs(t, err, execpolicy.ErrNoJobs)
	_, err = s.StartJob(t.Context(), execpolicy.Command{Script: "true", Usage: true})
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
	_, err = s.StartJob(t.Context(), execpolicy.Command{})
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
}

// What the filter blocks is shown no more, also while the job runs.
func TestJobOutputIsBlocked(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		s := open(t, policy, p.filtered(t, redact.Rule{Type: "email", Strategy: redact.Block}))
		defer s.Close()
		j := s.job(execpolicy.Command{Script: "echo before; read line; echo user@example.com; echo behind; sleep 1000"})
		s.prints(j, "before")
		_, err := io.WriteString(j.Stdin(), "\n")
		assert.NilError(t, err)
		wait(t, func() bool {
			r := j.Output()
			return r.Stdout == nil && r.Stderr == nil && r.StdoutInfo == execpolicy.StreamInfo{}
		}, "the output is shown")
		assert.NilError(t, j.Kill(t.Context()))
		_, err = s.result(j)
		assert.ErrorIs(t, err, execpolicy.ErrBlocked)
		assert.Assert(t, j.Output().Stdout == nil)
	})
}

// That a job's stdin has failed is not taken for its end.
func TestJobStdinFails(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		s := open(t, policy, p.spec())
		defer s.Close()
		broken := errors.New("broken")
		stdin := io.MultiReader(strings.NewReader("some"), iotest.ErrReader(broken))
		r, err := s.result(s.job(execpolicy.Command{Script: "cat", Stdin: stdin}))
		assert.ErrorIs(t, err, broken)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeExited)
		assert.Equal(t, string(r.Stdout), "some")
	})
}

// A job comes to its end with its session, whatever takes its output.
func TestJobOfALostSession(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		// An engine that carries the output waits for the writer too.
		policy := p.overFIFOs(t)
		policy.TerminationTimeout = 2 * time.Second
		s := open(t, policy, p.spec())
		defer s.Close()
		full := make(stuckWriter)
		defer close(full)
		j := s.job(execpolicy.Command{Script: "yes", Stdout: full})
		s.prints(j, "y\n")
		p.remove(t, s.Name())
		enginetest.Within(t, policy.TerminationTimeout+2*ample, "the end of the job", func() { <-j.Done() })
		r, _ := s.result(j)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeSessionLost)
	})
}

// A job that has ended before its session is told so, also if a writer has kept the end
// from being read.
func TestJobThatEndedBeforeItsSession(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		// An engine that carries the output waits for the writer too.
		policy := p.overFIFOs(t)
		policy.TerminationTimeout = 4 * time.Second
		s := open(t, policy, p.spec())
		defer s.Close()
		full := make(stuckWriter)
		defer close(full)
		// What stands before the writer may hold less, and with the pipe it holds more.
		const size = 100 << 10
		j := s.job(execpolicy.Command{Script: fmt.Sprintf("head -c %d /dev/zero; >/tmp/done; exit 3", size), Stdout: full})
		s.ok("until [ -e /tmp/done ]; do sleep 0.1; done; sleep 0.5")
		p.remove(t, s.Name())
		r, err := s.result(j)
		assert.ErrorContains(t, err, "writing the output")
		assert.Equal(t, r.Outcome, execpolicy.OutcomeExited, "%v", err)
		assert.Equal(t, r.ExitCode, 3)
		assert.Equal(t, r.StdoutInfo.Bytes, int64(size))
	})
}

// Process 1 looks at each process to end a job. Many that are ended at once get their
// turns in time, and are all seen to be gone.
func TestManyJobsAreKilled(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		policy := p.policy()
		policy.PidsLimit, policy.TerminationTimeout = 512, ample
		s := open(t, policy, p.spec())
		defer s.Close()
		var jobs []*execpolicy.Job
		for range 16 {
			jobs = append(jobs, s.job(execpolicy.Command{
				Script: "trap '' TERM; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1000 & done; echo begun; sleep 1000; sleep 1000",
			}))
		}
		killed := make(chan error, len(jobs))
		for _, j := range jobs {
			s.prints(j, "begun")
		}
		for _, j := range jobs {
			go func() { killed <- j.Kill(t.Context()) }()
		}
		for range jobs {
			assert.Check(t, <-killed)
		}
		s.gone("sleep 1000")
	})
}
