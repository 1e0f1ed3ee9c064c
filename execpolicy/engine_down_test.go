//go:build linux

package execpolicy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/container"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// fakes runs f on a fake engine of each kind.
func fakes(t *testing.T, f func(t *testing.T, e *fakeengine.Engine)) {
	fakeengine.NeedIsolation(t)
	for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman} {
		t.Run(kind.String(), func(t *testing.T) {
			e := fakeengine.New(t, kind, fakeengine.Faults{})
			enginetest.Check(t) // behind the engine, which what goes on trying needs to the end
			f(t, e)
		})
	}
}

// down is how an engine fails that is not there.
var down = fakeengine.Failure{Exit: 125,
	Stderr: "docker: Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?"}

// checkUnreached checks the error of a start whose client never reached its engine.
func checkUnreached(t *testing.T, err error) {
	t.Helper()
	assert.ErrorIs(t, err, execpolicy.ErrStart)
	assert.ErrorIs(t, err, dockercli.ErrEngineDown)
	assert.Check(t, !strings.Contains(err.Error(), execpolicy.ErrStillThere.Error()), "%v", err)
	assert.Equal(t, strings.Count(err.Error(), dockercli.ErrEngineDown.Error()), 1, "%v", err)
}

// Where the client could not connect to its engine nothing was asked for, and nothing is
// waited or looked for.
func TestStartsOnAnEngineThatIsDown(t *testing.T) {
	fakes(t, func(t *testing.T, e *fakeengine.Engine) {
		e.Set(fakeengine.Faults{Fail: map[string]fakeengine.Failure{fakeengine.Every: down}})
		const starts = 20
		for range starts {
			_, err := execpolicy.Start(t.Context(), execpolicy.DockerPolicy{Engine: e.Engine, Image: "image"}, execpolicy.Spec{})
			checkUnreached(t, err)
		}
		// Each has run its client, and looked once if the engine is away.
		assert.Equal(t, len(e.Calls()), 2*starts)
	})
}

// The same with the engines' own clients.
func TestStartsWithoutASocket(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		const nowhere = "unix:///nonexistent/engine.sock"
		e := *p.engine
		if e.Env == nil {
			e.Env = os.Environ()
		}
		e.Env = append(slices.Clip(e.Env), "DOCKER_HOST="+nowhere)
		if e.Kind == dockercli.Podman {
			e.Global = append(slices.Clip(e.Global), "--remote", "--url="+nowhere)
		}
		p.engine = &e
		for range 3 {
			_, err := execpolicy.Start(t.Context(), p.policy(), p.spec())
			checkUnreached(t, err)
		}
	})
}

// However slow an engine is, its answers are believed: that there is nothing, and how a
// container has ended.
func TestSlowEngine(t *testing.T) {
	if testing.Short() {
		leftout.Note(t, "it is measured against the clock")
		return
	}
	fakeengine.NeedIsolation(t)
	enginetest.Check(t)
	const second = time.Second
	t.Run("all", func(t *testing.T) {
		for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman} {
			for _, delay := range []time.Duration{second / 10, 800 * time.Millisecond, 1200 * time.Millisecond, 3 * second} {
				t.Run(fmt.Sprintf("%v %v", kind, delay), func(t *testing.T) {
					t.Parallel()
					testSlowEngine(t, fakeengine.New(t, kind, fakeengine.Faults{}), delay)
				})
			}
		}
	})
}

func testSlowEngine(t *testing.T, e *fakeengine.Engine, delay time.Duration) {
	slow := fakeengine.Faults{Delay: map[string]time.Duration{fakeengine.Every: delay}}
	e.Set(slow)
	p := execpolicy.DockerPolicy{Engine: e.Engine, Image: "image", Pull: dockercli.PullNever,
		Limits: execpolicy.Limits{TerminationTimeout: places.Patience}}
	s := open(t, p, execpolicy.Spec{})
	assert.Equal(t, s.ok("echo hello"), "hello")
	signalChild("--name="+s.Name(), syscall.SIGKILL)
	<-s.Done()
	assert.NilError(t, s.Close())

	s = open(t, p, execpolicy.Spec{})
	told, perhaps := "it was killed, and the engine tells of no want of memory", "it was killed, perhaps for want of memory"
	why := []string{told}
	switch {
	case e.Kind == dockercli.Podman: // it can't tell
		why = []string{perhaps}
	case delay > 2*time.Second:
		// Whether there is time to ask the slowest twice depends on how long the start
		// took beside that.
		why = append(why, perhaps)
	}
	end, of := strings.CutPrefix(s.killFirst(), "its program exited with status 137: ")
	assert.Check(t, of && slices.Contains(why, end), end)

	slow.ImageMissing = true
	e.Set(slow)
	_, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
	assert.ErrorIs(t, err, dockercli.ErrImageMissing)
	assert.Check(t, !strings.Contains(err.Error(), execpolicy.ErrStillThere.Error()), "%v", err)
	e.Set(fakeengine.Faults{})
}

// killFirst kills process 1 of the session's container, closes the session, and returns
// what the session says of its end.
func (s session) killFirst() string {
	s.t.Helper()
	first := container.FindFirst(s.Name(), 0).PID
	assert.Assert(s.t, first != 0, "process 1 was not found")
	assert.NilError(s.t, syscall.Kill(first, syscall.SIGKILL))
	<-s.Done()
	_, err := s.Run(s.t.Context(), execpolicy.Command{Script: ":"})
	assert.ErrorIs(s.t, err, execpolicy.ErrEnded)
	assert.NilError(s.t, s.Close())
	said, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), execpolicy.ErrEnded.Error()+": "), "; the engine is")
	return said
}

// An engine that has to be asked for the status of what has ended may take more than a
// second too.
func TestSlowEngineTellsTheStatus(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		client := filepath.Join(t.TempDir(), p.engine.Kind.String())
		script := "#!/bin/sh\nsleep 1.2\nexec '" + p.engine.Path + "' \"$@\"\n"
		assert.NilError(t, os.WriteFile(client, []byte(script), 0o755))
		slow := *p.engine
		slow.Path = client
		p.engine = &slow
		policy := p.policy()
		policy.Transport = execpolicy.TransportFIFO
		s := open(t, policy, p.spec())
		assert.Equal(t, s.Transport(), execpolicy.TransportFIFO)
		said := s.killFirst()
		assert.Assert(t, strings.HasPrefix(said, "its program exited with status 137: it was killed"), said)
	})
}

// There is one goroutine for all containers that may still come into being, and none when
// there are none.
func TestOneWatcher(t *testing.T) {
	watchers := func() int {
		stacks := make([]byte, 1<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "container.removePending(")
	}
	fakes(t, func(t *testing.T, e *fakeengine.Engine) {
		e.Set(fakeengine.Faults{Hang: []string{fakeengine.Every}})
		limits := execpolicy.Limits{StartupTimeout: short, TerminationTimeout: time.Second}
		var starts sync.WaitGroup
		for range 3 {
			starts.Go(func() {
				_, err := execpolicy.Start(t.Context(),
					execpolicy.DockerPolicy{Engine: e.Engine, Image: "image", Limits: limits}, execpolicy.Spec{})
				assert.Check(t, err != nil)
			})
		}
		starts.Wait()
		assert.Equal(t, watchers(), 1)
		e.Set(fakeengine.Faults{})
		wait(t, func() bool { return watchers() == 0 }, "it goes on")
	})
}

// What the engine says of a container does not count as long as its process 1 is seen.
func TestEngineThatForgets(t *testing.T) {
	words := map[dockercli.Kind]string{
		dockercli.Docker: "Error: No such container: NAME",
		dockercli.Podman: "Error: inspecting object: no such container NAME",
	}
	fakes(t, func(t *testing.T, e *fakeengine.Engine) {
		limits := hostLimits
		limits.TerminationTimeout = 5 * time.Second
		forgets := fakeengine.Failure{Exit: 1, Stderr: words[e.Kind]}
		for name, verbs := range map[string][]string{
			"when asked": {"container inspect"},
			"always":     {"container inspect", "exec", "kill", "rm"},
		} {
			s := open(t, execpolicy.DockerPolicy{Engine: e.Engine, Image: "image", Limits: limits}, execpolicy.Spec{})
			pid := e.Pid(s.Name())
			start := leftover.StartOf(pid)
			assert.Assert(t, pid > 1 && start != "")
			fail := map[string]fakeengine.Failure{}
			for _, verb := range verbs {
				fail[verb] = forgets
			}
			// The stdin of process 1 stays open.
			e.Set(fakeengine.Faults{LoseConnection: true, Fail: fail})
			<-s.Done()
			assert.NilError(t, s.Close(), name)
			assert.Assert(t, leftover.StartOf(pid) != start, name)
			e.Set(fakeengine.Faults{})
		}
	})
}

// A scratch directory from which no program can be run is named, with the remedy.
func TestScratchWithoutExec(t *testing.T) {
	check := func(t *testing.T, policy execpolicy.DockerPolicy, spec execpolicy.Spec) {
		_, err := execpolicy.Start(t.Context(), policy, spec)
		assert.ErrorIs(t, err, execpolicy.ErrStart)
		assert.ErrorContains(t, err, "no program can be run from /.cofferdam: it must not be mounted noexec")
	}
	fakes(t, func(t *testing.T, e *fakeengine.Engine) {
		e.Set(fakeengine.Faults{NoExec: true})
		check(t, execpolicy.DockerPolicy{Engine: e.Engine, Image: "image", Limits: hostLimits}, execpolicy.Spec{})
	})
	onEngines(t, func(t *testing.T, p place) {
		if p.engine.Kind == dockercli.Podman {
			return // it takes no second mount in the same place
		}
		policy := p.policy()
		policy.ExtraRunArgs = []string{"--tmpfs=/.cofferdam:rw,noexec,size=37748736,mode=1777"}
		policy.AllowUnsafeArgs = []string{"tmpfs"}
		check(t, policy.DockerPolicy, p.spec())
	})
}
