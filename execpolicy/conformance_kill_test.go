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

func (s session) timeout(script string) *execpolicy.Result {
	s.t.Helper()
	r := s.run(execpolicy.Command{Script: script, Timeout: short})
	assert.Equal(s.t, r.Outcome, execpolicy.TimedOut, r.Text())
	assert.Equal(s.t, r.ExitCode, -1)
	assert.Equal(s.t, r.Text(), "Error: Command timed out after 0.1 seconds.")
	return r
}

var killCases = []conformanceCase{
	{name: "3.2.4 3.3.2 3.4 D4 D25 D41 a timeout keeps output and state, and its program is gone", do: func(t *testing.T, s session) {
		name := s.Name()
		s.ok("kept=5")
		r := s.timeout("printf partial; echo e >&2; sleep 4711")
		assert.Equal(t, string(r.Stdout), "partial")
		// Some shells say that their child was terminated.
		assert.Assert(t, strings.HasPrefix(string(r.Stderr), "e\n"))
		assert.Equal(t, r.Rung, execpolicy.RungTerm)
		assert.Assert(t, !r.StateLost)
		s.gone("sleep 4711")
		assert.Equal(t, s.ok("echo $kept"), "5")
		assert.Equal(t, s.Name(), name)
	}},
	{name: "a program that ignores TERM is killed", do: func(t *testing.T, s session) {
		s.ok("kept=6")
		r := s.timeout("sh -c 'trap \"\" TERM; while :; do sleep 4712; done'")
		assert.Equal(t, r.Rung, execpolicy.RungKill)
		assert.Assert(t, !r.StateLost)
		s.gone("sleep 4712")
		assert.Equal(t, s.ok("echo $kept"), "6")
	}},
	{name: "a loop of the shell itself costs the shell", do: func(t *testing.T, s session) {
		s.ok(">/tmp/kept; lost=1")
		r := s.timeout("while :; do :; done")
		assert.Equal(t, r.Rung, execpolicy.RungWorker)
		assert.Assert(t, r.StateLost)
		assert.Equal(t, s.ok("echo ${lost-lost}; ls /tmp/kept; pwd; echo $NUM"), "lost\n/tmp/kept\n/workspace\n42")
	}},
	{name: "a grandchild in a session of its own is killed", do: func(t *testing.T, s session) {
		s.timeout("(setsid sleep 4713 &); sleep 4714")
		s.gone("sleep 4713")
		s.gone("sleep 4714")
	}},
	{name: "a background job of an earlier command is spared", do: func(t *testing.T, s session) {
		const tick = "IFS=. read -r seconds parts </proc/uptime; echo $seconds${parts%% *}"
		before := s.ok("sleep 4715 & " + tick)
		// The kernel's clock counts hundredths of seconds.
		wait(t, func() bool { return s.ok(tick) > before }, "the clock stands still")
		s.timeout("sleep 4716")
		s.gone("sleep 4716")
		assert.Assert(t, s.lives("sleep 4715"))
		s.ok("kill $!; wait; :")
		s.gone("sleep 4715")
	}},
	{name: "a stopped program is killed", do: func(t *testing.T, s session) {
		s.timeout("sh -c 'kill -STOP $$'")
		assert.Equal(t, s.ok("echo next"), "next")
	}},
	{name: "a stopped shell goes on or is replaced", do: func(t *testing.T, s session) {
		s.timeout("kill -STOP $$")
		assert.Equal(t, s.ok("echo next"), "next")
	}},
	{name: "everything killed from inside", do: func(t *testing.T, s session) {
		name := s.Name()
		r := s.script("echo before; sh -c 'kill -9 -1; kill -9 $$'; sleep 4717")
		assert.Equal(t, r.Outcome, execpolicy.Signaled)
		assert.Equal(t, r.Signal, 9)
		assert.Assert(t, r.StateLost)
		assert.Equal(t, r.Text(), "before\n\nKilled by signal 9.")
		assert.Equal(t, s.ok("echo after"), "after")
		assert.Equal(t, s.Name(), name)
	}},
	{name: "everything killed but the shell", do: func(t *testing.T, s session) {
		s.ok("kept=5")
		r := s.script("kill -9 -1")
		assert.Equal(t, r.Outcome, execpolicy.Exited, r.Text())
		// Nobody would say how the shell ends, so the next command gets another, if what was killed has died by then. It is run, and
		// once.
		r = s.script("echo after${kept-}; echo run >>/tmp/runs")
		assert.Equal(t, r.Outcome, execpolicy.Exited, r.Text())
		assert.Equal(t, string(r.Stdout), map[bool]string{true: "after\n", false: "after5\n"}[r.StateLost])
		assert.Equal(t, s.ok("cat /tmp/runs"), "run")
	}},
	{name: "the shell killed by its own hand", do: func(t *testing.T, s session) {
		r := s.script("kill -9 $$")
		assert.Assert(t, r.StateLost)
		assert.Assert(t, r.Outcome == execpolicy.Signaled || r.ExitCode == 137, r.Text())
		assert.Equal(t, s.ok("echo after"), "after")
	}},
	{name: "the shell's parent killed by its own hand", do: func(t *testing.T, s session) {
		s.ok("kept=9")
		assert.Equal(t, string(s.script("kill -9 $PPID; echo out").Stdout), "out\n")
		// The shell goes on for a while; the command in which it is missed may end with it.
		wait(t, func() bool { return string(s.script("echo ${kept-new}").Stdout) == "new\n" }, "the shell is not replaced")
	}},
	{name: "D2 orphans are gathered", do: func(t *testing.T, s session) {
		s.ok("i=0; while [ $i -lt 50 ]; do (: &); i=$((i+1)); done")
		zombies := "n=0; for p in /proc/[0-9]*/stat; do read -r a b state c <$p && [ \"$state\" = Z ] && n=$((n+1)); done 2>/dev/null; echo $n"
		wait(t, func() bool { return s.ok("sleep 0.2; "+zombies) == "0" }, "zombies stay")
	}},
	{name: "OutputLimit ends a flood", do: func(t *testing.T, s session) {
		s.ok("kept=7")
		r := s.run(execpolicy.Command{Script: "yes", OutputLimit: 100_000})
		assert.Equal(t, r.Outcome, execpolicy.OutputLimit)
		assert.Equal(t, r.ExitCode, -1)
		assert.Assert(t, r.StdoutInfo.Bytes > 100_000)
		assert.Assert(t, strings.HasSuffix(r.Text(), "\n\nEnded: too much output."))
		s.gone("yes")
		r = s.run(execpolicy.Command{Script: "printf '%0100d' 0; echo $kept >&2", OutputLimit: 102})
		assert.Equal(t, r.Outcome, execpolicy.Exited)
		assert.Equal(t, string(r.Stderr), "7\n")
	}},
	{name: "a cancel ends the command and nothing else", do: func(t *testing.T, s session) {
		s.ok("kept=8")
		cause := errors.New("the user has gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		c := s.start(ctx, execpolicy.Command{Script: "echo begun; sleep 4718"})
		cancel(cause)
		<-c.done
		assert.ErrorIs(t, c.err, cause)
		assert.Equal(t, c.result.Outcome, execpolicy.Canceled)
		assert.Equal(t, string(c.result.Stdout), "begun\n")
		assert.Assert(t, strings.HasPrefix(c.result.Text(), "begun\n"))
		assert.Assert(t, strings.HasSuffix(c.result.Text(), "\n\nCanceled."))
		s.gone("sleep 4718")
		assert.Equal(t, s.ok("echo $kept"), "8")
	}},
	{name: "D16 a cancel while waiting for the turn", do: func(t *testing.T, s session) {
		c := s.start(t.Context(), execpolicy.Command{Script: "echo begun; sleep 4719", Timeout: 3 * short})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		r, err := s.Run(ctx, execpolicy.Command{Script: "echo never >/tmp/never"})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Assert(t, r == nil)
		<-c.done
		assert.Equal(t, c.result.Outcome, execpolicy.TimedOut)
		assert.Equal(t, s.ok("[ ! -e /tmp/never ] && echo none"), "none")
	}},
	{name: "a writer that is stuck is left behind at the deadline", do: func(t *testing.T, s session) {
		stuck := make(stuckWriter)
		r, err := s.Run(t.Context(), execpolicy.Command{Script: "yes", Stdout: stuck, Timeout: short})
		assert.NilError(t, err)
		assert.Equal(t, r.Outcome, execpolicy.TimedOut)
		close(stuck)
		assert.Equal(t, s.ok("echo next"), "next")
	}},
	{name: "a writer that fails is an error beside the result", do: func(t *testing.T, s session) {
		broken := make(stuckWriter)
		close(broken)
		r, err := s.Run(t.Context(), execpolicy.Command{Script: "echo out", Stdout: broken})
		assert.ErrorIs(t, err, errBroken)
		assert.Equal(t, string(r.Stdout), "out\n")
		assert.Equal(t, r.Outcome, execpolicy.Exited)
	}},
}

var errBroken = errors.New("the writer is broken")

// A stuckWriter waits until it is closed, and fails then.
type stuckWriter chan struct{}

func (w stuckWriter) Write([]byte) (int, error) {
	<-w
	return 0, errBroken
}

// oldMarks prints marks that are not those of the command that runs.
func oldMarks(t *testing.T, s session) {
	// The library's own text can be read by its worker, unless the shell's program is unreadable: the numbers in it are no secret.
	const read = `prefix=ABCDEFGHIJKLMNOPQRSTUVWXYZ tag=ZYXWVUTSRQPONMLKJIHGFEDCBA
		for f in /proc/$$/fd/*; do
			case $(readlink "$f") in */u\ *) tag=$(cat "$f"); tag=${tag##*printf \'}; tag=${tag%%\\*}; prefix=${tag%e*}; tag=${tag##*e} ;; esac
		done 2>/dev/null
		`
	s.ok(read + "old=$tag; [ ${#prefix} = 26 ] && [ ${#tag} = 26 ] && { [ $tag != ZYXWVUTSRQPONMLKJIHGFEDCBA ] || ! ls /proc/$$/fd/; }")
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
		r := s.script(read + script + "; sleep 0.01; echo after; (exit 7)")
		assert.Equal(t, r.Outcome, execpolicy.Exited, name)
		assert.Equal(t, r.ExitCode, 7, name)
		assert.Assert(t, strings.HasSuffix(string(r.Stdout), "after\n"), "%s: %q", name, r.Stdout)
	}
	assert.Equal(t, s.ok("echo next"), "next")
}
