package execpolicy_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

func (p place) startIdle(t *testing.T) *execpolicy.Idle {
	t.Helper()
	i, err := execpolicy.StartIdle(t.Context(), p.policy(), p.spec())
	assert.NilError(t, err)
	t.Cleanup(func() { i.Close() })
	return i
}

// An idle session goes to one of all who want it, and Close leaves it to that one.
func TestIdleIsTakenOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		i := p.startIdle(t)
		name := i.Name()
		assert.NilError(t, i.Check(t.Context()))
		var taken atomic.Pointer[execpolicy.Session]
		var lost atomic.Int32
		var all sync.WaitGroup
		for n := range 8 {
			all.Go(func() {
				if n%2 == 0 {
					if err := i.Check(t.Context()); err != nil {
						assert.Check(t, errors.Is(err, execpolicy.ErrClosed), "%v", err)
					}
					return
				}
				s, err := i.Take(t.Context(), execpolicy.Spec{Env: map[string]string{"N": "n"}})
				if err != nil {
					assert.Check(t, errors.Is(err, execpolicy.ErrClosed), "%v", err)
					lost.Add(1)
					return
				}
				taken.Store(s)
			})
		}
		all.Wait()
		assert.Equal(t, lost.Load(), int32(3))
		assert.NilError(t, i.Close())
		assert.ErrorIs(t, i.Check(t.Context()), execpolicy.ErrClosed)
		s := session{taken.Load(), t}
		assert.Equal(t, s.Name(), name)
		assert.Equal(t, s.ok("echo $N"), "n")
		assert.NilError(t, s.Close())
		<-i.Done()
	})
}

// What a user brings undoes nothing that startup scripts have done ahead.
func TestIdleTakeKeepsStartup(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		ahead := p.spec()
		ahead.Env = map[string]string{"V": "before"}
		ahead.Startup = []string{"cd /tmp; export V=startup"}
		for _, use := range []execpolicy.Spec{
			{},
			{Env: map[string]string{"OWN": "own"}},
			{Secrets: []execpolicy.Secret{{Name: "OWN", Value: "own-secret"}}},
		} {
			i, err := execpolicy.StartIdle(t.Context(), p.policy(), ahead)
			assert.NilError(t, err)
			taken, err := i.Take(t.Context(), use)
			assert.NilError(t, err)
			s := session{taken, t}
			assert.Equal(t, s.ok("echo $V $PWD"), "startup /tmp")
			assert.Equal(t, s.ok("echo ${#OWN}"), map[int]string{0: "0", 1: "3", 2: "10"}[len(use.Env)+2*len(use.Secrets)])
			assert.NilError(t, s.Close())
		}
	})
}

func TestIdleClose(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		i := p.startIdle(t)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { assert.Check(t, i.Close()) })
		}
		all.Wait()
		<-i.Done()
		_, err := i.Take(t.Context(), execpolicy.Spec{})
		assert.ErrorIs(t, err, execpolicy.ErrClosed)
		assert.ErrorIs(t, i.Check(t.Context()), execpolicy.ErrClosed)
	})
}

// A spec that is refused costs nothing, and a context that ends costs the session.
func TestIdleTakeFails(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		i := p.startIdle(t)
		_, err := i.Take(t.Context(), execpolicy.Spec{Workspace: "/", Command: []string{"sh"}})
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.ErrorIs(t, err, execpolicy.ErrNoMount)
		assert.NilError(t, i.Check(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err = i.Take(ctx, execpolicy.Spec{Startup: []string{"sleep 1000"}})
		assert.ErrorIs(t, err, execpolicy.ErrStart)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		<-i.Done()
		_, err = i.Take(t.Context(), execpolicy.Spec{})
		assert.ErrorIs(t, err, execpolicy.ErrClosed)
	})
}

// Check of a session that was taken does not wait for a command of its user.
func TestIdleCheckOfATakenSession(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		i, err := execpolicy.StartIdle(t.Context(), p.policy(), p.spec())
		assert.NilError(t, err)
		taken, err := i.Take(t.Context(), execpolicy.Spec{})
		assert.NilError(t, err)
		defer taken.Close()
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		c := session{taken, t}.start(ctx, execpolicy.Command{Script: "echo begun; sleep 4861", Timeout: -1})
		assert.ErrorIs(t, i.Check(t.Context()), execpolicy.ErrClosed)
		cancel(nil)
		<-c.done
	})
}

// Who takes a session while a Check of it hangs waits no longer than its context.
func TestIdleTakeBesideCheck(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		policy, spec := p.policy(), p.spec()
		policy.TerminationTimeout = 4 * time.Second
		spec.Startup = []string{"echo $$ >/tmp/worker"}
		i, err := execpolicy.StartIdle(t.Context(), policy, spec)
		assert.NilError(t, err)
		defer i.Close()
		p.cli(t, "exec", i.Name(), "sh", "-c", "kill -STOP $(cat /tmp/worker)")
		checked := make(chan error, 1)
		go func() { checked <- i.Check(context.Background()) }()
		wait(t, i.Asked, "Check has not begun")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		enginetest.Within(t, policy.TerminationTimeout+slack, "Take", func() {
			_, err := i.Take(ctx, execpolicy.Spec{})
			assert.ErrorIs(t, err, execpolicy.ErrStart)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
		assert.Assert(t, <-checked != nil)
		<-i.Done()
	})
}

// A session's own limits stand in place of the policy's, but for a longer lifetime.
func TestSpecLimits(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		policy, spec := p.policy(), p.spec()
		policy.Lifetime = ample
		spec.Limits = execpolicy.Limits{CommandTimeout: 2 * time.Second, MaxOutputBytes: 4, Lifetime: 10 * ample}
		s := open(t, policy, spec)
		r := s.script("echo 123456789; sleep 1000")
		assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
		assert.Equal(t, r.Timeout, 2*time.Second)
		assert.Equal(t, len(r.Stdout), 4)
		spec.Limits = execpolicy.Limits{Lifetime: slack, CommandTimeout: -1} // with the container's start
		s = open(t, policy, spec)
		r, err := s.Run(t.Context(), execpolicy.Command{Script: "sleep 1000"})
		assert.ErrorIs(t, err, execpolicy.ErrExpired)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeCanceled)
		assert.ErrorIs(t, r.Cause, execpolicy.ErrExpired)
		assert.Equal(t, r.Timeout, time.Duration(-1))
	})
}
