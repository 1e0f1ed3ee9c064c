package execpolicy_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

// The processes of a slowPolicy are ready some time after they were spawned.
type slowPolicy struct {
	execpolicy.Policy
	ready func(context.Context, *execpolicy.Process) error
}

func (p slowPolicy) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	proc, err := p.Policy.Spawn(ctx, spec)
	if err == nil {
		proc.Ready = func(ctx context.Context) error { return p.ready(ctx, proc) }
	}
	return proc, err
}

// Those that wait in a queue hold up no other start, and lose no time that is for the
// start or the session.
func TestReadyHoldsUpNobody(t *testing.T) {
	enginetest.Check(t)
	// Turns are the same whatever is started.
	policy := execpolicy.HostPolicy{Limits: hostLimits}
	plain := policy
	policy.StartupTimeout, policy.Lifetime = 4*time.Second, 4*time.Second
	waits, full := make(chan struct{}), make(chan struct{})
	q := slowPolicy{policy, func(context.Context, *execpolicy.Process) error {
		waits <- struct{}{}
		<-full
		return nil
	}}
	started := make(chan error)
	for range execpolicy.MaxStarts + 1 {
		go func() {
			_, err := execpolicy.Run(t.Context(), q, execpolicy.Spec{}, execpolicy.Command{Script: "true"})
			started <- err
		}()
	}
	for range execpolicy.MaxStarts + 1 {
		<-waits
	}
	_, err := execpolicy.Run(t.Context(), plain, execpolicy.Spec{}, execpolicy.Command{Script: "true"})
	assert.NilError(t, err)
	time.Sleep(policy.Lifetime + time.Second) // has to pass
	close(full)
	for range execpolicy.MaxStarts + 1 {
		assert.Check(t, <-started)
	}
}

func TestReadyFails(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		full := errors.New("the queue is full")
		var name string
		start := func(ctx context.Context, ready func(context.Context, *execpolicy.Process) error) error {
			_, err := execpolicy.Start(ctx, slowPolicy{p.policy(), func(ctx context.Context, proc *execpolicy.Process) error {
				name = proc.Name
				return ready(ctx, proc)
			}}, p.spec())
			assert.ErrorIs(t, err, execpolicy.ErrStart)
			if p.image != "" {
				assert.Equal(t, p.cli(t, "ps", "--all", "--quiet", "--filter=name="+name), "")
			}
			return err
		}
		err := start(t.Context(), func(context.Context, *execpolicy.Process) error { return full })
		assert.ErrorIs(t, err, full)

		ctx, cancel := context.WithCancelCause(t.Context())
		err = start(ctx, func(ctx context.Context, _ *execpolicy.Process) error {
			cancel(full)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		assert.ErrorIs(t, err, full)

		err = start(t.Context(), func(ctx context.Context, proc *execpolicy.Process) error {
			proc.Stdin.Close()
			<-ctx.Done()
			return context.Cause(ctx)
		})
		assert.ErrorContains(t, err, "exited with 1")
	})
}
