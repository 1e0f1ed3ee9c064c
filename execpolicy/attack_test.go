//go:build linux

package execpolicy_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// A stuck writer takes nothing until it is released.
type stuck chan struct{}

func (s stuck) Write(p []byte) (int, error) {
	<-s
	return len(p), nil
}

// Callers' writers may be stuck, or one for both streams: the call returns in time, and
// nobody is written to by two at once.
func TestWriters(t *testing.T) {
	enginetest.Check(t)
	limits := hostLimits
	limits.TerminationTimeout = 2 * time.Second
	s := open(t, execpolicy.HostPolicy{Limits: limits}, execpolicy.Spec{})

	both := make(stuck)
	for limit := time.Second; ; limit *= 2 {
		var r *execpolicy.Result
		enginetest.Within(t, limit+slack, "a command with two stuck writers", func() {
			var err error
			r, err = s.Run(t.Context(), execpolicy.Command{Script: "echo a; echo b >&2", Stdout: both, Stderr: both, Timeout: limit})
			assert.Assert(t, r != nil, "%v", err)
			assert.Equal(t, errors.Is(err, os.ErrDeadlineExceeded), r.Outcome == execpolicy.OutcomeExited, "%v", err)
		})
		// On a busy machine it may not have come to its end in that time.
		if r.Outcome == execpolicy.OutcomeExited || limit > slack {
			assert.Equal(t, string(r.Stdout)+string(r.Stderr), "a\nb\n")
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	enginetest.Within(t, slack, "a cancel", func() {
		r, err := s.Run(ctx, execpolicy.Command{Script: "echo a; sleep 30", Timeout: time.Minute,
			Stdout: writerFunc(func(p []byte) (int, error) {
				cancel()
				return both.Write(p)
			})})
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeCanceled)
	})
	close(both)

	// The race detector watches these. On a busy machine the cancel may have cost the
	// session.
	s = open(t, execpolicy.HostPolicy{Limits: limits}, execpolicy.Spec{})
	var one bytes.Buffer
	r := s.run(execpolicy.Command{Script: "for i in 1 2 3; do echo out; echo err >&2; done", Stdout: &one, Stderr: &one})
	assert.Equal(t, int64(one.Len()), r.StdoutInfo.Bytes+r.StderrInfo.Bytes)
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	flood := 0
	_, err := s.Run(ctx, execpolicy.Command{Script: "head -c 1000000 /dev/zero; sleep 30",
		Stdout: writerFunc(func(p []byte) (int, error) {
			if flood += len(p); flood == 1000000 {
				cancel()
			}
			return len(p), nil
		})})
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, flood, 1000000)
}

func TestCanceledBeforehandRunsNothing(t *testing.T) {
	enginetest.Check(t)
	s := open(t, execpolicy.HostPolicy{Limits: hostLimits}, execpolicy.Spec{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		_, err := s.Run(ctx, execpolicy.Command{Script: "echo x >>ran"})
		assert.ErrorIs(t, err, context.Canceled)
	}
	assert.Equal(t, s.ok("cat ran 2>/dev/null || :"), "")
}

// A directory's name is hostile too: nothing of it is taken for an operation of the
// session.
func TestDirectoriesWithHostileNames(t *testing.T) {
	enginetest.Check(t)
	s := open(t, execpolicy.HostPolicy{Limits: hostLimits}, execpolicy.Spec{})
	s.ok("mkdir 'a\nw' && cd 'a\nw' && x=kept")
	_, err := s.Run(t.Context(), execpolicy.Command{Script: "pwd", Dir: "/"})
	assert.ErrorIs(t, err, execpolicy.ErrNoDir)
	assert.Equal(t, s.ok("echo $x"), "kept")
	// Longer than any path a system call takes.
	long := strings.Repeat("d", 200)
	r := s.script("cd ..; i=0; while [ $i -lt 25 ]; do mkdir " + long + " && cd " + long +
		" || exit 1; i=$((i + 1)); done; echo $x")
	assert.Equal(t, r.Outcome, execpolicy.OutcomeExited)
	assert.Equal(t, string(r.Stdout), "kept\n")
}

func TestReadonlyNamesAreRefused(t *testing.T) {
	_, err := execpolicy.Start(t.Context(), execpolicy.HostPolicy{},
		execpolicy.Spec{Env: map[string]string{"UID": "0", "PPID": "1"}})
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
	assert.ErrorContains(t, err, "UID")
	assert.ErrorContains(t, err, "PPID")
}

// An end that failed may be tried again.
func TestEndCanBeTriedAgain(t *testing.T) {
	enginetest.Check(t)
	failing := errors.New("not yet")
	s := open(t, &failsOnce{Policy: execpolicy.HostPolicy{Limits: hostLimits}, err: failing}, execpolicy.Spec{})
	assert.ErrorIs(t, s.Restart(t.Context()), failing)
	assert.NilError(t, s.Restart(t.Context()))
	assert.Equal(t, s.ok("echo on"), "on")
}

// failsOnce is a policy whose first attempt to end a process fails.
type failsOnce struct {
	execpolicy.Policy
	err error
}

func (p *failsOnce) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	proc, err := p.Policy.Spawn(ctx, spec)
	if err != nil {
		return nil, err
	}
	kill := proc.Kill
	proc.Kill = func(ctx context.Context) error {
		if err := p.err; err != nil {
			p.err = nil
			return err
		}
		return kill(ctx)
	}
	return proc, nil
}

// An engine that stops answering holds nothing up, and what is not known is said.
func TestEngineThatHangs(t *testing.T) {
	fakeengine.NeedIsolation(t)
	e := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{})
	enginetest.Check(t) // behind the engine, which what goes on trying needs to the end
	p := execpolicy.DockerPolicy{Engine: e.Engine, Image: "image",
		Limits: execpolicy.Limits{TerminationTimeout: 2 * time.Second}}
	s := open(t, p, execpolicy.Spec{})
	e.Set(fakeengine.Faults{Hang: []string{fakeengine.Every}})
	enginetest.Within(t, p.TerminationTimeout+slack, "a command", func() {
		r, err := s.Run(t.Context(), execpolicy.Command{Script: "sleep 30", Timeout: 500 * time.Millisecond})
		assert.ErrorIs(t, err, execpolicy.ErrStillThere)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
	})
	enginetest.Within(t, p.TerminationTimeout+slack, "a start", func() {
		p := p
		p.StartupTimeout = time.Second
		_, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
		assert.ErrorIs(t, err, execpolicy.ErrStart)
		assert.ErrorContains(t, err, "in time")
	})
	e.Set(fakeengine.Faults{})
	// What was not known is looked at again.
	s.restart()
	assert.Equal(t, s.ok("echo on"), "on")
}

// A session that is lost while its engine does not answer is given up within one bound,
// and not within one for each question.
func TestSessionLostWhileEngineHangs(t *testing.T) {
	fakeengine.NeedIsolation(t)
	e := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{})
	enginetest.Check(t) // behind the engine, which what goes on trying needs to the end
	limits := execpolicy.Limits{TerminationTimeout: 12 * time.Second}
	s := open(t, execpolicy.DockerPolicy{Engine: e.Engine, Image: "image", Limits: limits}, execpolicy.Spec{})
	c := s.start(t.Context(), execpolicy.Command{Script: "echo begun; sleep 1000"})
	e.Set(fakeengine.Faults{Hang: []string{fakeengine.Every}})
	enginetest.Within(t, limits.TerminationTimeout+slack, "a command whose client was lost", func() {
		signalChild("--name="+s.Name(), syscall.SIGKILL)
		<-c.done
	})
	assert.Equal(t, c.result.Outcome, execpolicy.OutcomeSessionLost)
	assert.ErrorIs(t, c.err, execpolicy.ErrStillThere)
	e.Set(fakeengine.Faults{})
	// It is removed as soon as the engine answers again.
	if err := s.Close(); err != nil {
		assert.ErrorIs(t, err, execpolicy.ErrStillThere)
	}
	wait(t, func() bool { return len(e.Containers()) == 0 && len(e.Processes()) == 0 }, "it is left")
}

// A client that is told to end while its container starts loses no container.
func TestClientEndedDuringTheStart(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		for i := range 8 {
			policy := ended{p.policy(), time.Duration(40+40*i) * time.Millisecond}
			s, err := execpolicy.Start(t.Context(), policy, p.spec())
			if err == nil {
				s.Close()
			}
		}
		poll.WaitOn(t, func(poll.LogT) poll.Result {
			names, err := p.engine.PS(t.Context(), p.labels)
			if err != nil || len(names) > 0 {
				return poll.Continue("%v %v", names, err)
			}
			return poll.Success()
		}, poll.WithTimeout(patience))
	})
}

// ended is a policy whose clients get a SIGTERM some time after their start.
type ended struct {
	execpolicy.Policy
	after time.Duration
}

func (p ended) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	proc, err := p.Policy.Spawn(ctx, spec)
	if err == nil {
		time.AfterFunc(p.after, func() {
			select {
			case <-proc.Done:
			default:
				signalChild("--name="+proc.Name, syscall.SIGTERM)
			}
		})
	}
	return proc, err
}

// signalChild signals the child of this process that has the word in its command line.
func signalChild(word string, signal syscall.Signal) {
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, child := range strings.Fields(string(text)) {
			pid, _ := strconv.Atoi(child)
			cmdline, _ := os.ReadFile("/proc/" + child + "/cmdline")
			if pid > 1 && slices.Contains(strings.Split(string(cmdline), "\x00"), word) {
				syscall.Kill(pid, signal)
			}
		}
	}
}
