package execpolicy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// A server runs beside the commands that are its clients, and a log is followed beside
// what writes it.
func TestJobServesCommands(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		s := open(t, policy, p.spec())
		defer s.Close()
		s.ok("mkfifo ask answer")
		server := s.job(execpolicy.Command{Script: `echo serving; while read -r line; do echo "served $line" >answer; done <>ask`})
		s.prints(server, "serving")
		for _, line := range []string{"one", "two"} {
			assert.Equal(t, s.ok("echo "+line+" >ask; cat answer"), "served "+line)
		}
		// There is a loopback interface without a network, too.
		s.ok("echo page >index.html")
		web := s.job(execpolicy.Command{Argv: []string{"busybox", "httpd", "-f", "-p", "127.0.0.1:8080"}})
		wait(t, func() bool {
			return string(s.script("busybox wget -q -O - http://127.0.0.1:8080/index.html").Stdout) == "page\n"
		}, "no answer")

		s.ok(": >log")
		tail := s.job(execpolicy.Command{Argv: []string{"tail", "-f", "log"}})
		s.ok("for i in 1 2 3; do echo step $i >>log; done; echo built >>log")
		s.prints(tail, "step 1\nstep 2\nstep 3\nbuilt\n")
		for _, j := range []*execpolicy.Job{server, web, tail} {
			assert.NilError(t, j.Kill(t.Context()))
			r, _ := s.result(j)
			assert.Assert(t, r.Gone)
		}
		s.gone("busybox httpd")
		s.gone("tail -f")
	})
}

// Whether the kernel has killed a job for memory is learnt of each that SIGKILL ends, and
// nothing is left of what tells it.
func TestManyJobsThatAreKilled(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		s := open(t, policy, p.spec())
		defer s.Close()
		const count = "set -- /proc/[0-9]*; echo $#"
		before := s.ok(count)
		for range 20 {
			r, err := s.result(s.job(execpolicy.Command{Argv: []string{"sh", "-c", "kill -9 $$"}}))
			assert.NilError(t, err)
			assert.Equal(t, r.Outcome, execpolicy.OutcomeSignaled)
			assert.Equal(t, r.OOMAfter, r.OOMBefore)
			j := s.job(execpolicy.Command{Argv: []string{"cat"}})
			assert.NilError(t, j.Kill(t.Context()))
		}
		wait(t, func() bool { return s.ok(count) == before }, "processes of jobs live on")
	})
}

// The kernel kills a job that takes too much memory, and the session and the other job go
// on.
func TestJobOutOfMemory(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		policy.MemoryBytes = 64 << 20
		s := open(t, policy, p.spec())
		defer s.Close()
		// What runs from memory can't be dropped and read again, with which the kernel
		// could spend minutes.
		s.ok("kept=1; cp $(command -v busybox) /tmp")
		other := s.job(execpolicy.Command{Argv: []string{"cat"}})
		j := s.job(execpolicy.Command{Argv: []string{"/tmp/busybox", "dd", "if=/dev/zero", "of=/dev/null", "bs=150M", "count=1"}})
		r, err := s.result(j)
		assert.NilError(t, err)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeOOMKilled, "%+v", r)
		assert.Assert(t, r.OOMAfter > r.OOMBefore && r.OOMBefore >= 0, "%+v", r)
		// A kill by the job's own hand is none of the kernel's.
		r, err = s.result(s.job(execpolicy.Command{Argv: []string{"sh", "-c", "kill -9 $$"}}))
		assert.NilError(t, err)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeSignaled)
		assert.Equal(t, r.OOMAfter, r.OOMBefore)
		assert.Equal(t, s.ok("echo $kept"), "1")
		assert.NilError(t, other.Stdin().Close())
		r, err = s.result(other)
		assert.NilError(t, err)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeExited)
	})
}

func TestJobsExpire(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		policy.Lifetime = slack // with the container's start
		s := open(t, policy, p.spec())
		defer s.Close()
		var begun []*execpolicy.Job
		for _, script := range []string{"echo begun; cat", "trap '' TERM; echo begun; while :; do sleep 1000; done", "yes"} {
			j, err := s.StartJob(t.Context(), execpolicy.Command{Script: script})
			if err != nil {
				// On a busy machine the time may be over by now.
				assert.Assert(t, errors.Is(err, execpolicy.ErrExpired) || errors.Is(err, execpolicy.ErrEnded), "%v", err)
				continue
			}
			begun = append(begun, j)
		}
		for _, j := range begun {
			r, err := s.result(j)
			assert.ErrorIs(t, err, execpolicy.ErrExpired)
			assert.ErrorIs(t, r.Cause, execpolicy.ErrExpired)
			assert.Equal(t, r.Outcome, execpolicy.OutcomeCanceled)
			assert.Assert(t, r.Gone)
		}
		_, err := s.StartJob(t.Context(), execpolicy.Command{Script: "true"})
		assert.Assert(t, errors.Is(err, execpolicy.ErrExpired) || errors.Is(err, execpolicy.ErrEnded), "%v", err)
	})
}

// Restart ends the jobs of before, and those that begin meanwhile do so in one session or
// the other.
func TestRestartWithJobs(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		s := open(t, policy, p.spec())
		defer s.Close()
		var before []*execpolicy.Job
		for range 3 {
			j := s.job(execpolicy.Command{Script: "trap '' TERM; echo begun; yes"})
			s.prints(j, "begun")
			before = append(before, j)
		}
		name := s.Name()
		type started struct {
			job *execpolicy.Job
			err error
		}
		meanwhile := make(chan started)
		go func() {
			j, err := s.StartJob(t.Context(), execpolicy.Command{Script: "echo begun; cat"})
			meanwhile <- started{j, err}
		}()
		s.restart()
		assert.Assert(t, s.Name() != name)
		for _, j := range before {
			r, _ := s.result(j)
			assert.Equal(t, r.Outcome, execpolicy.OutcomeCanceled)
			assert.Assert(t, r.Gone)
		}
		if m := <-meanwhile; m.err == nil {
			assert.NilError(t, m.job.Kill(t.Context()))
		}
		j := s.job(execpolicy.Command{Script: "cat", Stdin: strings.NewReader("anew")})
		r, err := s.result(j)
		assert.NilError(t, err)
		assert.Equal(t, string(r.Stdout), "anew")
	})
}

// Nothing waits for a caller's writer that takes nothing: Kill does not, nor does a
// deadline, nor the end of the session.
func TestJobWriterThatIsStuck(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		s := open(t, policy, p.spec())
		out := make(stuckWriter)
		defer close(out)
		flood := execpolicy.Command{Script: "yes & yes >&2", Stdout: out, Stderr: out}
		j := s.job(flood)
		enginetest.Within(t, 2*slack, "Kill", func() { assert.NilError(t, j.Kill(t.Context())) })
		r, _ := s.result(j)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeCanceled)
		assert.Assert(t, r.Gone)

		flood.Timeout = short
		enginetest.Within(t, 2*slack, "a job with a deadline", func() {
			r, _ := s.result(s.job(flood))
			assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
		})
		flood.Timeout = 0

		// Podman may refuse to kill a container whose exec's client is stuck.
		if p.engine.Kind == dockercli.Docker {
			j = s.job(flood)
			p.cli(t, "kill", s.Name())
			enginetest.Within(t, 2*slack, "a job whose container is killed", func() {
				if policy.Transport == execpolicy.TransportAttach {
					// Docker may not see that end while an exec's client is stuck.
					assert.NilError(t, j.Kill(t.Context()))
				}
				<-j.Done()
			})
			s.restart()
		}
		j = s.job(flood)
		enginetest.Within(t, 2*slack, "Close", func() { assert.NilError(t, s.Close()) })
		enginetest.Within(t, 2*slack, "a job of a session that was closed", func() { <-j.Done() })
		r, err := s.result(j)
		assert.ErrorIs(t, err, execpolicy.ErrClosed)
		assert.Assert(t, r.Gone)
	})
}

// A writer that is stuck as a job ends by itself holds up no Kill either.
func TestJobThatEndsBehindAStuckWriter(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		policy.TerminationTimeout = 2 * patience
		s := open(t, policy, p.spec())
		out := make(stuckWriter)
		defer close(out)
		j := s.job(execpolicy.Command{Script: "echo done; echo $$ >/tmp/pid", Stdout: out})
		s.ok("until [ -s /tmp/pid ] && ! kill -0 $(cat /tmp/pid); do sleep 0.1; done 2>/dev/null")
		enginetest.Within(t, slack, "Kill", func() { assert.NilError(t, j.Kill(t.Context())) })
		assert.Equal(t, string(j.Output().Stdout), "done\n")
	})
}

// A container that ends while a job starts is told as such.
func TestJobOfAContainerThatEnds(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		s := open(t, policy, p.spec())
		_, err := s.StartJob(t.Context(), execpolicy.Command{Script: "sleep 1000", Secrets: []execpolicy.Secret{{
			Name: "TOKEN", Lookup: func(context.Context, string) (string, error) {
				p.cli(t, "kill", s.Name())
				wait(t, func() bool {
					_, err := s.StartJob(t.Context(), execpolicy.Command{Script: ":"})
					return errors.Is(err, execpolicy.ErrEnded)
				}, "nobody sees that it has ended")
				return "value", nil
			},
		}}})
		assert.ErrorIs(t, err, execpolicy.ErrEnded)
	})
}

// What a job has printed before its container ends is not lost, and that end is told.
func TestLastWordsOfJob(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		s := open(t, policy, p.spec())
		defer s.Close()
		const size = 1 << 20
		j := s.job(execpolicy.Command{Script: "head -c 1048576 /dev/zero; echo done >&2; sleep 1000"})
		wait(t, func() bool {
			r := j.Output()
			return string(r.Stderr) == "done\n" && r.StdoutInfo.Bytes == size
		}, "it is not done")
		p.cli(t, "kill", s.Name())
		r, err := s.result(j)
		assert.Equal(t, j.Output().StdoutInfo, r.StdoutInfo)
		assert.ErrorIs(t, err, execpolicy.ErrEnded)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeSessionLost)
		assert.Equal(t, r.StdoutInfo.Bytes, int64(size))
	})
}

// The directory of a session's FIFOs ends with the session, also if jobs never opened
// theirs.
func TestFIFOsOfJobs(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		policy := p.overFIFOs(t)
		s := open(t, policy, p.spec())
		defer s.Close()
		there := func() bool {
			_, err := os.Lstat(fifosOf(s.Name()))
			assert.Assert(t, err == nil || errors.Is(err, fs.ErrNotExist), "%v", err)
			return err == nil
		}
		j := s.job(execpolicy.Command{Argv: []string{"cat"}})
		s.job(execpolicy.Command{Script: "yes"})
		assert.NilError(t, j.Kill(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.StartJob(ctx, execpolicy.Command{Argv: []string{"cat"}})
		assert.ErrorIs(t, err, context.Canceled)
		assert.Assert(t, there())
		assert.NilError(t, s.Close())
		assert.Assert(t, !there())
	})
}

// fifosOf returns the directory of a session's FIFOs.
func fifosOf(name string) string { return filepath.Join(os.TempDir(), name) }

// A job whose engine does not answer does not begin in time, and the session goes on.
func TestJobOfEngineThatHangs(t *testing.T) {
	fakeengine.NeedIsolation(t)
	enginetest.Check(t)
	for name, faults := range map[string]fakeengine.Faults{
		"it hangs":               {Hang: []string{"exec"}},
		"it hangs and obeys not": {Hang: []string{"exec"}, IgnoreTerm: true},
	} {
		t.Run(name, func(t *testing.T) {
			e := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{})
			policy := beginsLate(e)
			s := open(t, policy, execpolicy.Spec{})
			defer s.Close()
			e.Set(faults)
			enginetest.Within(t, policy.StartupTimeout+slack, "StartJob", func() {
				_, err := s.StartJob(t.Context(), execpolicy.Command{Script: "true"})
				assert.ErrorIs(t, err, execpolicy.ErrStart)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			})
			enginetest.Within(t, short+slack, "a StartJob that is canceled", func() {
				ctx, cancel := context.WithTimeout(t.Context(), short)
				defer cancel()
				_, err := s.StartJob(ctx, execpolicy.Command{Script: "true"})
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			})
			assert.Equal(t, s.ok("echo on"), "on")
			e.Set(fakeengine.Faults{})
			r, err := s.result(s.job(execpolicy.Command{Script: "echo begun"}))
			assert.NilError(t, err)
			assert.Equal(t, string(r.Stdout), "begun\n")
		})
	}
}

// beginsLate returns a policy whose StartupTimeout is waited out.
func beginsLate(e *fakeengine.Engine) execpolicy.DockerPolicy {
	return execpolicy.DockerPolicy{Engine: e.Engine, Limits: execpolicy.Limits{
		CommandTimeout: ample, StartupTimeout: 5 * time.Second, TerminationTimeout: ample,
	}}
}

// Nor does one of which not all is read, though it says that it has begun: whatever runs
// beside it can say so.
func TestJobThatIsNotRead(t *testing.T) {
	fakeengine.NeedIsolation(t)
	enginetest.Check(t)
	policy := beginsLate(fakeengine.New(t, dockercli.Docker, fakeengine.Faults{}))
	s := open(t, unreadPolicy{policy}, execpolicy.Spec{})
	defer s.Close()
	enginetest.Within(t, policy.StartupTimeout+slack, "StartJob", func() {
		_, err := s.StartJob(t.Context(), execpolicy.Command{Script: "sleep 1000"})
		assert.ErrorIs(t, err, execpolicy.ErrStart)
	})
	s.gone("sleep 1000")
}

// An unreadPolicy is one of whose jobs the last word is never taken.
type unreadPolicy struct{ execpolicy.Policy }

func (p unreadPolicy) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	proc, err := p.Policy.Spawn(ctx, spec)
	if err == nil {
		start := proc.Exec
		proc.Exec = func(ctx context.Context, command []string) (*execpolicy.Process, error) {
			job, err := start(ctx, command)
			if err == nil {
				stdin := &unread{WriteCloser: job.Stdin, closed: make(chan struct{})}
				end := job.Kill
				job.Stdin, job.Kill = stdin, func(ctx context.Context) error {
					stdin.Close()
					return end(ctx)
				}
			}
			return job, err
		}
	}
	return proc, err
}

// An unread writer passes everything on, and returns from its second Write only when it
// is closed.
type unread struct {
	io.WriteCloser
	writes int
	closed chan struct{}
}

func (w *unread) Write(p []byte) (int, error) {
	n, err := w.WriteCloser.Write(p)
	if w.writes++; w.writes > 1 {
		<-w.closed
	}
	return n, err
}

func (w *unread) Close() error {
	close(w.closed)
	return w.WriteCloser.Close()
}

// Nor does one whose engine fails, and the error has the engine's words.
func TestJobThatTheEngineRefuses(t *testing.T) {
	fakeengine.NeedIsolation(t)
	enginetest.Check(t)
	e := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{})
	s := open(t, execpolicy.DockerPolicy{Engine: e.Engine, Limits: hostLimits}, execpolicy.Spec{})
	defer s.Close()
	e.Set(fakeengine.Faults{Fail: map[string]fakeengine.Failure{"exec": {Exit: 1, Stderr: "no room for NAME"}}})
	_, err := s.StartJob(t.Context(), execpolicy.Command{Script: "true"})
	assert.ErrorIs(t, err, execpolicy.ErrStart)
	assert.ErrorContains(t, err, "no room for "+s.Name())
	assert.Equal(t, s.ok("echo on"), "on")
}

// Kill tells what may be left of a job that has ended, also when its context has.
func TestKillOfAJobThatHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		left := execpolicy.EndedJob(fmt.Errorf("processes of the job: %w", execpolicy.ErrStillThere))
		assert.ErrorIs(t, left.Kill(ctx), execpolicy.ErrStillThere)
		assert.NilError(t, execpolicy.EndedJob(execpolicy.ErrBlocked).Kill(ctx))
	}
}
