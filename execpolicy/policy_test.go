//go:build linux

package execpolicy_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

// A callersPolicy is one as others write it, which has nothing but what the package
// exports: it runs what it is given on this machine. It leaves out what its tests don't
// need: the check of the spec, the refusal of Secrets, RecordSpawn and Worker.
type callersPolicy struct {
	scratch  string
	argv     []string // in place of the session's, if there is any
	diagnose func(exitCode int, stderr []byte) error

	spawned int
	killed  atomic.Int32
}

func (p *callersPolicy) Spawn(_ context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	argv := spec.Supervisor
	if p.argv != nil {
		argv = p.argv
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	// A session signals the whole group of its process 1.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	stderr, err3 := cmd.StderrPipe()
	if err := errors.Join(err1, err2, err3, cmd.Start()); err != nil {
		return nil, err
	}
	p.spawned++
	done, code := make(chan struct{}), -1
	go func() {
		defer close(done)
		// cmd.Wait would close what the session reads.
		if state, err := cmd.Process.Wait(); err == nil {
			code = state.ExitCode()
		}
	}()
	return &execpolicy.Process{
		Name: fmt.Sprint("own ", p.spawned), Stdin: stdin, Stdout: stdout, Stderr: stderr, Done: done,
		Kill: func(ctx context.Context) error {
			p.killed.Add(1)
			cmd.Process.Kill()
			select {
			case <-done:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		},
		Limits: hostLimits, Scratch: p.scratch, Dir: p.scratch, ExitCode: func() int { return code }, Diagnose: p.diagnose,
	}, nil
}

// A policy without an answer is a caller's whose ImageID never returns, until it is
// closed.
type policyWithoutAnswer struct {
	*callersPolicy
	hangs chan struct{}
}

func (p policyWithoutAnswer) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	proc, err := p.callersPolicy.Spawn(ctx, spec)
	if err == nil {
		proc.Limits.TerminationTimeout = 4 * time.Second
		proc.ImageID = func(context.Context) (string, error) {
			<-p.hangs
			return "late", nil
		}
	}
	return proc, err
}

// A caller's ImageID that never returns, whatever its context says, holds up no command
// for ever.
func TestImageIDOfTheCallersOwnThatHangs(t *testing.T) {
	enginetest.Check(t)
	p := policyWithoutAnswer{&callersPolicy{scratch: t.TempDir()}, make(chan struct{})}
	defer close(p.hangs)
	s := open(t, p, execpolicy.Spec{Env: sessionEnv})
	enginetest.Within(t, patience, "Run", func() { assert.Equal(t, s.script(":").ImageID, "") })
	assert.NilError(t, s.Close())
}

// What a policy's process has printed before it answers is a part of the error, without
// the values of secrets, also if what fails is what comes after.
func TestSecretsInWhatAProcessSaid(t *testing.T) {
	enginetest.Check(t)
	p := &callersPolicy{scratch: t.TempDir(), argv: []string{"sh", "-c",
		`echo "warning: /data/hunter2" >&2; IFS= read -r cf_line && eval "$cf_line"`}}
	failed := errors.New("not today")
	spec := execpolicy.Spec{
		Secrets: []execpolicy.Secret{{Name: "TOKEN", Value: "hunter2"}},
		Prepare: func(context.Context, *execpolicy.Session) error { return failed },
	}
	said := func(err error) {
		assert.ErrorIs(t, err, execpolicy.ErrStart)
		assert.ErrorIs(t, err, failed)
		assert.ErrorContains(t, err, "it said: warning: /data/[secret TOKEN]")
		assert.Assert(t, !strings.Contains(err.Error(), "hunter2"), "%v", err)
	}
	_, err := execpolicy.Start(t.Context(), p, spec)
	said(err)
	idle, err := execpolicy.StartIdle(t.Context(), p, execpolicy.Spec{})
	assert.NilError(t, err)
	_, err = idle.Take(t.Context(), spec)
	said(err)
}

// Sessions work over a policy that is not the library's.
func TestPolicyOfTheCallersOwn(t *testing.T) {
	enginetest.Check(t)
	p := &callersPolicy{scratch: t.TempDir()}
	s := open(t, p, execpolicy.Spec{Env: sessionEnv, Startup: []string{"kept=5"}})
	assert.Equal(t, s.Name(), "own 1")
	assert.Equal(t, s.ok("pwd; echo $kept $NUM"), p.scratch+"\n5 42")
	r := s.script("echo out; echo err >&2; (exit 3)")
	assert.Equal(t, string(r.Stdout)+string(r.Stderr), "out\nerr\n")
	assert.Equal(t, r.ExitCode, 3)
	assert.Equal(t, r.Engine, "")
	r = s.run(execpolicy.Command{Argv: []string{"cat"}, Stdin: strings.NewReader("in")})
	assert.Equal(t, string(r.Stdout), "in")
	s.byStep(execpolicy.EscalationTerm, "kept=6", "echo begun; sleep 4751")
	noProcess(t, "sleep 4751")
	assert.Equal(t, s.ok("echo $kept"), "6")
	assert.NilError(t, s.Restart(t.Context()))
	assert.Equal(t, s.Name(), "own 2")
	assert.Equal(t, s.ok("echo $kept"), "5")
	assert.NilError(t, s.Close())
	<-s.Done()
	assert.Equal(t, p.spawned, 2)
	assert.Assert(t, int(p.killed.Load()) >= p.spawned, "%d are killed of %d", p.killed.Load(), p.spawned)
}

// What a policy knows of a start that failed is in the error, and what the program said
// if it knows nothing.
func TestPolicyOfTheCallersOwnThatFails(t *testing.T) {
	enginetest.Check(t)
	full := errors.New("the machine is full")
	p := &callersPolicy{scratch: t.TempDir(), argv: []string{"sh", "-c", "echo no room >&2; exit 7"}}
	_, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
	assert.ErrorIs(t, err, execpolicy.ErrStart)
	assert.ErrorContains(t, err, "with status 7; it said: no room")
	p.diagnose = func(exitCode int, stderr []byte) error {
		assert.Check(t, exitCode == 7 && string(stderr) == "no room\n", "%d %q", exitCode, stderr)
		return full
	}
	_, err = execpolicy.Start(t.Context(), p, execpolicy.Spec{})
	assert.ErrorIs(t, err, execpolicy.ErrStart)
	assert.ErrorIs(t, err, full)
	assert.Equal(t, p.spawned, 2)
	assert.Assert(t, int(p.killed.Load()) >= p.spawned, "%d are killed of %d", p.killed.Load(), p.spawned)
}

// A stayingPolicy starts what ends at once and may still be there, and recovers from
// every cause.
type stayingPolicy struct{ callersPolicy }

func (p *stayingPolicy) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	proc, err := p.callersPolicy.Spawn(ctx, spec)
	if err != nil {
		return nil, err
	}
	kill := proc.Kill
	proc.Kill = func(ctx context.Context) error { return errors.Join(kill(ctx), execpolicy.ErrStillThere) }
	proc.Recover = func(context.Context, error) error { return nil }
	return proc, nil
}

// A tellingPolicy is one whose word about the end comes late.
type tellingPolicy struct {
	callersPolicy
	endTold time.Duration
	kill    func(context.Context) error // ends the last process behind the session's back
}

func (p *tellingPolicy) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	proc, err := p.callersPolicy.Spawn(ctx, spec)
	if err != nil {
		return nil, err
	}
	p.kill = proc.Kill
	told := make(chan struct{})
	proc.ExitCode = sync.OnceValue(func() int {
		// Longer than a session waits unless it is told to, or was slow to start.
		time.Sleep(5 * time.Second)
		close(told)
		return 137
	})
	proc.OOMKilled = func(ctx context.Context, _ time.Time) (killed, known bool) {
		select {
		case <-told:
			return true, true
		case <-ctx.Done():
			return false, false
		}
	}
	proc.EndTold = p.endTold
	proc.Limits.TerminationTimeout = ample
	if p.endTold == 0 {
		proc.Limits.TerminationTimeout = 8 * time.Second // half of which is the most, however slow the start was
	}
	return proc, nil
}

// A policy says how long it may need to tell of the end.
func TestEndThatIsToldLate(t *testing.T) {
	enginetest.Check(t)
	for endTold, want := range map[time.Duration]execpolicy.Outcome{0: execpolicy.OutcomeSessionLost, ample / 2: execpolicy.OutcomeOOMKilled} {
		p := &tellingPolicy{callersPolicy: callersPolicy{scratch: t.TempDir()}, endTold: endTold}
		s := open(t, p, execpolicy.Spec{Env: sessionEnv})
		c := s.start(t.Context(), execpolicy.Command{Script: "echo begun; read line; sleep 4788"})
		assert.NilError(t, p.kill(t.Context()))
		<-c.done
		assert.ErrorIs(t, c.err, execpolicy.ErrEnded)
		assert.Equal(t, c.result.Outcome, want)
		assert.NilError(t, s.Close())
	}
}

// A panicking policy is one that panics as often as it says.
type panickingPolicy struct {
	callersPolicy
	times int
}

func (p *panickingPolicy) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	if p.times--; p.times >= 0 {
		panic("no")
	}
	return p.callersPolicy.Spawn(ctx, spec)
}

// A policy that panics takes no start's turn away, of which a program has eight.
func TestPolicyThatPanics(t *testing.T) {
	enginetest.Check(t)
	const times = 20
	p := &panickingPolicy{callersPolicy{scratch: t.TempDir()}, times}
	for range times {
		func() {
			defer func() { assert.Equal(t, recover(), "no") }()
			execpolicy.Start(t.Context(), p, execpolicy.Spec{})
		}()
	}
	enginetest.Within(t, patience, "Start", func() { assert.NilError(t, open(t, p, execpolicy.Spec{Env: sessionEnv}).Close()) })
}

// A process whose Ready panics is ended, though its caller recovers and has no session.
func TestReadyThatPanics(t *testing.T) {
	enginetest.Check(t)
	p := &panickingReady{callersPolicy: callersPolicy{scratch: t.TempDir()}}
	func() {
		defer func() { assert.Equal(t, recover(), "no") }()
		execpolicy.Start(t.Context(), p, execpolicy.Spec{})
	}()
	enginetest.Within(t, patience, "the process's end", func() { <-p.started.Done })
}

// A policy with a panicking Ready is one whose process waits for a panic.
type panickingReady struct {
	callersPolicy
	started *execpolicy.Process
}

func (p *panickingReady) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	proc, err := p.callersPolicy.Spawn(ctx, spec)
	if err == nil {
		p.started = proc
		proc.Ready = func(context.Context) error { panic("no") }
	}
	return proc, err
}

// A leaving policy is one whose processes do not end as long as it says so, and do not
// answer then.
type leavingPolicy struct {
	callersPolicy
	leaves atomic.Bool
}

func (p *leavingPolicy) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	left := p.leaves.Load()
	if left {
		spec.Supervisor = []string{"false"}
	}
	proc, err := p.callersPolicy.Spawn(ctx, spec)
	if err != nil {
		return nil, err
	}
	kill := proc.Kill
	proc.Kill = func(ctx context.Context) error {
		if left && p.leaves.Load() {
			return execpolicy.ErrStillThere
		}
		return kill(ctx)
	}
	return proc, nil
}

// What a restart that has failed may have left is tried again, and told.
func TestRestartLeavesSomething(t *testing.T) {
	enginetest.Check(t)
	p := &leavingPolicy{callersPolicy: callersPolicy{scratch: t.TempDir()}}
	restart := func(s session) {
		p.leaves.Store(true)
		assert.ErrorIs(t, s.Restart(t.Context()), execpolicy.ErrStillThere)
		_, err := s.Run(t.Context(), execpolicy.Command{Script: ":"})
		assert.ErrorIs(t, err, execpolicy.ErrEnded)
	}
	s := open(t, p, execpolicy.Spec{Env: sessionEnv})
	restart(s)
	assert.ErrorIs(t, s.Close(), execpolicy.ErrStillThere)
	p.leaves.Store(false)
	s = open(t, p, execpolicy.Spec{Env: sessionEnv})
	restart(s)
	p.leaves.Store(false)
	assert.NilError(t, s.Restart(t.Context()))
	s.ok(":")
	assert.NilError(t, s.Close())
}

// A start is not tried again if it may have left something: another try would hide that.
func TestStillThereIsNotTriedAgain(t *testing.T) {
	p := &stayingPolicy{callersPolicy{scratch: t.TempDir(), argv: []string{"false"}}}
	_, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
	assert.ErrorIs(t, err, execpolicy.ErrStillThere)
	assert.Equal(t, p.spawned, 1)
}
