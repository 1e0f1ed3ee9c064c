package execpolicy_test

import (
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
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
			out, _ := j.Output()
			return string(out) == "begun\n"
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
		_, err = s.result(s.job(execpolicy.Command{Script: "echo ended >end"}))
		assert.NilError(t, err)
		<-c.done
		assert.NilError(t, c.err)
		assert.Equal(t, string(c.result.Stdout), "begun\nended\n")
	})
}
