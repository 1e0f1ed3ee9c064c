//go:build linux

package execpolicy_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/private"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

const (
	// starting and stopping are the limits of sessions whose engine hangs, and late is
	// how much later than it may a call may return that asks no engine.
	starting = time.Second
	stopping = 1500 * time.Millisecond
	late     = 700 * time.Millisecond
)

// An ownEngine is an engine that a test may stop and kill.
type ownEngine struct {
	*private.Daemon
	place
}

// policy returns that of sessions that are ended while the engine hangs.
func (e ownEngine) policy() execpolicy.DockerPolicy {
	p := e.answering()
	p.TerminationTimeout = stopping
	return p
}

// answering returns the policy of sessions that are ended while the engine answers, or is
// not there.
func (e ownEngine) answering() execpolicy.DockerPolicy {
	p := e.place.policy()
	p.TerminationTimeout = ample
	// Over FIFOs the engine has no part in what a session does.
	p.Transport = execpolicy.TransportAttach
	// An engine that is told to end gives its containers 10 s to obey a SIGTERM, and one
	// that finds some of before, too.
	p.ExtraRunArgs = []string{"--stop-timeout=1"}
	return p.DockerPolicy
}

// overFIFOs returns answering with FIFOs.
func (e ownEngine) overFIFOs() execpolicy.DockerPolicy {
	p := e.answering()
	p.Transport = execpolicy.TransportFIFO
	return p
}

// pause stops the engine, until the test has ended at the latest.
func (e ownEngine) pause(t *testing.T) {
	t.Helper()
	assert.NilError(t, e.Pause())
	t.Cleanup(func() { e.resume(t) })
}

func (e ownEngine) resume(t *testing.T) {
	t.Helper()
	assert.Check(t, e.Resume())
}

// empty waits until the engine has no container and no process of one.
func (e ownEngine) empty(t *testing.T) {
	t.Helper()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		names := strings.Fields(e.cli(t, "ps", "--all", "--format={{.Names}}:{{.Status}}"))
		// An engine that is killed while it removes a container may keep a record of it
		// that has lost its name: it is its own, and nothing runs in it.
		names = slices.DeleteFunc(names, func(n string) bool { return n == ":Dead" })
		others, err := e.Others()
		if err != nil {
			return poll.Error(err)
		}
		// One that is killed right after it has started a container forgets that, and
		// never ends its own helper, in which nothing of the container runs.
		others = slices.DeleteFunc(others, func(p string) bool { return strings.Contains(p, "/containerd-shim") })
		if len(names)+len(others) > 0 {
			return poll.Continue("left: %q %q", names, others)
		}
		return poll.Success()
	}, poll.WithTimeout(patience), poll.WithDelay(20*time.Millisecond))
}

// An engine that stops answering, or ends, holds no call up; and when it answers again
// nothing is left.
func TestEngineOfItsOwn(t *testing.T) {
	if testing.Short() {
		leftout.Note(t, "it is measured against the clock")
		return
	}
	enginetest.Check(t)
	d, err := private.Start(t.Context(), os.Stderr)
	if errors.Is(err, errors.ErrUnsupported) {
		leftout.Skip(t, "%v", err)
	}
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, d.Close()) })
	e := ownEngine{d, place{engine: d.Engine(), image: d.Image(), labels: map[string]string{"cofferdam-test": "own"}}}
	for _, c := range ownEngineCases {
		t.Run(c.name, func(t *testing.T) {
			enginetest.Check(t, enginetest.Engine{Engine: e.engine, Name: "docker", Image: e.image, Labels: e.labels})
			c.do(t, e)
			e.empty(t)
		})
	}
}

var ownEngineCases = []struct {
	name string
	do   func(t *testing.T, e ownEngine)
}{
	{"Start on an engine that hangs", func(t *testing.T, e ownEngine) {
		e.pause(t)
		policy := e.policy()
		policy.StartupTimeout = starting
		enginetest.Within(t, starting+stopping+slack, "Start", func() {
			_, err := execpolicy.Start(t.Context(), policy, e.spec())
			assert.ErrorIs(t, err, execpolicy.ErrStart)
			assert.ErrorIs(t, err, execpolicy.ErrStillThere)
			assert.ErrorIs(t, err, dockercli.ErrEngineDown)
			assert.ErrorContains(t, err, "in time")
		})
		e.resume(t)
	}},
	{"a Start that is canceled while the engine hangs", func(t *testing.T, e ownEngine) {
		e.pause(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("the user has gone")
		time.AfterFunc(short, func() { cancel(cause) })
		enginetest.Within(t, short+stopping+slack, "Start", func() {
			_, err := execpolicy.Start(ctx, e.policy(), e.spec())
			assert.ErrorIs(t, err, execpolicy.ErrStart)
			assert.ErrorIs(t, err, cause)
			assert.ErrorIs(t, err, execpolicy.ErrStillThere)
		})
		e.resume(t)
	}},
	{"an engine that stops anywhere in a start", func(t *testing.T, e ownEngine) {
		policy := e.policy()
		policy.StartupTimeout = starting
		var starts sync.WaitGroup
		for range 12 {
			starts.Go(func() {
				enginetest.Within(t, starting+stopping+slack, "Start", func() {
					if s, err := execpolicy.Start(t.Context(), policy, e.spec()); err == nil {
						s.Close()
					}
				})
			})
			time.Sleep(15 * time.Millisecond) // so that they have got to different places
		}
		e.pause(t)
		starts.Wait()
		// It hangs for longer than anybody waits.
		time.Sleep(3 * stopping)
		e.resume(t)
	}},
	{"a command at its deadline while the engine hangs", func(t *testing.T, e ownEngine) {
		var s session
		var c *running
		for limit := starting; ; limit *= 2 {
			s = open(t, e.policy(), e.spec())
			var begun bool
			c, begun = s.tryStart(t.Context(), execpolicy.Command{Script: "echo begun; sleep 4761", Timeout: limit})
			e.pause(t)
			enginetest.Within(t, limit+stopping+slack, "Run", func() { <-c.done })
			// On a busy machine the deadline may come before the command or before the
			// pause.
			if begun && c.err != nil || limit > latest {
				break
			}
			e.resume(t)
		}
		assert.ErrorIs(t, c.err, execpolicy.ErrStillThere)
		assert.Equal(t, c.result.Outcome, execpolicy.OutcomeTimedOut)
		assert.Equal(t, string(c.result.Stdout), "begun\n")
		assert.Assert(t, c.result.StateLost && !c.result.Gone)
		enginetest.Within(t, slack, "Run", func() {
			_, err := s.Run(t.Context(), execpolicy.Command{Script: "echo next"})
			assert.ErrorIs(t, err, execpolicy.ErrEnded)
		})
		enginetest.Within(t, stopping+slack, "Close", func() { assert.ErrorIs(t, s.Close(), execpolicy.ErrStillThere) })
		e.resume(t)
	}},
	{"commands that are canceled while the engine hangs", func(t *testing.T, e ownEngine) {
		s := open(t, e.policy(), e.spec())
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("the user has gone")
		c := s.start(ctx, execpolicy.Command{Script: "echo begun; sleep 4762"})
		e.pause(t)
		enginetest.Within(t, short+slack, "a Run that waits for its turn", func() {
			ctx, cancel := context.WithTimeout(t.Context(), short)
			defer cancel()
			_, err := s.Run(ctx, execpolicy.Command{Script: "echo never"})
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
		enginetest.Within(t, stopping+slack, "Run", func() {
			cancel(cause)
			<-c.done
		})
		assert.ErrorIs(t, c.err, cause)
		assert.ErrorIs(t, c.err, execpolicy.ErrStillThere)
		assert.Equal(t, c.result.Outcome, execpolicy.OutcomeCanceled)
		e.resume(t)
	}},
	{"1 MiB of stdin while the engine hangs", func(t *testing.T, e ownEngine) {
		s := open(t, e.answering(), e.spec())
		s.ok(":") // with the ID of the image
		e.pause(t)
		enginetest.Within(t, short+prompt, "Run", func() {
			r, err := s.Run(t.Context(),
				execpolicy.Command{Script: "wc -c", Stdin: strings.NewReader(strings.Repeat("x", 1<<20)), Timeout: short})
			assert.NilError(t, err)
			assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
		})
		e.resume(t)
		// The command was never sent.
		assert.Equal(t, s.ok("echo next"), "next")
		assert.NilError(t, s.Close())
	}},
	{"an engine that hangs for less than a command may take", func(t *testing.T, e ownEngine) {
		s := open(t, e.answering(), e.spec())
		c := s.start(t.Context(), execpolicy.Command{Script: "echo begun; sleep 0.1; echo end"})
		e.pause(t)
		time.Sleep(5 * short)
		e.resume(t)
		<-c.done
		assert.NilError(t, c.err)
		assert.Equal(t, string(c.result.Stdout), "begun\nend\n")
		assert.NilError(t, s.Close())
	}},
	{"Close while the engine hangs", func(t *testing.T, e ownEngine) {
		s := open(t, e.policy(), e.spec())
		e.pause(t)
		enginetest.Within(t, stopping+slack, "Close", func() { assert.ErrorIs(t, s.Close(), execpolicy.ErrStillThere) })
		enginetest.Within(t, stopping+slack, "a second Close", func() { s.Close() })
		<-s.Done()
		e.resume(t)
	}},
	{"Close during a command while the engine hangs", func(t *testing.T, e ownEngine) {
		s := open(t, e.policy(), e.spec())
		c := s.start(t.Context(), execpolicy.Command{Script: "echo begun; trap '' TERM; sleep 4763"})
		e.pause(t)
		enginetest.Within(t, stopping+slack, "Close", func() { assert.ErrorIs(t, s.Close(), execpolicy.ErrStillThere) })
		<-c.done
		assert.ErrorIs(t, c.err, execpolicy.ErrClosed)
		assert.Equal(t, c.result.Outcome, execpolicy.OutcomeCanceled)
		e.resume(t)
	}},
	{"a pull that hangs", func(t *testing.T, e ownEngine) {
		policy := e.policy()
		policy.Image, policy.PullTimeout = "localhost/no-such-image:1", starting
		enginetest.Within(t, starting+stopping+slack, "Start", func() {
			_, err := execpolicy.Start(t.Context(), pausedPull{policy, func() { e.pause(t) }}, e.spec())
			assert.ErrorIs(t, err, dockercli.ErrPull)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
		e.resume(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("the user has gone")
		enginetest.Within(t, stopping+slack, "Start", func() {
			policy.PullTimeout = 0
			_, err := execpolicy.Start(ctx, pausedPull{policy, func() {
				e.pause(t)
				time.AfterFunc(short, func() { cancel(cause) })
			}}, e.spec())
			assert.ErrorIs(t, err, cause)
		})
		e.resume(t)
	}},
	{"an engine that is killed during a command", func(t *testing.T, e ownEngine) {
		s := open(t, e.policy(), e.spec())
		c := s.start(t.Context(), execpolicy.Command{Script: "echo begun; trap '' TERM; sleep 4764"})
		assert.NilError(t, e.Kill())
		enginetest.Within(t, stopping+slack, "Run", func() { <-c.done })
		assert.ErrorIs(t, c.err, execpolicy.ErrEnded)
		assert.ErrorIs(t, c.err, execpolicy.ErrStillThere)
		assert.Equal(t, c.result.Outcome, execpolicy.OutcomeSessionLost)
		assert.Equal(t, string(c.result.Stdout), "begun\n")
		assert.Assert(t, !c.result.Gone)
		enginetest.Within(t, stopping+slack, "Start", func() {
			_, err := execpolicy.Start(t.Context(), e.policy(), e.spec())
			assert.ErrorIs(t, err, dockercli.ErrEngineDown)
		})
		// Its stdin is held open by what looks after it. It is killed without an engine.
		others, err := e.Others()
		assert.NilError(t, err)
		assert.Assert(t, !strings.Contains(strings.Join(others, "\n"), "sleep 4764"))
		assert.NilError(t, e.Daemon.Start(t.Context()))
		e.empty(t)
		s.restart()
		assert.Equal(t, s.ok("echo again"), "again")
		// A busy engine may remove it only later.
		if err := s.Close(); err != nil {
			assert.ErrorIs(t, err, execpolicy.ErrStillThere)
		}
	}},
	{"an engine that is killed between commands", func(t *testing.T, e ownEngine) {
		s := open(t, e.answering(), e.spec())
		assert.NilError(t, e.Kill())
		enginetest.Within(t, prompt, "Done", func() { <-s.Done() })
		assert.NilError(t, e.Daemon.Start(t.Context()))
		e.empty(t)
		enginetest.Within(t, prompt, "Close", func() { assert.NilError(t, s.Close()) })
	}},
	{"an engine that is restarted between commands", func(t *testing.T, e ownEngine) {
		s := open(t, e.answering(), e.spec())
		s.ok("kept=5")
		assert.NilError(t, e.Restart(t.Context()))
		_, err := s.Run(t.Context(), execpolicy.Command{Script: "echo $kept"})
		assert.ErrorIs(t, err, execpolicy.ErrEnded)
		<-s.Done()
		e.empty(t)
		assert.NilError(t, s.Restart(t.Context()))
		assert.Equal(t, s.ok("echo ${kept-new}"), "new")
		assert.NilError(t, s.Close())
	}},
	{"an engine that is restarted during a command", func(t *testing.T, e ownEngine) {
		s := open(t, e.answering(), e.spec())
		c := s.start(t.Context(), execpolicy.Command{Script: "echo begun; sleep 4765"})
		assert.NilError(t, e.Restart(t.Context()))
		<-c.done
		assert.ErrorIs(t, c.err, execpolicy.ErrEnded)
		assert.Equal(t, c.result.Outcome, execpolicy.OutcomeSessionLost)
		assert.NilError(t, s.Close())
	}},
	// Over FIFOs a session does without its engine.
	{"commands over FIFOs while the engine hangs", func(t *testing.T, e ownEngine) {
		s := open(t, e.overFIFOs(), e.spec())
		s.ok(":") // with the ID of the image
		e.pause(t)
		r := s.run(execpolicy.Command{Script: "echo begun; trap '' TERM; sleep 4766", Timeout: starting})
		assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
		assert.Equal(t, string(r.Stdout), "begun\n")
		assert.Assert(t, r.Gone)
		assert.Equal(t, s.ok("echo next"), "next")
		e.resume(t)
		assert.NilError(t, s.Close())
	}},
	{"a command over FIFOs while the engine is killed", func(t *testing.T, e ownEngine) {
		s := open(t, e.overFIFOs(), e.spec())
		c := s.start(t.Context(), execpolicy.Command{Script: "echo begun; sleep 0.5; echo end"})
		assert.NilError(t, e.Kill())
		<-c.done
		assert.NilError(t, c.err)
		assert.Equal(t, string(c.result.Stdout), "begun\nend\n")
		assert.NilError(t, e.Daemon.Start(t.Context()))
		// The engine ends what it finds of before.
		if err := s.Close(); err != nil {
			assert.ErrorIs(t, err, execpolicy.ErrStillThere)
		}
	}},
	// Only the guard can remove these.
	{"the program is killed while the engine hangs", func(t *testing.T, e ownEngine) {
		_, kill := e.startHolder(t, "lifeline")
		e.pause(t)
		kill()
		time.Sleep(stopping)
		e.resume(t)
	}},
}

// A pausedPull is a policy that does something right before the image is pulled.
type pausedPull struct {
	execpolicy.Policy
	before func()
}

func (p pausedPull) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	proc, err := p.Policy.Spawn(ctx, spec)
	if err == nil {
		recovers := proc.Recover
		proc.Recover = func(ctx context.Context, cause error) error {
			p.before()
			return recovers(ctx, cause)
		}
	}
	return proc, err
}

// A pull takes no longer than it may, and ends with its context.
func TestPullThatHangs(t *testing.T) {
	fakeengine.NeedIsolation(t)
	enginetest.Check(t)
	e := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{ImageMissing: true, Hang: []string{"pull"}})
	// The engine is asked for the image first, within the same time.
	p := execpolicy.DockerPolicy{Engine: e.Engine, Image: "image", PullTimeout: 3 * time.Second}
	enginetest.Within(t, patience, "Start", func() {
		_, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
		assert.ErrorIs(t, err, execpolicy.ErrStart)
		assert.ErrorIs(t, err, dockercli.ErrPull)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
	p.PullTimeout = 0
	cause := errors.New("the user has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	before := len(e.Calls())
	started := make(chan error, 1)
	go func() {
		_, err := execpolicy.Start(ctx, p, execpolicy.Spec{})
		started <- err
	}()
	wait(t, func() bool {
		return slices.ContainsFunc(e.Calls()[before:], func(argv []string) bool { return slices.Contains(argv, "pull") })
	}, "nothing is pulled")
	cancel(cause)
	enginetest.Within(t, patience, "Start", func() {
		err := <-started
		assert.ErrorIs(t, err, cause)
		assert.ErrorIs(t, err, dockercli.ErrPull)
	})
}
