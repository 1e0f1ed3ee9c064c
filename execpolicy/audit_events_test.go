//go:build linux

package execpolicy_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// A container that its lifeline does not end is removed, and that is told.
func TestAuditOfARemoval(t *testing.T) {
	fakeengine.NeedIsolation(t)
	enginetest.Check(t)
	e := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{})
	spec, l := place{}.audited()
	s := open(t, place{engine: e.Engine, fake: e}.policy(), spec)
	e.Set(fakeengine.Faults{Hang: []string{"run"}})
	assert.NilError(t, s.Close())
	l.is(t, "spawn", "start", sessionClosed)
	kill := l.all()[2]
	assert.Assert(t, kill.Kind == execpolicy.EventKill && kill.Escalation == execpolicy.EscalationRemoval, "%+v", kill)
	assert.Equal(t, kill.Cause, "the session is closed")

	unhurried(t, time.Second, func(lifetime time.Duration) error {
		e.Set(fakeengine.Faults{})
		spec, l = place{}.audited()
		s, err := place{engine: e.Engine, fake: e}.living(t, lifetime, spec)
		if err != nil {
			return err
		}
		e.Set(fakeengine.Faults{Hang: []string{"run"}})
		<-s.Done()
		assert.NilError(t, s.Close())
		if ended := l.all()[1].Error; ended != "" {
			return errors.New(ended) // it ended while the engine was asked for the image
		}
		l.is(t, "spawn", "start", "end gone because the session's lifetime is over")
		if kill = l.all()[2]; kill.Kind == execpolicy.EventEnd {
			return errors.New("the session has ended before its client hung")
		}
		return nil
	})
	assert.Assert(t, kill.Kind == execpolicy.EventKill && kill.Escalation == execpolicy.EscalationRemoval, "%+v", kill)
	assert.Equal(t, kill.Cause, "the session's lifetime is over")
}

// A start that is tried again has a spawn of its own.
func TestAuditOfAPull(t *testing.T) {
	fakeengine.NeedIsolation(t)
	enginetest.Check(t)
	e := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{ImageMissing: true})
	spec, l := place{}.audited()
	s := open(t, place{engine: e.Engine, fake: e}.policy(), spec)
	assert.NilError(t, s.Close())
	told := l.told()
	assert.Assert(t, strings.HasPrefix(told[2], "failed error the session did not start: "), told[2])
	assert.DeepEqual(t, slices.Delete(told, 2, 3), []string{"spawn", "end gone", "spawn", "start", sessionClosed})
	events := l.all()
	assert.Assert(t, events[2].Name == events[0].Name && events[3].Name != events[0].Name)
	l.whole(t)
}

func TestAuditOfMemory(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		spec, l := p.audited()
		policy := p.policy()
		policy.MemoryBytes = 64 << 20
		s := open(t, policy, spec)
		s.ok("cp $(command -v busybox) /tmp")
		r := s.run(execpolicy.Command{Script: "exec 2>/dev/null; /tmp/busybox dd if=/dev/zero of=/dev/null bs=150M count=1",
			Timeout: time.Minute})
		assert.Equal(t, r.Outcome, execpolicy.OutcomeOOMKilled)
		e := l.all()[5]
		assert.Equal(t, e.Outcome, execpolicy.OutcomeOOMKilled)
		assert.Assert(t, e.OOMBefore == 0 && e.OOMAfter > 0, "%+v", e)
	})
}

func TestAuditOfTheHost(t *testing.T) {
	enginetest.Check(t)
	policy := execpolicy.HostPolicy{Limits: hostLimits, CPUTimeSeconds: 9}
	var name string
	l := trailOf(t, policy, execpolicy.Spec{Command: []string{"sh"}}, nil, func(s session) bool {
		s.ok("echo hi")
		r, err := s.shortly("sleep 4856")()
		if err != nil || r.Escalation != execpolicy.EscalationTerm {
			return false
		}
		assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
		name = s.Name()
		assert.NilError(t, s.Close())
		return true
	})
	late := " because the deadline has passed: context deadline exceeded"
	l.is(t, "spawn", "start", `command "echo hi"`, "result of 3 exited 0 in 0 out 3",
		`command "sleep 4856"`, "kill by SIGTERM"+late, "result of 5 timed out"+late, sessionClosed)
	events := l.all()
	assert.Assert(t, events[0].Name == "" && events[1].Name == name && events[1].Image == "")
	assert.Assert(t, strings.Contains(strings.Join(events[0].Argv, " "), "ulimit -t 9"), "%q", events[0].Argv)
	l.on = func(execpolicy.Event) error { return errTrail }
	_, err := execpolicy.Start(t.Context(), policy, execpolicy.Spec{Audit: l.audit})
	lost(t, err)
}

// A policyFunc is a policy.
type policyFunc func(context.Context, execpolicy.Spec) (*execpolicy.Process, error)

func (f policyFunc) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	return f(ctx, spec)
}

// Nothing is run where the policy has not recorded its spawn, at first or anew.
func TestAuditWithoutASpawn(t *testing.T) {
	enginetest.Check(t)
	l, quiet := &trail{}, true
	policy := policyFunc(func(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
		if quiet {
			spec.Audit = nil
		}
		return execpolicy.HostPolicy{Limits: hostLimits}.Spawn(ctx, spec)
	})
	spec := execpolicy.Spec{Audit: l.audit, Command: []string{"sh"}, Startup: []string{"true"}}
	_, err := execpolicy.Start(t.Context(), policy, spec)
	assert.ErrorIs(t, err, execpolicy.ErrAudit)
	l.is(t, "end gone", "failed error "+err.Error())
	assert.Assert(t, l.all()[0].Duration < patience, "%v", l.all()[0].Duration)
	l.events, quiet = nil, false
	s := open(t, policy, spec)
	quiet = true
	err = s.Restart(t.Context())
	assert.ErrorIs(t, err, execpolicy.ErrAudit)
	quiet = false
	assert.NilError(t, s.Restart(t.Context()))
	assert.NilError(t, s.Close())
	const startup, result = `command startup "true"`, "result of 3 exited 0"
	l.is(t, "spawn", "start", startup, result, "end gone because the session was restarted",
		"end gone because the session was restarted",
		"failed error "+err.Error(), "spawn", "start", startup, result, sessionClosed)
}

// The error of a record is not lost, whatever else ends the waiting for it.
func TestAuditErrorOfWhatIsCanceled(t *testing.T) {
	enginetest.Check(t)
	l := &trail{}
	s := open(t, execpolicy.HostPolicy{Limits: hostLimits}, execpolicy.Spec{Audit: l.audit, Command: []string{"sh"}})
	for range 200 {
		ctx, cancel := context.WithCancelCause(t.Context())
		l.on = func(e execpolicy.Event) error {
			if e.Kind == execpolicy.EventCommand && e.Script == ":" {
				cancel(errGone)
				return errTrail
			}
			return nil
		}
		_, err := s.Run(ctx, execpolicy.Command{Script: ":"})
		assert.ErrorIs(t, err, execpolicy.ErrAudit)
		_, next := s.Run(t.Context(), execpolicy.Command{Script: "true"})
		lost(t, errors.Join(err, next))
	}
}

// Whatever ended a session, its end has its record when Close returns, even one that
// takes long to be made fit.
func TestAuditOfAnEndWhileClosing(t *testing.T) {
	enginetest.Check(t)
	l, killed := &trail{}, make(chan struct{})
	var stdin io.Closer
	policy := spawning{execpolicy.HostPolicy{Limits: hostLimits}, func(proc *execpolicy.Process) {
		stdin = proc.Stdin
		kill, once := proc.Kill, sync.OnceFunc(func() { close(killed) })
		proc.Kill = func(ctx context.Context) error {
			defer once()
			return errors.Join(kill(ctx), errors.New(strings.Repeat(auditSecret, 1<<17)))
		}
	}}
	s := open(t, policy, execpolicy.Spec{
		Audit: l.audit, Command: []string{"sh"},
		Secrets: []execpolicy.Secret{{Name: "TOKEN", Value: auditSecret}},
		Finish: func(context.Context, *execpolicy.Session) error {
			assert.Check(t, stdin.Close())
			<-killed
			return nil
		},
	})
	assert.Assert(t, s.Close() != nil)
	last := l.all()[len(l.all())-1]
	assert.Equal(t, last.Kind, execpolicy.EventEnd)
	assert.Assert(t, !strings.Contains(last.Error, auditSecret))
}

// An error that quotes a secret is in no record as it is.
func TestAuditOfAStartThatTellsASecret(t *testing.T) {
	enginetest.Check(t)
	l := &trail{}
	_, err := execpolicy.Start(t.Context(), execpolicy.HostPolicy{Limits: hostLimits}, execpolicy.Spec{
		Audit: l.audit, Command: []string{"sh"},
		Secrets: []execpolicy.Secret{{Name: "TOKEN", Value: auditSecret}},
		Prepare: func(context.Context, *execpolicy.Session) error { return errors.New("no such user: " + auditSecret) },
	})
	assert.ErrorIs(t, err, execpolicy.ErrStart)
	l.is(t, "spawn", "start", "end gone", "failed error the session did not start: no such user: [secret TOKEN]")
}

// What is begun anew has nothing of the name of one before, which had ended by itself.
func TestAuditOfNamesAnew(t *testing.T) {
	enginetest.Check(t)
	l := &trail{}
	var stdin io.Closer
	policy := spawning{execpolicy.HostPolicy{Limits: hostLimits}, func(proc *execpolicy.Process) { stdin = proc.Stdin }}
	s := open(t, policy, execpolicy.Spec{Audit: l.audit, Command: []string{"sh"}})
	names := []string{"", s.Name(), s.Name()}
	assert.NilError(t, stdin.Close())
	<-s.Done()
	assert.NilError(t, s.Restart(t.Context()))
	names = append(names, "", s.Name(), s.Name())
	assert.NilError(t, s.Restart(t.Context()))
	names = append(names, "", s.Name(), s.Name())
	assert.NilError(t, s.Close())
	l.is(t, "spawn", "start", "end gone because its program ended without an exit status", "spawn", "start",
		"end gone because the session was restarted", "spawn", "start", sessionClosed)
	for _, e := range l.all() {
		if e.Escalation == execpolicy.EscalationRemoval {
			continue // as in what was told
		}
		assert.Equal(t, e.Name, names[0], "%+v", e)
		names = names[1:]
	}

	fakeengine.NeedIsolation(t)
	e := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{})
	p := place{engine: e.Engine, fake: e}
	for _, dies := range []bool{true, false} {
		spec, l := p.audited()
		var refused error
		policy := policyFunc(func(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
			if refused != nil {
				return nil, refused
			}
			return p.policy().Spawn(ctx, spec)
		})
		s := open(t, policy, spec)
		name, cause := s.Name(), " because the session was restarted"
		if dies {
			assert.NilError(t, p.engine.Remove(t.Context(), name))
			<-s.Done()
			cause = " because its program exited with status 137: it was killed, and the engine tells of no want of memory"
		}
		refused = errPolicy
		assert.ErrorIs(t, s.Restart(t.Context()), errPolicy)
		l.is(t, "spawn", "start", "end gone"+cause, "failed error "+errPolicy.Error())
		for i, e := range l.all() {
			if i == len(l.all())-1 {
				name = ""
			}
			assert.Equal(t, e.Name, name, "%d", i)
		}
	}
}

// A panic of what takes records ends the program, which says so.
func TestAuditPanic(t *testing.T) {
	const panics = "COFFERDAM_TEST_PANIC"
	if os.Getenv(panics) != "" {
		l := &trail{on: func(execpolicy.Event) error { panic("the trail is gone") }}
		execpolicy.Start(t.Context(), execpolicy.HostPolicy{Limits: hostLimits}, execpolicy.Spec{Audit: l.audit})
		return
	}
	enginetest.Check(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestAuditPanic$")
	cmd.Env = append(os.Environ(), panics+"=1")
	out, err := cmd.CombinedOutput()
	assert.Assert(t, err != nil)
	assert.Assert(t, strings.Contains(string(out), "panic: the trail is gone"), "%s", out)
	assert.Assert(t, !strings.Contains(string(out), "fatal error"), "%s", out)
}

// A panic of a filter ends the program, which could not go on: also if its caller
// recovers.
func TestFilterPanic(t *testing.T) {
	const panics = "COFFERDAM_TEST_PANIC"
	if os.Getenv(panics) != "" {
		defer func() { _ = recover() }()
		execpolicy.Start(t.Context(), execpolicy.HostPolicy{Limits: hostLimits}, execpolicy.Spec{
			Filter: func(io.Writer) io.WriteCloser { panic("the filter is gone") },
		})
		return
	}
	enginetest.Check(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestFilterPanic$")
	// A HostPolicy has no guard, which would remove its directory. Its shell may still
	// make files there.
	dir, err := os.MkdirTemp("", "panic-")
	assert.NilError(t, err)
	defer wait(t, func() bool { return os.RemoveAll(dir) == nil }, "%s can't be removed", dir)
	cmd.Env = append(os.Environ(), panics+"=1", "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	assert.Assert(t, err != nil)
	assert.Assert(t, strings.Contains(string(out), "panic: the filter is gone"), "%s", out)
}

// A record behind a session that was lost has the time that its end has left, and no
// more.
func TestAuditOfALossThatTakesLong(t *testing.T) {
	enginetest.Check(t)
	const stopping = 12 * time.Second
	l, release := &trail{}, make(chan struct{})
	l.on = func(e execpolicy.Event) error {
		if e.Kind == execpolicy.EventResult {
			<-release
		}
		return nil
	}
	limits := hostLimits
	limits.TerminationTimeout = stopping
	var stdin io.Closer
	killed := make(chan struct{})
	policy := spawning{execpolicy.HostPolicy{Limits: limits}, func(proc *execpolicy.Process) {
		stdin = proc.Stdin
		kill, once := proc.Kill, sync.OnceFunc(func() { close(killed) })
		proc.Kill = func(ctx context.Context) error {
			defer once()
			err := kill(ctx)
			<-time.After(stopping - 2*short)
			return err
		}
	}}
	s := open(t, policy, execpolicy.Spec{Audit: l.audit, Command: []string{"sh"}})
	c := s.start(t.Context(), execpolicy.Command{Script: "echo begun; sleep 4762"})
	assert.NilError(t, stdin.Close())
	<-killed
	// A moment is left of the time, of which another would be as long as the whole.
	enginetest.Within(t, stopping*3/4, "the record", func() { <-c.done })
	close(release)
	assert.ErrorIs(t, c.err, execpolicy.ErrEnded)
	assert.ErrorIs(t, c.err, execpolicy.ErrAudit)
	assert.NilError(t, s.Close())
}
