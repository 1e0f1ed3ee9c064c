package execpolicy_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// short is a deadline that has to pass in a test.
const short = 100 * time.Millisecond

// tries is how often something is done at most that a busy machine may spoil: an answer
// comes late, or what is to be ended has not begun. What the library does wrong it does
// wrong each time.
const tries = 20

func (s session) timeout(script string) *execpolicy.Result {
	s.t.Helper()
	return s.timedOut(s.run(execpolicy.Command{Script: script, Timeout: short}))
}

// timedOut checks the result of a command that had a short time.
func (s session) timedOut(r *execpolicy.Result) *execpolicy.Result {
	s.t.Helper()
	assert.Equal(s.t, r.Outcome, execpolicy.OutcomeTimedOut, r.Text())
	assert.Equal(s.t, r.ExitCode, -1)
	assert.Equal(s.t, r.Text(), "Error: Command timed out after 0.1 seconds.")
	return r
}

// over reports whether the session has ended.
func (s session) over() bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

// until runs what has to be ended until it ends as it should, and returns that result.
// before comes before each try, in a session that is begun anew if the last try has cost
// it.
func (s session) until(should func(*execpolicy.Result) bool, before func(),
	run func() (*execpolicy.Result, error)) *execpolicy.Result {
	s.t.Helper()
	for try := 1; ; try++ {
		if s.over() {
			assert.NilError(s.t, s.Restart(s.t.Context()))
		}
		if before != nil {
			before()
		}
		r, err := run()
		if err == nil && should(r) {
			return r
		}
		if try == tries {
			s.t.Fatalf("%v: %+v", err, r)
		}
	}
}

// command is what until runs of a command.
func (s session) command(c execpolicy.Command) func() (*execpolicy.Result, error) {
	return func() (*execpolicy.Result, error) { return s.Run(s.t.Context(), c) }
}

// shortly is what until runs of a script that has a short time.
func (s session) shortly(script string) func() (*execpolicy.Result, error) {
	return s.command(execpolicy.Command{Script: script, Timeout: short})
}

// canceled is what until runs of a command that is canceled when it has printed
// something, of which nothing may be left.
func (s session) canceled(cause error, c execpolicy.Command) func() (*execpolicy.Result, error) {
	return func() (*execpolicy.Result, error) {
		ctx, cancel := context.WithCancelCause(s.t.Context())
		defer cancel(nil)
		running := s.start(ctx, c)
		cancel(cause)
		<-running.done
		assert.ErrorIs(s.t, running.err, cause)
		if errors.Is(running.err, execpolicy.ErrStillThere) {
			return running.result, running.err
		}
		return running.result, nil
	}
}

// by says of a result that the command was ended by that step, which costs the shell or
// not.
func by(step execpolicy.Escalation) func(*execpolicy.Result) bool {
	return func(r *execpolicy.Result) bool {
		return r.Escalation == step && r.StateLost == (step >= execpolicy.EscalationShell)
	}
}

// inside says of a result that ending the command did not take the container.
func inside(r *execpolicy.Result) bool { return r.Escalation < execpolicy.EscalationContainer }

// unhurried calls f with a limit that has to pass in it, but only behind something else.
// If f returns an error the limit was too short for that on a busy machine, and is
// doubled.
func unhurried(t *testing.T, limit time.Duration, f func(limit time.Duration) error) {
	t.Helper()
	err := f(limit)
	for ; err != nil && limit < 20*time.Second; err = f(limit) {
		limit *= 2
	}
	assert.NilError(t, err)
}

var killCases = []conformanceCase{
	{name: "3.2.4 3.3.2 3.4.20 3.4.21 D4 D25 D41 a timeout keeps output and state, and its program is gone",
		do: func(t *testing.T, s session) {
			var name string
			r := s.timedOut(s.until(by(execpolicy.EscalationTerm), func() { name = s.Name(); s.ok("kept=5") },
				s.shortly("printf partial; echo e >&2; sleep 4711")))
			assert.Equal(t, string(r.Stdout), "partial")
			// Some shells say that their child was terminated.
			assert.Assert(t, strings.HasPrefix(string(r.Stderr), "e\n"))
			s.gone("sleep 4711")
			assert.Equal(t, s.ok("echo $kept"), "5")
			assert.Equal(t, s.Name(), name)
		}},
	{name: "a program that ignores TERM is killed", do: func(t *testing.T, s session) {
		s.timedOut(s.until(by(execpolicy.EscalationKill), func() { s.ok("kept=6") },
			s.shortly("sh -c 'trap \"\" TERM; while :; do sleep 4712; done'")))
		s.gone("sleep 4712")
		assert.Equal(t, s.ok("echo $kept"), "6")
	}},
	{name: "a loop of the shell itself costs the shell", do: func(t *testing.T, s session) {
		s.timedOut(s.until(by(execpolicy.EscalationShell), func() { s.ok(">/tmp/kept; lost=1") },
			s.shortly("while :; do :; done")))
		assert.Equal(t, s.ok("echo ${lost-lost}; ls /tmp/kept; pwd; echo $NUM"), "lost\n/tmp/kept\n/workspace\n42")
	}},
	{name: "a grandchild in a session of its own is killed", do: func(t *testing.T, s session) {
		s.timedOut(s.until(inside, nil, s.shortly("(setsid sleep 4713 &); sleep 4714")))
		s.gone("sleep 4713")
		s.gone("sleep 4714")
	}},
	{name: "a background job of an earlier command is spared", do: func(t *testing.T, s session) {
		const tick = "IFS=. read -r seconds parts </proc/uptime; echo $seconds${parts%% *}"
		s.timedOut(s.until(func(r *execpolicy.Result) bool { return !r.StateLost }, func() {
			if s.lives("sleep 4715") {
				assert.NilError(t, s.Restart(t.Context()))
			}
			// Where nothing was there as commands began, no time is noted any more.
			for range 4 {
				s.ok(":")
			}
			before := s.ok("sleep 4715 & " + tick)
			// The kernel's clock counts hundredths of seconds.
			wait(t, func() bool { return s.ok(tick) > before }, "the clock stands still")
		}, s.shortly("sleep 4716")))
		s.gone("sleep 4716")
		assert.Assert(t, s.lives("sleep 4715"))
		s.ok("kill $!; wait; :")
		s.gone("sleep 4715")
	}},
	{name: "a stopped program is killed", do: func(t *testing.T, s session) {
		s.timedOut(s.until(inside, nil, s.shortly("sh -c 'kill -STOP $$'")))
		assert.Equal(t, s.ok("echo next"), "next")
	}},
	{name: "a stopped shell goes on or is replaced", do: func(t *testing.T, s session) {
		s.timedOut(s.until(inside, nil, s.shortly("kill -STOP $$")))
		assert.Equal(t, s.ok("echo next"), "next")
	}},
	{name: "everything killed from inside", do: func(t *testing.T, s session) {
		name := s.Name()
		r := s.script("echo before; sh -c 'kill -9 -1; kill -9 $$'; sleep 4717")
		assert.Equal(t, r.Outcome, execpolicy.OutcomeSignaled)
		assert.Equal(t, r.Signal, 9)
		assert.Assert(t, r.StateLost)
		assert.Equal(t, r.Text(), "before\n\nKilled by signal 9.")
		assert.Equal(t, s.ok("echo after"), "after")
		assert.Equal(t, s.Name(), name)
	}},
	{name: "everything killed but the shell", do: func(t *testing.T, s session) {
		s.ok("kept=5")
		r := s.script("kill -9 -1")
		assert.Equal(t, r.Outcome, execpolicy.OutcomeExited, r.Text())
		// Nobody would say how the shell ends, so the next command gets another, if what
		// was killed has died by then. It is run, and once.
		r = s.script("echo after${kept-}; echo run >>/tmp/runs")
		assert.Equal(t, r.Outcome, execpolicy.OutcomeExited, r.Text())
		assert.Equal(t, string(r.Stdout), map[bool]string{true: "after\n", false: "after5\n"}[r.StateLost])
		assert.Equal(t, s.ok("cat /tmp/runs"), "run")
	}},
	{name: "the shell killed by its own hand", do: func(t *testing.T, s session) {
		r := s.script("kill -9 $$")
		assert.Assert(t, r.StateLost)
		assert.Assert(t, r.Outcome == execpolicy.OutcomeSignaled || r.ExitCode == 137, r.Text())
		assert.Equal(t, s.ok("echo after"), "after")
	}},
	{name: "the shell's parent killed by its own hand", do: func(t *testing.T, s session) {
		s.ok("kept=9")
		assert.Equal(t, string(s.script("kill -9 $PPID; echo out").Stdout), "out\n")
		// The shell goes on for a while; the command in which it is missed may end with
		// it.
		wait(t, func() bool { return string(s.script("echo ${kept-new}").Stdout) == "new\n" }, "the shell is not replaced")
	}},
	{name: "D2 orphans are gathered", do: func(t *testing.T, s session) {
		s.ok("i=0; while [ $i -lt 50 ]; do (: &); i=$((i+1)); done")
		zombies := "n=0; for p in /proc/[0-9]*/stat; do read -r a b state c <$p && [ \"$state\" = Z ] && " +
			"n=$((n+1)); done 2>/dev/null; echo $n"
		wait(t, func() bool { return s.ok("sleep 0.2; "+zombies) == "0" }, "zombies stay")
	}},
	{name: "OutputLimit ends a flood", do: func(t *testing.T, s session) {
		r := s.until(func(r *execpolicy.Result) bool { return !r.StateLost }, func() { s.ok("kept=7") },
			s.command(execpolicy.Command{Script: "yes", OutputLimit: 100_000}))
		assert.Equal(t, r.Outcome, execpolicy.OutcomeOutputLimit)
		assert.Equal(t, r.ExitCode, -1)
		assert.Assert(t, r.StdoutInfo.Bytes > 100_000)
		assert.Assert(t, strings.HasSuffix(r.Text(), "\n\nEnded: too much output."))
		s.gone("yes")
		r = s.run(execpolicy.Command{Script: "printf '%0100d' 0; echo $kept >&2", OutputLimit: 102})
		assert.Equal(t, r.Outcome, execpolicy.OutcomeExited)
		assert.Equal(t, string(r.Stderr), "7\n")
	}},
	{name: "a cancel ends the command and nothing else", do: func(t *testing.T, s session) {
		cause := errors.New("the user has gone")
		r := s.until(func(r *execpolicy.Result) bool { return !r.StateLost }, func() { s.ok("kept=8") },
			s.canceled(cause, execpolicy.Command{Script: "echo begun; sleep 4718"}))
		assert.Equal(t, r.Outcome, execpolicy.OutcomeCanceled)
		assert.Equal(t, string(r.Stdout), "begun\n")
		assert.Assert(t, strings.HasPrefix(r.Text(), "begun\n"))
		assert.Assert(t, strings.HasSuffix(r.Text(), "\n\nCanceled."))
		s.gone("sleep 4718")
		assert.Equal(t, s.ok("echo $kept"), "8")
	}},
	{name: "D16 a cancel while waiting for the turn", do: func(t *testing.T, s session) {
		r := s.until(inside, nil, func() (*execpolicy.Result, error) {
			first, end := context.WithCancel(t.Context())
			defer end()
			c := s.start(first, execpolicy.Command{Script: "echo begun; sleep 4719", Timeout: -1})
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			r, err := s.Run(ctx, execpolicy.Command{Script: "echo never >/tmp/never"})
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Assert(t, r == nil)
			end()
			<-c.done
			assert.ErrorIs(t, c.err, context.Canceled)
			return c.result, nil
		})
		assert.Equal(t, r.Outcome, execpolicy.OutcomeCanceled)
		assert.Equal(t, s.ok("[ ! -e /tmp/never ] && echo none"), "none")
	}},
	{name: "a writer that is stuck is left behind at the deadline", do: func(t *testing.T, s session) {
		stuck := make(stuckWriter)
		r := s.until(inside, nil, s.command(execpolicy.Command{Script: "yes", Stdout: stuck, Timeout: short}))
		assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
		close(stuck)
		assert.Equal(t, s.ok("echo next"), "next")
	}},
	{name: "a writer that fails is an error beside the result", do: func(t *testing.T, s session) {
		broken := make(stuckWriter)
		close(broken)
		r, err := s.Run(t.Context(), execpolicy.Command{Script: "echo out", Stdout: broken})
		assert.ErrorIs(t, err, errBroken)
		assert.Equal(t, string(r.Stdout), "out\n")
		assert.Equal(t, r.Outcome, execpolicy.OutcomeExited)
	}},
}

var errBroken = errors.New("the writer is broken")

// A stuckWriter waits until it is closed, and fails then.
type stuckWriter chan struct{}

func (w stuckWriter) Write([]byte) (int, error) {
	<-w
	return 0, errBroken
}

// readMarks makes prefix and tag those of the command's marks. The library's own text can
// be read by its worker, unless the shell's program is unreadable: the numbers in it are
// no secret.
const readMarks = `prefix=ABCDEFGHIJKLMNOPQRSTUVWXYZ tag=ZYXWVUTSRQPON
	for f in /proc/$$/fd/*; do
		case $(readlink "$f") in
		*/script) tag=$(cat "$f"); tag=${tag##*cf_tag=}; tag=${tag%%;*} ;;
		*/s\ *) prefix=$(cat "$f"); prefix=${prefix##*printf \'}; prefix=${prefix%%e%s*} ;;
		esac
	done 2>/dev/null
	`

// oldMarks prints marks that are not those of the command that runs.
func oldMarks(t *testing.T, s session) {
	s.ok(readMarks + "old=$tag; [ ${#prefix} = 26 ] && [ ${#tag} = 13 ] && { [ $tag != ZYXWVUTSRQPON ] || ! ls /proc/$$/fd/; }")
	for name, script := range map[string]string{
		"an older command's":   `printf '%se%s 0 /%s\n' $prefix $old $prefix; printf '%se%s\n' $prefix $old >&2`,
		"no exit status":       `printf '%se%s 999 /%s\n' $prefix $tag $prefix`,
		"a negative status":    `printf '%se%s -1 /%s\n' $prefix $tag $prefix`,
		"one stream only":      `printf '%se%s\n' $prefix $tag >&2`,
		"an older shell's":     `printf '%sx0 0\n' $prefix; printf '%sx0\n' $prefix >&2`,
		"half of one":          `printf '%se' $prefix; printf '%s' $prefix >&2`,
		"LangChain's":          `printf '__LC_SHELL_DONE__%032d 0\n' 7`,
		"the next one's start": `printf '%sb%s\n' $prefix $tag; printf '%sb%s\n' $prefix $tag >&2`,
	} {
		r := s.script(readMarks + script + "; sleep 0.01; echo after; (exit 7)")
		assert.Equal(t, r.Outcome, execpolicy.OutcomeExited, name)
		assert.Equal(t, r.ExitCode, 7, name)
		assert.Assert(t, strings.HasSuffix(string(r.Stdout), "after\n"), "%s: %q", name, r.Stdout)
	}
	// One whose own mark is forged goes on while the next one is sent.
	s.script(readMarks + `printf '%se%s 0 /%s\n' $prefix $tag $prefix; printf '%se%s\n' $prefix $tag >&2; sleep 0.2`)
	r := s.script(strings.Repeat("echo line >>/tmp/forged\n", 100))
	assert.Equal(t, r.Outcome, execpolicy.OutcomeExited, r.Text())
	assert.Equal(t, r.ExitCode, 0, r.Text())
	assert.Assert(t, !r.StateLost)
	assert.Equal(t, s.ok("wc -l </tmp/forged; rm /tmp/forged"), "100")
	assert.Equal(t, s.ok("echo next"), "next")
	// One that has said on one stream that its shell is dead ends as soon as the other
	// tells its end.
	r = s.script(readMarks + `printf '%se%s 0 /%s\n%sx1 0\n' $prefix $tag $prefix $prefix; sleep 0.05`)
	assert.Assert(t, r.Outcome != execpolicy.OutcomeTimedOut, r.Text())
}
