package execpolicy_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// A start that fails says that podman was only used in docker's place, once, and that
// docker is down is not its cause.
func TestPassedOverIsTold(t *testing.T) {
	for name, failure := range map[string]fakeengine.Faults{
		"missing": {ImageMissing: true},
		"pull": {ImageMissing: true,
			Fail: map[string]fakeengine.Failure{"pull": {Exit: 125, Stderr: "Error: initializing source docker://x: no"}}},
	} {
		t.Run(name, func(t *testing.T) {
			enginetest.Check(t)
			fake := fakeengine.New(t, dockercli.Podman, failure)
			fake.PassedOver = &dockercli.Error{Verb: "version", Stderr: "Cannot connect to the Docker daemon",
				Class: dockercli.ErrEngineDown}
			p := execpolicy.DockerPolicy{Engine: fake.Engine}
			if name == "missing" {
				p.Pull = dockercli.PullNever
			}
			_, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
			assert.ErrorIs(t, err, dockercli.ErrImageMissing)
			assert.Equal(t, errors.Is(err, dockercli.ErrPull), name == "pull")
			assert.Assert(t, !errors.Is(err, dockercli.ErrEngineDown))
			const told = "used because docker could not be: version: the container engine does not " +
				"answer: Cannot connect to the Docker daemon"
			assert.Equal(t, strings.Count(err.Error(), told), 1, "%v", err)
		})
	}
}

// Results and errors name the engine, and what chose it.
func TestEngineIsNamed(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		chosen := *p.engine
		chosen.ChosenBy = "COFFERDAM_ENGINE=here"
		p.engine = &chosen
		spec := p.spec()
		spec.Approve = func(_ context.Context, r execpolicy.Request) error {
			if strings.Contains(r.String(), "no") {
				return errHook
			}
			return nil
		}
		s := open(t, p.policy(), spec)
		for _, script := range []string{":", "no"} {
			assert.Equal(t, s.script(script).Engine, chosen.String())
		}
		r, err := s.Run(t.Context(), execpolicy.Command{Script: "sleep 7", Timeout: short})
		assert.NilError(t, err)
		assert.Equal(t, r.Engine, chosen.String())
		p.cli(t, "rm", "--force", s.Name())
		<-s.Done()
		_, err = s.Run(t.Context(), execpolicy.Command{Script: ":"})
		assert.ErrorIs(t, err, execpolicy.ErrEnded)
		assert.ErrorContains(t, err, "the engine is "+chosen.String())

		policy := p.policy()
		policy.Image, policy.Pull = "cofferdam.invalid/no-such:image", dockercli.PullNever
		if p.fake != nil {
			p.fake.Set(fakeengine.Faults{ImageMissing: true})
		}
		_, err = execpolicy.Start(t.Context(), policy, p.spec())
		assert.ErrorIs(t, err, dockercli.ErrImageMissing)
		assert.Equal(t, strings.Count(err.Error(), chosen.String()), 1, "%v", err)
	})
}

// Who waits for an engine that somebody else looks for keeps its own time, and has that
// one's answer.
func TestSearchForAnEngineIsShared(t *testing.T) {
	if runtime.GOOS == "windows" {
		leftout.Skip(t, "the client is a script of sh")
	}
	enginetest.Check(t)
	dir := t.TempDir()
	script := "#!/bin/sh\necho >>" + dir + "/asked\nuntil [ -e " + dir +
		"/go ]; do sleep 0.01; done\necho >&2 broken\nexit 1\n"
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "docker"), []byte(script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, name := range []string{dockercli.EngineVar, "DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST", "CONTAINER_CONNECTION"} {
		t.Setenv(name, "")
	}
	execpolicy.ForgetEngine()
	t.Cleanup(execpolicy.ForgetEngine)

	answers := make(chan error, 3)
	for range cap(answers) {
		go func() {
			_, err := execpolicy.DockerPolicy{}.FindEngine(t.Context())
			answers <- err
		}()
	}
	wait(t, func() bool { _, err := os.Stat(filepath.Join(dir, "asked")); return err == nil }, "nobody asks")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errHook)
	_, err := execpolicy.DockerPolicy{}.FindEngine(ctx)
	assert.ErrorIs(t, err, errHook)
	assert.Equal(t, len(answers), 0)
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	for range cap(answers) {
		assert.ErrorContains(t, <-answers, "broken")
	}
	asked, err := os.ReadFile(filepath.Join(dir, "asked"))
	assert.NilError(t, err)
	// Once for its version, and once for what chooses it.
	assert.Assert(t, len(asked) <= 2, "%d", len(asked))
}

// onPodmanService runs f on a docker client that talks to a service of podman's.
func onPodmanService(t *testing.T, f func(t *testing.T, p place)) {
	var podman enginetest.Engine
	for _, e := range enginetest.Engines(t) {
		if e.Kind == dockercli.Podman {
			podman = e
		}
	}
	docker, err := exec.LookPath("docker")
	if podman.Engine == nil || err != nil {
		leftout.Skip(t, "it takes podman, and docker's client")
	}
	enginetest.Check(t, podman)
	// The name of a socket must be short.
	dir, err := os.MkdirTemp("", "s")
	assert.NilError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	address := "unix://" + filepath.Join(dir, "s")
	ctx, stop := context.WithCancel(context.Background())
	service := exec.CommandContext(ctx, podman.Path,
		slices.Concat(podman.Global, []string{"system", "service", "--time=0", address})...)
	service.Env, service.WaitDelay = podman.Env, patience
	service.Cancel = func() error { return service.Process.Signal(syscall.SIGTERM) }
	assert.NilError(t, service.Start())
	t.Cleanup(func() {
		stop()
		service.Wait()
	})
	var e *dockercli.Engine
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		var err error
		if e, err = dockercli.Lookup(t.Context(), docker+" --host "+address); err != nil {
			return poll.Continue("%v", err)
		}
		return poll.Success()
	}, poll.WithTimeout(patience))
	assert.Assert(t, e.PodmanService && e.Kind == dockercli.Docker && !e.Remote)
	f(t, place{engine: e, image: podman.Image, labels: podman.Labels})
}

// A docker client on podman's service is as good as either.
func TestPodmanService(t *testing.T) {
	onPodmanService(t, func(t *testing.T, p place) {
		for name, policy := range map[string]execpolicy.DockerPolicy{"zero": {}, "compat": execpolicy.Compat()} {
			t.Run(name, func(t *testing.T) {
				policy := p.with(policy)
				s := open(t, policy, p.spec())
				assert.Equal(t, s.ok("echo hello"), "hello")
				_, err := p.engine.OOMKilled(t.Context(), s.Name(), time.Time{})
				assert.ErrorIs(t, err, errors.ErrUnsupported)
				r, err := s.Run(t.Context(), execpolicy.Command{Script: "trap : TERM; while :; do :; done",
					Timeout: time.Second / 2})
				assert.NilError(t, err)
				assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
				assert.Equal(t, s.ok("echo again"), "again")
				assert.NilError(t, s.Close())
			})
		}
		t.Run("removal", func(t *testing.T) {
			// A process 1 that nothing but the engine can end, without podman's 10 s for
			// a SIGTERM.
			spec := p.spec()
			spec.Command = []string{"sh", "-c", "echo up; while :; do sleep 1; done"}
			proc, err := p.policy().Spawn(t.Context(), spec)
			assert.NilError(t, err)
			up := make([]byte, 3)
			_, err = io.ReadFull(proc.Stdout, up)
			assert.NilError(t, err)
			go io.Copy(io.Discard, proc.Stdout)
			go io.Copy(io.Discard, proc.Stderr)
			proc.Answered()
			took := enginetest.Awake(func() { err = proc.Kill(t.Context()) })
			assert.NilError(t, err)
			assert.Assert(t, took < 9*time.Second, "%v", took)
		})
	})
}

// with returns the policy on this place.
func (p place) with(policy execpolicy.DockerPolicy) execpolicy.DockerPolicy {
	policy.Engine, policy.Image, policy.Limits = p.engine, p.image, hostLimits
	policy.EngineSeccomp = policy.EngineSeccomp || places.NoFilter(p.engine)
	return policy
}

// What AllowUnsafeArgs allows works, on every engine, also where an engine takes it not
// together with what the library would say.
func TestAllowedArgs(t *testing.T) {
	check := func(t *testing.T, p place) {
		hosts := func(s session) {
			assert.Equal(t, s.ok("grep db.example /etc/hosts | tr '\\t' ' '"), "192.0.2.7 db.example")
		}
		for name, c := range map[string]struct {
			policy execpolicy.DockerPolicy
			holds  func(s session)
		}{
			"ExtraHosts":      {execpolicy.DockerPolicy{ExtraHosts: []string{"db.example:192.0.2.7"}}, hosts},
			"add-host":        {addHost(execpolicy.DockerPolicy{}), hosts},
			"compat add-host": {addHost(execpolicy.Compat()), hosts},
			"uts": {execpolicy.DockerPolicy{ExtraRunArgs: []string{"--uts=host"}, AllowUnsafeArgs: []string{"uts"}},
				func(s session) {
					host, err := os.Hostname()
					assert.NilError(t, err)
					assert.Equal(t, s.ok("hostname"), host)
				}},
			"ipc": {execpolicy.DockerPolicy{ExtraRunArgs: []string{"--ipc=host"}, AllowUnsafeArgs: []string{"ipc"}},
				func(s session) { s.ok(":") }},
			"cpu time": {execpolicy.DockerPolicy{ExtraRunArgs: []string{"--ulimit=cpu=7"}},
				func(s session) { assert.Equal(t, s.ok("ulimit -t"), "7") }},
		} {
			t.Run(name, func(t *testing.T) {
				s := open(t, p.with(c.policy), p.spec())
				c.holds(s)
				assert.NilError(t, s.Close())
			})
		}
	}
	onEngines(t, check)
	t.Run("service", func(t *testing.T) { onPodmanService(t, check) })
}
