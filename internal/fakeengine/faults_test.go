//go:build unix

package fakeengine

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
	"gotest.tools/v3/assert"
)

// eachFaulty runs a test that takes no containers over both kinds.
func eachFaulty(t *testing.T, f func(t *testing.T, kind dockercli.Kind)) {
	each(t, func(t *testing.T, kind dockercli.Kind) {
		enginetest.Check(t)
		f(t, kind)
	})
}

func TestEngineThatDoesNotAnswer(t *testing.T) {
	eachFaulty(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{Hang: []string{Every}, HangAfter: 2})
		for range 2 {
			_, err := e.PS(ctxOf(t), anyLabel)
			assert.NilError(t, err)
		}
		_, err := abandoned(t, listed(e), calls(e, 3))
		assert.ErrorIs(t, err, dockercli.ErrEngineDown)
		// Only these verbs.
		e.Set(Faults{Hang: []string{"info"}})
		_, err = e.PS(ctxOf(t), anyLabel)
		assert.NilError(t, err)
		_, err = abandoned(t, func(ctx context.Context) error {
			_, err := e.Info(ctx)
			return err
		}, calls(e, 5))
		assert.ErrorIs(t, err, dockercli.ErrEngineDown)
	})
}

func TestEngineThatAnswersAgain(t *testing.T) {
	eachFaulty(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{Hang: []string{"ps"}})
		done := make(chan error, 1)
		go func() {
			_, err := e.PS(ctxOf(t), anyLabel)
			done <- err
		}()
		eventually(t, "the call was made", calls(e, 1))
		select {
		case err := <-done:
			t.Fatalf("it did not hang: %v", err)
		default:
		}
		e.Set(Faults{})
		assert.NilError(t, <-done)
	})
}

func TestClientThatIgnoresTerm(t *testing.T) {
	eachFaulty(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{Hang: []string{Every}, IgnoreTerm: true})
		after, err := abandoned(t, listed(e), calls(e, 1))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		// It took the KILL that comes half a second after the TERM.
		assert.Assert(t, after >= 500*time.Millisecond)

		e.Set(Faults{Hang: []string{Every}})
		s := begin(t, e, options("obeys", "true"))
		eventually(t, "the call was made", calls(e, 2))
		assert.NilError(t, s.cmd.Process.Signal(syscall.SIGTERM))
		s.wait()
		assert.Equal(t, s.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(), syscall.SIGTERM)
	})
}

func TestVerbThatFails(t *testing.T) {
	eachFaulty(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{Fail: map[string]Failure{"ps": {Exit: 3, Stderr: "some words", Times: 2},
			Every: {Exit: 1, Stderr: "Cannot connect to the Docker daemon"}}})
		for range 2 {
			_, err := e.PS(ctxOf(t), anyLabel)
			var failed *dockercli.Error
			assert.Assert(t, errors.As(err, &failed))
			assert.Equal(t, failed.ExitCode, 3)
			assert.Equal(t, failed.Stderr, "some words\n")
		}
		_, err := e.PS(ctxOf(t), anyLabel)
		assert.NilError(t, err)
		_, err = e.Info(ctxOf(t))
		assert.ErrorIs(t, err, dockercli.ErrEngineDown)
		// A fault that is set again counts anew.
		e.Set(Faults{Fail: map[string]Failure{"ps": {Exit: 3, Times: 1}}})
		_, err = e.PS(ctxOf(t), anyLabel)
		assert.Assert(t, err != nil)
		_, err = e.PS(ctxOf(t), anyLabel)
		assert.NilError(t, err)
	})
}

func TestVerbThatIsSlow(t *testing.T) {
	eachFaulty(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{Delay: map[string]time.Duration{"pull": 100 * time.Millisecond}})
		start := time.Now()
		var progress bytes.Buffer
		assert.NilError(t, e.Pull(ctxOf(t), dockercli.PullOptions{Image: "image:1", Progress: &progress}))
		assert.Assert(t, time.Since(start) >= 100*time.Millisecond)
		assert.Assert(t, strings.Contains(progress.String(), "ulling from") ||
			strings.Contains(progress.String(), "Trying to pull image:1"))
		e.Set(Faults{Delay: map[string]time.Duration{Every: time.Hour, "pull": 0}})
		assert.NilError(t, e.Pull(ctxOf(t), dockercli.PullOptions{Image: "image:3"}))
		e.Set(Faults{Delay: map[string]time.Duration{Every: time.Hour}})
		_, err := abandoned(t, func(ctx context.Context) error { return e.Pull(ctx, dockercli.PullOptions{Image: "image:2"}) }, calls(e, 3))
		assert.ErrorIs(t, err, dockercli.ErrPull)
		assert.Assert(t, !e.state.pulled("image:2"))
	})
}

func TestUnknownFaultsAreRefused(t *testing.T) {
	for _, f := range []Faults{
		{Hang: []string{"remove"}}, {Fail: map[string]Failure{"containers": {}}},
		{Delay: map[string]time.Duration{"": 1}}, {Flood: "both"},
	} {
		assert.ErrorContains(t, f.check(), "there is no")
	}
}

func TestImageThatIsMissingUntilPulled(t *testing.T) {
	eachIsolated(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{ImageMissing: true,
			Fail: map[string]Failure{"pull": {Exit: 1, Stderr: "Error: initializing source docker://NAME: no", Times: 1}}})
		o := options("pulled", "echo", "hello")
		argv, err := e.RunArgs(o)
		assert.NilError(t, err)
		s := begin(t, e, o)
		code, _ := s.exit()
		assert.Equal(t, code, 125)
		assert.ErrorIs(t, dockercli.NewRunError(argv, code, []byte(s.stderr.String()), nil), dockercli.ErrImageMissing)
		_, err = e.InspectImage(ctxOf(t), o.Image)
		assert.ErrorIs(t, err, dockercli.ErrImageMissing)
		err = e.Pull(ctxOf(t), dockercli.PullOptions{Image: o.Image})
		assert.ErrorIs(t, err, dockercli.ErrPull)
		assert.ErrorContains(t, err, "docker://example.com/image:1")
		assert.NilError(t, e.Pull(ctxOf(t), dockercli.PullOptions{Image: o.Image}))
		s = begin(t, e, o)
		code, out := s.exit()
		assert.Equal(t, code, 0, s.stderr.String())
		assert.Equal(t, out, "hello\n")
		// A run may pull by itself.
		o.Image, o.Pull = "other:1", ""
		s = begin(t, e, o)
		code, out = s.exit()
		assert.Equal(t, code, 0)
		assert.Equal(t, out, "hello\n")
		assert.Assert(t, s.stderr.String() != "")
	})
}

func TestRunThatFails(t *testing.T) {
	eachFaulty(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{Fail: map[string]Failure{"run": {Exit: 125, Stderr: "docker: no NAME today"}}})
		s := begin(t, e, options("fails", "true"))
		code, _ := s.exit()
		assert.Equal(t, code, 125)
		assert.Equal(t, s.stderr.String(), "docker: no fails today\n")
		assert.Equal(t, len(e.Containers()), 0)
	})
}

func TestContainerThatAppearsLate(t *testing.T) {
	eachIsolated(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{CreateDelay: time.Minute})
		s := begin(t, e, options("late", "sleep", "1000"))
		eventually(t, "the engine is at work", func() bool { return len(e.Processes()) >= 2 })
		assert.NilError(t, s.cmd.Process.Kill())
		s.wait()
		assert.NilError(t, e.Remove(ctxOf(t), "late"))
		assert.Equal(t, len(e.Containers()), 0)
		e.Set(Faults{})
		eventually(t, "it appears", func() bool { return len(e.Containers()) == 1 })
		c, err := e.Inspect(ctxOf(t), "late")
		assert.NilError(t, err)
		assert.Equal(t, c.Status, "created")
		assert.Assert(t, !c.Started)
		assert.ErrorIs(t, e.Kill(ctxOf(t), "late", "KILL"), dockercli.ErrNotRunning)
		assert.NilError(t, e.Remove(ctxOf(t), "late"))
	})
}

func TestClientThatIsEndedBeforeTheStart(t *testing.T) {
	eachIsolated(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{CreateDelay: time.Minute})
		s := begin(t, e, options("early", "sleep", "1000"))
		eventually(t, "the engine is at work", func() bool { return len(e.Processes()) >= 2 })
		assert.NilError(t, s.cmd.Process.Signal(syscall.SIGTERM))
		code, _ := s.exit()
		if kind == dockercli.Podman {
			assert.Equal(t, code, 0)
		} else {
			assert.Equal(t, code, 143)
		}
		e.Set(Faults{})
		eventually(t, "it appears", func() bool { return len(e.Containers()) == 1 })
		assert.NilError(t, e.Remove(ctxOf(t), "early"))
	})
}

func TestRemovalThatIsInProgress(t *testing.T) {
	eachIsolated(t, func(t *testing.T, kind dockercli.Kind) {
		twice := RemovalInProgress
		twice.Times = 2
		e := New(t, kind, Faults{Fail: map[string]Failure{"rm": twice}})
		s := begin(t, e, options("removed", loop...))
		s.hear()
		for i := range 2 {
			// It is not so, and so it does not go. It is awaited once the client of rm
			// has said so.
			_, err := abandoned(t, func(ctx context.Context) error { return e.Remove(ctx, "removed") }, func() bool {
				made := map[string]int{}
				var verb string
				for _, call := range e.Calls() {
					verb, _ = splitVerb(call)
					made[verb]++
				}
				return made["rm"] == i+1 && verb != "rm"
			})
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		}
		assert.Assert(t, e.Pid("removed") != 0)
		assert.NilError(t, e.Remove(ctxOf(t), "removed"))
		s.wait()

		really := RemovalInProgress
		really.Done = true
		e.Set(Faults{Fail: map[string]Failure{"rm": really}})
		s = begin(t, e, options("removed", loop...))
		s.hear()
		assert.NilError(t, e.Remove(ctxOf(t), "removed"))
		assert.Equal(t, len(e.Containers()), 0)
	})
}

func TestRemovalThatHangs(t *testing.T) {
	eachIsolated(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{})
		s := begin(t, e, options("hangs", loop...))
		s.hear()
		e.Set(Faults{Hang: []string{"rm"}})
		_, err := abandoned(t, func(ctx context.Context) error { return e.Remove(ctx, "hangs") }, calls(e, 2))
		assert.ErrorIs(t, err, dockercli.ErrEngineDown)
		assert.Equal(t, s.say("echo still"), "still")
		e.Set(Faults{})
		assert.NilError(t, e.Remove(ctxOf(t), "hangs"))
	})
}

func TestRunThatStandsStill(t *testing.T) {
	eachIsolated(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{})
		s := begin(t, e, options("still", loop...))
		s.hear()
		pid := e.Pid("still")
		e.Set(Faults{Hang: []string{Every}})
		s.stdin.Write([]byte("echo late\n"))
		heard := make(chan string, 1)
		go func() { heard <- s.hear() }()
		select {
		case line := <-heard:
			t.Fatalf("heard %q", line)
		case <-time.After(100 * time.Millisecond):
		}
		assert.Equal(t, e.Pid("still"), pid)
		e.Set(Faults{})
		assert.Equal(t, <-heard, "late")

		// It sees neither the end of stdin nor the end of its client.
		e.Set(Faults{Hang: []string{Every}})
		s.stdin.Close()
		assert.NilError(t, s.cmd.Process.Kill())
		s.wait()
		_, err := abandoned(t, listed(e), calls(e, 2))
		assert.ErrorIs(t, err, dockercli.ErrEngineDown)
		assert.Equal(t, e.Pid("still"), pid)
		e.Set(Faults{})
		eventually(t, "it is gone", func() bool { return len(e.Containers()) == 0 })
	})
}

func TestClientThatLeavesItsContainer(t *testing.T) {
	eachIsolated(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{})
		s := begin(t, e, options("left", "sh", "-c", "echo ready; exec sleep 1000"))
		s.hear()
		e.Set(Faults{ZeroOnTerm: true})
		assert.NilError(t, s.cmd.Process.Signal(syscall.SIGTERM))
		code, _ := s.exit()
		assert.Equal(t, code, 0)
		assert.Assert(t, e.Pid("left") != 0)
		assert.NilError(t, e.Remove(ctxOf(t), "left"))
	})
}

func TestConnectionThatIsLost(t *testing.T) {
	eachIsolated(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{})
		o := options("lost", loop...)
		argv, err := e.RunArgs(o)
		assert.NilError(t, err)
		s := begin(t, e, o)
		s.hear()
		e.Set(Faults{LoseConnection: true})
		code, _ := s.exit()
		assert.Equal(t, code, 125)
		assert.ErrorIs(t, dockercli.NewRunError(argv, code, []byte(s.stderr.String()), nil), dockercli.ErrEngineDown)
		// Its stdin has not ended, though nobody can write to it.
		e.Set(Faults{})
		_, _, err = e.Exec(ctxOf(t),
			dockercli.ExecOptions{Container: "lost", Command: []string{"sh", "-c", "sleep 0.3; kill -0 1"}})
		assert.NilError(t, err)
		assert.Assert(t, e.Pid("lost") != 0)
		assert.NilError(t, e.Remove(ctxOf(t), "lost"))
	})
}

func TestFlood(t *testing.T) {
	eachIsolated(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{})
		s := begin(t, e, options("flood", loop...))
		s.hear()
		e.Set(Faults{Flood: "stdout"})
		const line = "no command printed this line"
		for range 10_000 {
			assert.Equal(t, strings.ReplaceAll(s.hear(), line, ""), "")
		}
		go s.stdin.Write([]byte("echo in the middle\n"))
		for {
			if strings.HasSuffix(s.hear(), "in the middle") {
				break
			}
		}
		e.Set(Faults{})
		go s.stdin.Write([]byte("echo over\n"))
		for {
			if strings.HasSuffix(s.hear(), "over") {
				break
			}
		}
		e.Set(Faults{Flood: "stderr"})
		eventually(t, "stderr is full of it", func() bool { return strings.Count(s.stderr.String(), line) > 1000 })
		e.Set(Faults{})
		// The last line of the flood may be under way.
		eventually(t, "it is dry", func() bool { return s.say("echo dry") == "dry" })
	})
}

func TestWarning(t *testing.T) {
	eachIsolated(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{Warning: "WARNING: limitation discarded."})
		s := begin(t, e, options("warned", "true"))
		code, _ := s.exit()
		assert.Equal(t, code, 0)
		assert.Equal(t, s.stderr.String(), "WARNING: limitation discarded.\n")
	})
}

// A faulty engine's test fails if something is left, and removes it.
func TestLeftContainerFailsItsTest(t *testing.T) {
	NeedIsolation(t)
	enginetest.Check(t)
	tb := &recorder{TB: t}
	e := New(tb, dockercli.Docker, Faults{})
	e.patience = leftover.Patience{}
	s := begin(t, e, options("kept", "sh", "-c", "echo ready; exec sleep 1000"))
	s.hear()
	p := e.processes()
	assert.NilError(t, s.cmd.Process.Kill())
	s.wait()
	for _, f := range tb.cleanups {
		f()
	}
	assert.Equal(t, len(tb.errors), 1)
	assert.Assert(t, strings.Contains(tb.errors[0], "container kept"))
	for _, p := range p {
		assert.Assert(t, !p.alive())
	}
}

// A recorder takes down what a test would say.
type recorder struct {
	testing.TB
	cleanups []func()
	errors   []string
}

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Errorf(_ string, args ...any) {
	for _, arg := range args {
		r.errors = append(r.errors, arg.(string))
	}
}
