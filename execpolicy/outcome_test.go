package execpolicy_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// An end is what is known of how a command ended.
type end struct {
	cause     error // why the library ended it
	lost, oom bool  // the container ended; the kernel killed for memory meanwhile
	status    int   // the shell's word, -1 if the shell was killed
	signal    int   // what killed the program, if it is known that one did
}

func (e end) killed() bool { return e.lost || e.status < 0 || e.status == 137 }

// precedence is the table of the package's documentation: the first row that fits is the
// outcome.
var precedence = []struct {
	outcome        execpolicy.Outcome
	name           string
	when, evidence string
	fits           func(e end) bool
}{
	{execpolicy.OutcomeTimedOut, "OutcomeTimedOut", "the library ended the command at its deadline",
		"Cause, Timeout, Escalation, Gone",
		func(e end) bool { return e.cause == execpolicy.ErrTimeout }},
	{execpolicy.OutcomeOutputLimit, "OutcomeOutputLimit", "the library ended it because it had printed too much",
		"Cause, the streams' counts, Escalation, Gone",
		func(e end) bool { return e.cause == execpolicy.ErrOutputLimit }},
	{execpolicy.OutcomeCanceled, "OutcomeCanceled",
		"the library ended it because its context ended, its session was closed, or the session's Lifetime was over",
		"Cause (whose cancel), Escalation, Gone",
		func(e end) bool { return e.cause != nil }},
	{execpolicy.OutcomeOOMKilled, "OutcomeOOMKilled",
		"it ended with status 137, or with its shell or its container, and the kernel killed for memory meanwhile",
		"OOMBefore, OOMAfter, or docker's events",
		func(e end) bool { return e.killed() && e.oom }},
	{execpolicy.OutcomeSessionLost, "OutcomeSessionLost", "its container ended under it",
		"the container's exit status in the error, Gone",
		func(e end) bool { return e.lost }},
	{execpolicy.OutcomeSignaled, "OutcomeSignaled",
		"a signal killed its program, if it has an Argv, or its shell together with the shell's watcher",
		"Signal, OOMBefore, OOMAfter",
		func(e end) bool { return e.status < 0 || e.signal > 0 }},
	{execpolicy.OutcomeRefused, "OutcomeRefused", "the session's Approve refused it, and nothing of it ran",
		"Cause (the reason)",
		func(end) bool { return false }}, // of one that has ended
	{execpolicy.OutcomeExited, "OutcomeExited",
		"it ended by itself, whatever its exit code (124 to 137 too) and whatever it printed",
		"ExitCode, OOMBefore, OOMAfter",
		func(end) bool { return true }},
}

func TestPrecedenceOfOutcomes(t *testing.T) {
	for _, cause := range []error{nil, execpolicy.ErrTimeout, execpolicy.ErrOutputLimit, execpolicy.ErrClosed,
		execpolicy.ErrExpired, context.DeadlineExceeded} {
		for _, status := range []int{-1, 0, 1, 2, 124, 125, 126, 127, 128, 130, 137, 139, 143, 255} {
			for bits := range 8 {
				e := end{cause: cause, lost: bits&1 != 0, oom: bits&2 != 0, status: status}
				if bits&4 != 0 && status > 128 {
					e.signal = status - 128
				}
				for _, row := range precedence {
					if row.fits(e) {
						assert.Equal(t, execpolicy.OutcomeOf(e.cause, e.lost, e.oom, e.status, e.signal), row.outcome, "%+v", e)
						break
					}
				}
			}
		}
	}
}

func TestPrecedenceIsTheOneOfTheDocuments(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	assert.NilError(t, err)
	source, err := os.ReadFile("result.go")
	assert.NilError(t, err)
	var table, list strings.Builder
	for _, row := range precedence {
		fmt.Fprintf(&table, "//\t%-19s %s\n", row.name, row.evidence)
		list.WriteString("//   - " + row.name + ": " + row.when + ".\n")
	}
	assert.Assert(t, strings.Contains(string(doc), "//\n"+table.String()+"//\n"),
		"doc.go must have this table:\n%s", &table)
	// A line is broken where it would be too long.
	unbroken := strings.ReplaceAll(string(source), "\n//     ", " ")
	assert.Assert(t, strings.Contains(unbroken, "//\n"+list.String()+"type Outcome int"),
		"result.go must have this list:\n%s", &list)
}

// What is done to a command from outside stands before what it does itself.
func TestEvidence(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		for _, c := range []struct {
			name    string
			command execpolicy.Command
			outcome execpolicy.Outcome
			cause   error
			step    execpolicy.Escalation
		}{
			{"ends by itself", execpolicy.Command{Script: "true"}, execpolicy.OutcomeExited, nil, 0},
			{"exits at its deadline", execpolicy.Command{Script: "trap 'exit 0' TERM; sleep 4801", Timeout: short},
				execpolicy.OutcomeTimedOut, execpolicy.ErrTimeout, execpolicy.EscalationTerm},
			{"kills its shell at its deadline", execpolicy.Command{Script: "trap 'kill -9 $$' TERM; sleep 4802", Timeout: short},
				execpolicy.OutcomeTimedOut, execpolicy.ErrTimeout, execpolicy.EscalationTerm},
			{"prints too much", execpolicy.Command{Script: "yes", OutputLimit: 1000}, execpolicy.OutcomeOutputLimit,
				execpolicy.ErrOutputLimit, execpolicy.EscalationTerm},
			{"ignores SIGTERM", execpolicy.Command{Argv: []string{"sh", "-c",
				"trap '' TERM; while :; do sleep 4803; done"}, Timeout: short},
				execpolicy.OutcomeTimedOut, execpolicy.ErrTimeout, execpolicy.EscalationKill},
			{"loops in its shell", execpolicy.Command{Script: "trap '' TERM; while :; do :; done", Timeout: short},
				execpolicy.OutcomeTimedOut, execpolicy.ErrTimeout, execpolicy.EscalationShell},
			{"kills its shell and what watches that", execpolicy.Command{Script: "kill -9 $PPID $$"},
				execpolicy.OutcomeSignaled, nil, 0},
			// Nobody could tell it from exit 137.
			{"kills its shell", execpolicy.Command{Script: "kill -9 $$"}, execpolicy.OutcomeExited, nil, 0},
			{"leaves a daemon at its deadline",
				execpolicy.Command{Script: "(trap '' TERM; setsid sleep 4804 &); sleep 4804", Timeout: short},
				execpolicy.OutcomeTimedOut, execpolicy.ErrTimeout, execpolicy.EscalationTerm},
		} {
			t.Run(c.name, func(t *testing.T) {
				s := session{s.Session, t}
				r := s.until(func(r *execpolicy.Result) bool { return r.Escalation == c.step && (r.ExitCode == 0 || r.OOMAfter >= 0) }, nil, s.command(c.command))
				assert.Equal(t, r.Outcome, c.outcome)
				assert.Equal(t, r.Cause, c.cause)
				assert.Equal(t, r.Escalation, c.step)
				assert.Equal(t, r.Gone, c.cause != nil)
				assert.Equal(t, r.OOMBefore, 0)
				if r.ExitCode != 0 {
					assert.Equal(t, r.OOMAfter, 0)
				}
				if c.command.Timeout > 0 {
					assert.Equal(t, r.Timeout, c.command.Timeout)
				} else {
					assert.Equal(t, r.Timeout, p.policy().CommandTimeout)
				}
				s.gone("sleep 480")
			})
		}
	})
}

// The limit was passed before the command ended by itself, whichever is looked at first.
func TestOutputLimitAtTheEnd(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		c := execpolicy.Command{Script: "printf 12345678901", OutputLimit: 10}
		check := func(i int, r *execpolicy.Result) {
			t.Helper()
			assert.Assert(t, r.Outcome == execpolicy.OutcomeOutputLimit && r.Gone, "%d: %+v", i, r)
			assert.Equal(t, r.Cause, execpolicy.ErrOutputLimit)
			assert.Equal(t, string(r.Stdout), "12345678901")
		}
		for i := range 200 {
			check(i, s.run(c))
		}
		for i := range 20 {
			r, err := s.result(s.job(c))
			assert.NilError(t, err)
			check(i, r)
		}
	})
}

// What a background job prints while the library looks is not taken for what it sees.
func TestEvidenceUnderAFlood(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		flood := "yes & one=$!; yes >&2 & two=$!"
		if p.engine == clusterEngine {
			// A node logs each line. What yes prints stands before the answers for so
			// long that the shell is lost each time.
			flood = "while :; do echo y; done & one=$!; while :; do echo y >&2; done & two=$!"
		}
		s.ok(flood)
		for range 5 {
			// A shell that did not answer in time on a busy machine is lost, and with it
			// the names of the jobs.
			r := s.until(func(r *execpolicy.Result) bool { return !r.StateLost }, func() {
				if s.script("[ \"$one\" ]").ExitCode != 0 {
					assert.NilError(t, s.Restart(t.Context()))
					s.ok(flood)
				}
			}, s.shortly("sleep 4805"))
			assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
			assert.Assert(t, r.Gone)
			assert.Equal(t, r.OOMAfter, 0)
			assert.Equal(t, s.script("kill -0 $one && kill -0 $two").ExitCode, 0)
		}
	})
}

// living opens a session that lives so long. The error is nil or ErrExpired: its start
// was part of that.
func (p place) living(t *testing.T, lifetime time.Duration, spec execpolicy.Spec) (session, error) {
	t.Helper()
	policy := p.policy()
	policy.Lifetime = lifetime
	s, err := execpolicy.Start(t.Context(), policy, spec)
	if errors.Is(err, execpolicy.ErrExpired) {
		return session{}, err
	}
	assert.NilError(t, err)
	t.Cleanup(func() { s.Close() })
	return session{s, t}, nil
}

// A container that has gone leaves the evidence of that, and a session that has is told
// from one whose container was taken away.
func TestEvidenceOfTheContainersEnd(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		t.Run("closed", func(t *testing.T) {
			t.Parallel()
			s := open(t, p.policy(), p.spec())
			c := s.start(t.Context(), execpolicy.Command{Script: "echo begun; sleep 4811"})
			assert.NilError(t, s.Close())
			<-c.done
			assert.ErrorIs(t, c.err, execpolicy.ErrClosed)
			assert.Equal(t, c.result.Outcome, execpolicy.OutcomeCanceled)
			assert.Equal(t, c.result.Cause, execpolicy.ErrClosed)
			// An engine under load may be too slow for the lifeline's second.
			assert.Assert(t, c.result.Escalation == execpolicy.EscalationContainer ||
				c.result.Escalation == execpolicy.EscalationRemoval, "%v", c.result.Escalation)
			assert.Assert(t, c.result.Gone && c.result.StateLost)
		})
		t.Run("removed by somebody", func(t *testing.T) {
			t.Parallel()
			s := open(t, p.policy(), p.spec())
			c := s.start(t.Context(), execpolicy.Command{Script: "echo begun; sleep 4812"})
			p.cli(t, "kill", s.Name())
			<-c.done
			assert.ErrorIs(t, c.err, execpolicy.ErrEnded)
			assert.Equal(t, c.result.Outcome, execpolicy.OutcomeSessionLost)
			assert.Equal(t, c.result.Cause, nil)
			assert.Equal(t, c.result.Escalation, execpolicy.Escalation(0))
			assert.Assert(t, c.result.Gone && c.result.StateLost)
		})
		t.Run("lived its time", func(t *testing.T) {
			t.Parallel()
			unhurried(t, time.Second, func(lifetime time.Duration) error {
				s, err := p.living(t, lifetime, p.spec())
				if err != nil {
					return err
				}
				r, err := s.Run(t.Context(), execpolicy.Command{Script: "echo begun; sleep 4813", Timeout: -1})
				assert.ErrorIs(t, err, execpolicy.ErrExpired)
				if r == nil || string(r.Stdout) != "begun\n" {
					return err
				}
				assert.Equal(t, r.Outcome, execpolicy.OutcomeCanceled)
				assert.Equal(t, r.Cause, execpolicy.ErrExpired)
				assert.Assert(t, r.Gone)
				<-s.Done()
				_, err = s.Run(t.Context(), execpolicy.Command{Script: "true"})
				assert.ErrorIs(t, err, execpolicy.ErrEnded)
				assert.ErrorIs(t, err, execpolicy.ErrExpired)
				// A new one has a new life.
				err = s.Restart(t.Context())
				if err == nil {
					r, err = s.Run(t.Context(), execpolicy.Command{Script: "echo next"})
				}
				if errors.Is(err, execpolicy.ErrExpired) {
					return err
				}
				assert.NilError(t, err)
				assert.Equal(t, string(r.Stdout), "next\n")
				return nil
			})
		})
		t.Run("lived its time with nothing to do", func(t *testing.T) {
			t.Parallel()
			unhurried(t, time.Second, func(lifetime time.Duration) error {
				s, err := p.living(t, lifetime, p.spec())
				if err != nil {
					return err
				}
				<-s.Done()
				assert.NilError(t, s.Close())
				return nil
			})
		})
		t.Run("held by force", func(t *testing.T) {
			t.Parallel()
			policy := p.policy()
			policy.TerminationTimeout = 20 * time.Second
			s := open(t, policy, p.spec())
			// Nobody reads for process 1, and so it does not see the end: the engine has
			// stopped it.
			p.cli(t, "pause", s.Name())
			r, err := s.Run(t.Context(), execpolicy.Command{Script: "sleep 4814", Timeout: short})
			assert.NilError(t, err)
			assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
			assert.Equal(t, r.Escalation, execpolicy.EscalationRemoval)
			assert.Assert(t, r.Gone && r.StateLost)
		})
		t.Run("held by force with a job", func(t *testing.T) {
			t.Parallel()
			policy := p.policy()
			policy.TerminationTimeout = 20 * time.Second
			s := open(t, policy, p.spec())
			j := s.job(execpolicy.Command{Script: "sleep 4815"})
			p.cli(t, "pause", s.Name())
			assert.NilError(t, s.Close())
			r, err := s.result(j)
			assert.ErrorIs(t, err, execpolicy.ErrClosed)
			assert.Equal(t, r.Cause, execpolicy.ErrClosed)
			assert.Equal(t, r.Escalation, execpolicy.EscalationRemoval)
			assert.Assert(t, r.Gone)
		})
	})
}

// What the kernel kills for memory is told from what kills itself, as far as the kernel
// tells.
func TestEvidenceOfMemory(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		policy := p.policy()
		policy.MemoryBytes = 64 << 20
		policy.CommandTimeout = time.Minute
		s := open(t, policy, p.spec())
		// What runs from memory can't be dropped and read again: near the limit the
		// kernel could do nothing else for minutes, where the root is a FUSE file system.
		s.ok("cp $(command -v busybox) /tmp")
		const eat = "/tmp/busybox head -c 90000000 /dev/zero | /tmp/busybox tail -c 80000000 >/dev/null"
		// The kernel chooses whom it is told to choose first. The command lives on: a
		// part of it is gone.
		r := s.run(execpolicy.Command{Script: "(echo 1000 >/proc/self/oom_score_adj; " + eat +
			") 2>/dev/null; exec 2>/dev/null; echo lives; (exit 3)"})
		assert.Equal(t, r.Outcome, execpolicy.OutcomeExited, "%+v", r)
		assert.Equal(t, r.ExitCode, 3)
		assert.Equal(t, string(r.Stdout), "lives\n")
		assert.Assert(t, r.OOMBefore == 0 && r.OOMAfter > 0, "%+v", r)
		// Now the counter is not zero, and another one that kills itself is still told
		// from that.
		before := r.OOMAfter
		r = s.run(execpolicy.Command{Script: "sh -c 'kill -9 $$'"})
		assert.Equal(t, r.Outcome, execpolicy.OutcomeExited)
		assert.Equal(t, r.ExitCode, 137)
		assert.Assert(t, r.OOMBefore == before && r.OOMAfter == before, "%+v", r)
		r = s.run(execpolicy.Command{Script: "kill -9 $PPID $$"})
		assert.Equal(t, r.Outcome, execpolicy.OutcomeSignaled)
		assert.Assert(t, r.OOMBefore == before && r.OOMAfter == before, "%+v", r)
		// A success is not looked into.
		r = s.run(execpolicy.Command{Script: "true"})
		assert.Assert(t, r.OOMBefore == before && r.OOMAfter == -1, "%+v", r)
		r = s.run(execpolicy.Command{Script: eat})
		assert.Equal(t, r.Outcome, execpolicy.OutcomeOOMKilled, "%+v", r)
		assert.Assert(t, r.OOMAfter > before)
	})
}

// The cause of a context says whose cancel it was.
func TestCauseOfACancel(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		whose := errors.New("the user has gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		c := s.start(ctx, execpolicy.Command{Script: "echo begun; sleep 4821"})
		cancel(whose)
		<-c.done
		assert.Equal(t, c.result.Cause, whose)
		assert.Assert(t, c.result.Gone)
	})
}

// A context that a caller was given by another session may end for what would end that.
func TestCauseOfAnotherSession(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		for _, cause := range []error{execpolicy.ErrClosed, execpolicy.ErrExpired, execpolicy.ErrTimeout} {
			ctx, cancel := context.WithCancelCause(t.Context())
			c := s.start(ctx, execpolicy.Command{Script: "echo begun; sleep 4864"})
			cancel(cause)
			<-c.done
			assert.ErrorIs(t, c.err, cause)
			assert.Equal(t, c.result.Outcome, execpolicy.OutcomeCanceled)
			_, err := s.Stat(ctx, ".")
			assert.ErrorIs(t, err, cause)
			assert.Assert(t, !errors.Is(err, execpolicy.ErrEnded), "%v", err)
			assert.Equal(t, s.ok("echo on"), "on")
		}
	})
}
