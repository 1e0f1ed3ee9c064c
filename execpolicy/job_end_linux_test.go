package execpolicy_test

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

// The end of a session's container may show long after that of a job in it, whose client
// is another. The job waits for it, and does not say that it was killed.
func TestEndOfSessionShowsAfterThatOfJob(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		policy := p.policy()
		policy.Transport = execpolicy.TransportAttach
		policy.TerminationTimeout = patience
		s := open(t, policy, p.spec())
		defer s.Close()
		j := s.job(execpolicy.Command{Script: "echo begun; sleep 1000"})
		wait(t, func() bool {
			return string(j.Output().Stdout) == "begun\n"
		}, "it has not begun")
		client := "--name=" + s.Name()
		signalChild(client, syscall.SIGSTOP)
		defer signalChild(client, syscall.SIGCONT)
		p.cli(t, "kill", s.Name())
		select {
		case <-j.Done():
			_, err := j.Wait(t.Context())
			t.Fatalf("it does not wait: %v", err)
		case <-time.After(3 * time.Second): // more than process 1 takes to answer
		}
		signalChild(client, syscall.SIGCONT)
		r, err := s.result(j)
		assert.ErrorIs(t, err, execpolicy.ErrEnded)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeSessionLost)
	})
}

// Where the session's own output is not taken, process 1 can't say what is left of such a
// job. Then the job ends all the same, in time, and says that it does not know.
func TestKeeperIsKilledWhereNothingIsTaken(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		policy.TerminationTimeout = 4 * time.Second
		podmans := p.engine.Kind == dockercli.Podman && policy.Transport == execpolicy.TransportAttach
		if podmans {
			policy.StartupTimeout = 10 * time.Second
			policy.TerminationTimeout = ample
		}
		s := open(t, policy, p.spec())
		defer s.Close()
		out := make(stuckWriter)
		defer close(out)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := s.start(ctx, execpolicy.Command{Script: "echo begun; exec cat /dev/zero", Stdout: out, Timeout: -1})
		if podmans {
			// Its client hands the session nothing meanwhile.
			_, err := s.StartJob(t.Context(), execpolicy.Command{Script: ":"})
			assert.ErrorIs(t, err, execpolicy.ErrStart)
			cancel()
			<-c.done
			assert.Equal(t, s.ok("echo on"), "on")
			return
		}
		j := s.job(execpolicy.Command{Script: "kill -9 $PPID; sleep 1000"})
		enginetest.Within(t, policy.TerminationTimeout+slack, "the job", func() {
			r, err := s.result(j)
			assert.Assert(t, r.Gone != errors.Is(err, execpolicy.ErrStillThere), "%v", err)
		})
		r, err := s.result(s.job(execpolicy.Command{Script: "echo beside"}))
		assert.NilError(t, err)
		assert.Equal(t, string(r.Stdout), "beside\n")
		cancel()
		<-c.done
		assert.Equal(t, c.result.Outcome, execpolicy.OutcomeCanceled)
	})
}

// A job whose keeper was killed has not ended with its session, which process 1 says at
// once, whatever else the session does.
func TestKeeperIsKilled(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		policy.TerminationTimeout = patience
		s := open(t, policy, p.spec())
		defer s.Close()
		s.ok("mkfifo end")
		c := s.start(t.Context(), execpolicy.Command{Script: "echo begun; cat end"})
		r, err := s.result(s.job(execpolicy.Command{Script: "kill -9 $PPID; sleep 1000"}))
		assert.NilError(t, err)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeSignaled)
		assert.Assert(t, r.Gone)
		_, err = s.result(s.job(execpolicy.Command{Script: "echo ended >end"}))
		assert.NilError(t, err)
		<-c.done
		assert.NilError(t, c.err)
		assert.Equal(t, string(c.result.Stdout), "begun\nended\n")
	})
}

// What is told of a job that a restart ends comes before the new container.
func TestRestartWaitsForJobs(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		l, spec := &trail{}, p.spec()
		spec.Audit = l.audit
		s := open(t, policy, spec)
		old := s.Name()
		out := make(stuckWriter)
		defer close(out)
		j := s.job(execpolicy.Command{Script: "echo begun; sleep 1000", Stdout: out})
		s.prints(j, "begun")
		s.restart()
		<-j.Done()
		assert.NilError(t, s.Close())
		spawned := 0
		for _, e := range l.all() {
			if e.Kind == execpolicy.EventSpawn {
				spawned++
			}
			assert.Assert(t, spawned < 2 || e.Name != old, "%s of the old container", e.Kind)
		}
		assert.Equal(t, spawned, 2)
	})
}

// A record that is not taken holds a job's end up no longer than until its deadline.
func TestAuditOfAJobWhoseEndTakesLong(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		const stopping = 12 * time.Second
		policy.TerminationTimeout = stopping
		killed := make(chan struct{})
		once := sync.OnceFunc(func() { close(killed) })
		slow := spawning{policy, func(proc *execpolicy.Process) {
			exec := proc.Exec
			proc.Exec = func(ctx context.Context, command []string) (*execpolicy.Process, error) {
				keeper, err := exec(ctx, command)
				if err == nil {
					kill := keeper.Kill
					keeper.Kill = func(ctx context.Context) error {
						defer once()
						err := kill(ctx)
						<-time.After(stopping - 2*short)
						return err
					}
				}
				return keeper, err
			}
		}}
		spec, l := p.audited()
		release := make(chan struct{})
		l.on = func(e execpolicy.Event) error {
			if e.Kind == execpolicy.EventResult {
				<-release
			}
			return nil
		}
		s := open(t, slow, spec)
		j := s.job(execpolicy.Command{Argv: []string{"cat"}})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.ErrorIs(t, j.Kill(ctx), context.Canceled)
		<-killed
		// A moment is left of the time, of which another would be as long as the whole.
		enginetest.Within(t, stopping*3/4, "the record", func() { <-j.Done() })
		close(release)
		r, err := s.result(j)
		assert.ErrorIs(t, err, execpolicy.ErrAudit)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeCanceled)
		assert.NilError(t, s.Close())
	})
}
