//go:build linux

package execpolicy_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/redact"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// endsIdle ends a session that has nothing to do, and sees that the next call, a transfer
// and the record of its end say why.
func endsIdle(t *testing.T, p execpolicy.Policy, spec execpolicy.Spec, log *trail, end func(s session),
	want ...string) {
	t.Helper()
	for _, text := range endIdle(t, p, spec, log, end) {
		for _, w := range want {
			assert.Assert(t, strings.Contains(text, w), "%q is not in %q", w, text)
		}
	}
}

// endIdle ends a session that has nothing to do, and returns what the next call, a
// transfer and the record of its end say of that.
func endIdle(t *testing.T, p execpolicy.Policy, spec execpolicy.Spec, log *trail, end func(s session)) []string {
	t.Helper()
	s := open(t, p, spec)
	end(s)
	select {
	case <-s.Done():
	case <-time.After(ample):
		t.Fatal("the session has not ended")
	}
	_, runErr := s.Run(t.Context(), execpolicy.Command{Script: "true"})
	_, readErr := s.ReadFile(t.Context(), "/tmp/x", 1)
	texts := []string{runErr.Error(), readErr.Error()}
	assert.ErrorIs(t, runErr, execpolicy.ErrEnded)
	assert.ErrorIs(t, readErr, execpolicy.ErrEnded)
	assert.Assert(t, !errors.Is(runErr, execpolicy.ErrTimeout))
	assert.NilError(t, s.Close())
	for _, e := range log.all() {
		if e.Kind == execpolicy.EventEnd {
			texts = append(texts, e.Cause)
		}
	}
	assert.Equal(t, len(texts), 3)
	for _, text := range texts {
		assert.Assert(t, !strings.Contains(text, "hunter2"), text)
	}
	return texts
}

// A session that ended with nothing to do says why.
func TestWhyItEnded(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		killed := "it was killed, and the engine tells of no want of memory"
		if p.engine.Kind == dockercli.Podman {
			killed = "it was killed, perhaps for want of memory"
		}
		t.Run("killed by somebody", func(t *testing.T) {
			spec, log := p.audited()
			endsIdle(t, p.policy(), spec, log, func(s session) { p.cli(t, "kill", s.Name()) },
				"its program exited with status 137", killed)
		})
		t.Run("removed by somebody", func(t *testing.T) {
			spec, log := p.audited()
			want := []string{"its program exited with status 137", killed}
			if p.engine.Kind == dockercli.Podman {
				// Without a client podman may have no event of it.
				want = []string{"its program"}
			}
			endsIdle(t, p.policy(), spec, log,
				func(s session) { p.remove(t, s.Name()) }, want...)
		})
		t.Run("client killed", func(t *testing.T) {
			spec, log := p.audited()
			endsIdle(t, p.attached(), spec, log, func(s session) {
				client := p.client(t, s.Name())
				defer client.Release()
				assert.NilError(t, client.Kill())
			}, "its program ended without an exit status")
		})
		t.Run("last words", func(t *testing.T) {
			spec, log := p.audited()
			dir := newWorkspace(t, "workspace")
			spec.Workspace = dir
			spec.Secrets = []execpolicy.Secret{{Name: "TOKEN", Value: "hunter2hunter2"}}
			endsIdle(t, p.policy(), spec, log, func(s session) {
				s.ok("(until [ -e go ]; do sleep 0.05; done; echo \"my token is $TOKEN\" >&2; echo >said) &")
				assert.NilError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
				wait(t, func() bool { _, err := os.Stat(filepath.Join(dir, "said")); return err == nil }, "the job says nothing")
				p.cli(t, "kill", s.Name())
			}, "status 137", "the last words on its stderr: \"my token is ")
		})
	})
}

// Nor is a session that was ended with a command without a reason; but that is no longer
// the command's.
func TestWhyItEndedWithACommand(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		spec, log := p.audited()
		policy := p.policy()
		policy.TerminationTimeout = patience
		endsIdle(t, policy, spec, log, func(s session) {
			p.cli(t, "pause", s.Name())
			r, err := s.Run(t.Context(), execpolicy.Command{Script: "sleep 4831", Timeout: short})
			assert.NilError(t, err)
			assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
		}, "the deadline has passed")
	})
}

// The kernel ends process 1 for memory.
func TestWhyItEndedForMemory(t *testing.T) {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		leftout.Skip(t, "to have the kernel choose a container's process 1 takes Linux and root")
	}
	onEngines(t, func(t *testing.T, p place) {
		// Containerd drops the event if the control group is gone before it looks, as on
		// a busy machine.
		want, again := "the kernel killed it for want of memory", "it was killed, and the engine tells of no want of memory"
		if p.engine.Kind == dockercli.Podman {
			want, again = "it was killed, perhaps for want of memory", ""
		}
		policy := p.policy()
		policy.MemoryBytes = 64 << 20
		places.Eventually(t, func() string {
			spec, log := p.audited()
			texts := endIdle(t, policy, spec, log, func(s session) {
				first := strings.TrimSpace(p.cli(t, "inspect", "--format={{.State.Pid}}", s.Name()))
				assert.NilError(t, os.WriteFile(filepath.Join("/proc", first, "oom_score_adj"), []byte("1000"), 0))
				// None of these has as much as process 1 is said to have, and none ends
				// before the others have theirs.
				// The image's own would be read again and again, for want of memory.
				s.ok("cp $(command -v busybox) /tmp; (echo 0 >/proc/self/oom_score_adj; for i in 1 2 3 4; do { " +
					"/tmp/busybox head -c 30000000 /dev/zero; /tmp/busybox sleep 4832; " +
					"} | /tmp/busybox tail -c 40000000 & done; wait) >/dev/null 2>&1 &")
			})
			for _, text := range texts {
				assert.Assert(t, strings.Contains(text, "status 137"), text)
				if again != "" && strings.Contains(text, again) {
					return text
				}
				assert.Assert(t, strings.Contains(text, want), text)
			}
			return ""
		})
	})
}

// A lateWord is a policy whose engine has heard of the end, and not yet of the shortage
// of memory that it came of, until it was asked for that several times. A removal that
// comes before that hides it.
type lateWord struct {
	execpolicy.Policy
	times   int32
	asked   atomic.Int32
	removed atomic.Bool
}

func (p *lateWord) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	proc, err := p.Policy.Spawn(ctx, spec)
	if err != nil {
		return nil, err
	}
	kill := proc.Kill
	proc.ExitCode = func() int { return 137 }
	proc.OOMKilled = func(context.Context, time.Time) (killed, known bool) {
		return p.asked.Add(1) >= p.times && !p.removed.Load(), true
	}
	proc.Kill = func(ctx context.Context) error {
		p.removed.Store(true)
		return kill(ctx)
	}
	return proc, nil
}

// An engine that is late to tell of the shortage is asked again, and its container
// removed only then.
func TestWhyItEndedIsToldLate(t *testing.T) {
	fakeengine.NeedIsolation(t)
	enginetest.Check(t)
	for _, times := range []int32{1, 2, 3} {
		fake := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{})
		p := place{engine: fake.Engine, fake: fake}
		spec, log := p.audited()
		policy := &lateWord{Policy: p.policy(), times: times}
		endsIdle(t, policy, spec, log, func(s session) { p.cli(t, "kill", s.Name()) },
			"status 137", "the kernel killed it for want of memory")
		assert.Equal(t, policy.asked.Load(), times)
	}
}

// What was killed for memory before did not end it.
func TestAnEarlierShortageEndsNothing(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		policy := p.policy()
		policy.MemoryBytes = 64 << 20
		s := open(t, policy, p.spec())
		// What runs from memory can't be dropped and read again, with which the kernel
		// could spend minutes.
		s.ok("cp $(command -v busybox) /tmp")
		r := s.script("/tmp/busybox dd if=/dev/zero of=/dev/null bs=150M count=1 2>/dev/null")
		if p.engine.Kind == dockercli.Docker {
			assert.Equal(t, r.Outcome, execpolicy.OutcomeOOMKilled, r.Text())
			poll.WaitOn(t, func(poll.LogT) poll.Result {
				if killed, err := p.engine.OOMKilled(t.Context(), s.Name(), time.Time{}); err != nil {
					return poll.Error(err)
				} else if !killed {
					return poll.Continue("the engine has not heard of it")
				}
				return poll.Success()
			}, poll.WithTimeout(ample))
		}
		running := s.start(t.Context(), execpolicy.Command{Script: "echo begun; sleep 4833"})
		p.cli(t, "kill", s.Name())
		<-running.done
		assert.ErrorIs(t, running.err, execpolicy.ErrEnded)
		assert.Equal(t, running.result.Outcome, execpolicy.OutcomeSessionLost, "%v", running.err)
		assert.Assert(t, !strings.Contains(running.err.Error(), "the kernel killed"), "%v", running.err)
	})
}

// The engine's own words are among its last.
func TestWhyItEndedInTheEnginesWords(t *testing.T) {
	fakeengine.NeedIsolation(t)
	enginetest.Check(t)
	fake := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{})
	p := place{engine: fake.Engine, fake: fake}
	spec, log := p.audited()
	endsIdle(t, p.policy(), spec, log, func(session) { fake.Set(fakeengine.Faults{LoseConnection: true}) },
		"its program exited with status 125",
		"the last words on its stderr: ", "unexpected EOF")
}

// A session on the host has only its program's end to tell.
func TestWhyItEndedOnTheHost(t *testing.T) {
	enginetest.Check(t)
	log := &trail{}
	spec := execpolicy.Spec{Audit: log.audit}
	endsIdle(t, execpolicy.HostPolicy{Limits: hostLimits}, spec, log, func(s session) { killSupervisor(t, s.Name()) },
		"its program ended without an exit status")
}

// What an idle session says after it was taken passes the filter of who has taken it.
func TestFilterOfTheLastWordsOfATakenSession(t *testing.T) {
	enginetest.Check(t)
	dir := t.TempDir()
	i, err := execpolicy.StartIdle(t.Context(), execpolicy.HostPolicy{Limits: hostLimits}, execpolicy.Spec{
		Startup: []string{"cd " + dir + `
			(until [ -e go ]; do sleep 0.05; done; echo a@b.example >&2; echo >said) &`},
	})
	assert.NilError(t, err)
	spec := place{}.filtered(t, redact.Rule{Type: "email"})
	s, err := i.Take(t.Context(), spec)
	assert.NilError(t, err)
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	wait(t, func() bool { _, err := os.Stat(filepath.Join(dir, "said")); return err == nil }, "the job says nothing")
	killSupervisor(t, s.Name())
	<-s.Done()
	_, err = s.Run(t.Context(), execpolicy.Command{Script: ":"})
	assert.ErrorIs(t, err, execpolicy.ErrEnded)
	assert.ErrorContains(t, err, `the last words on its stderr: "[REDACTED_EMAIL]"`)
	assert.NilError(t, s.Close())
}

// killSupervisor kills the supervisor of a session on the host, which this test has
// started.
func killSupervisor(t *testing.T, name string) {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimPrefix(name, "process "))
	assert.NilError(t, err)
	process, err := os.FindProcess(pid)
	assert.NilError(t, err)
	assert.NilError(t, process.Kill())
}
