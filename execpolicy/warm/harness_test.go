package warm_test

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/warm"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// patience bounds a wait for a condition: no test passes faster or slower for it.
const patience = time.Minute

// A place is where sessions of a test run.
type place struct {
	policy execpolicy.DockerPolicy
	spec   execpolicy.Spec
	fake   *fakeengine.Engine // nil if the engine is real
}

func newPlace(e *dockercli.Engine, image string, labels map[string]string) place {
	return place{
		policy: execpolicy.DockerPolicy{
			AllowMissingLimits: len(e.MissingLimits) > 0,
			Engine:             e, Image: image, EngineSeccomp: e.PodmanService,
			Limits: execpolicy.Limits{CommandTimeout: patience, StartupTimeout: patience, TerminationTimeout: patience},
		},
		spec: execpolicy.Spec{Labels: labels},
	}
}

// onFake returns a place on a fake engine, and fails the test on what is left there.
func onFake(t *testing.T, faults fakeengine.Faults) place {
	fakeengine.NeedIsolation(t)
	enginetest.Check(t)
	e := fakeengine.New(t, dockercli.Docker, faults)
	p := newPlace(e.Engine, "", nil)
	p.fake = e
	return p
}

// onEngines runs f on each real engine, and fails on what is left there.
func onEngines(t *testing.T, f func(t *testing.T, p place)) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) { f(t, newPlace(e.Engine, e.Image, e.Labels)) })
}

// everywhere runs f on the fake engine too.
func everywhere(t *testing.T, f func(t *testing.T, p place)) {
	if enginetest.Fake() {
		t.Run("fake", func(t *testing.T) { f(t, onFake(t, fakeengine.Faults{})) })
	}
	onEngines(t, f)
}

// A pool is open, and the test that it is for.
type pool struct {
	*warm.Pool
	t *testing.T
}

func (p place) pool(t *testing.T, o warm.Options) pool {
	t.Helper()
	w, err := warm.New(p.policy, p.spec, o)
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, w.Close()) })
	return pool{w, t}
}

// until waits for statistics.
func (p pool) until(what string, is func(warm.Stats) bool) {
	p.t.Helper()
	poll.WaitOn(p.t, func(poll.LogT) poll.Result {
		if s := p.Stats(); !is(s) {
			return poll.Continue("%s: %+v", what, s)
		}
		return poll.Success()
	}, poll.WithTimeout(patience), poll.WithDelay(5*time.Millisecond))
}

// full waits until so many sessions are idle, or more, and none is started.
func (p pool) full(n int) {
	p.t.Helper()
	p.until("full", func(s warm.Stats) bool { return s.Idle >= n && s.Starting == 0 })
}

// A session is one that was taken.
type session struct {
	*execpolicy.Session
	t *testing.T
}

func (p pool) take(spec execpolicy.Spec) session {
	p.t.Helper()
	s, err := p.Take(p.t.Context(), spec)
	assert.NilError(p.t, err)
	p.t.Cleanup(func() { s.Close() })
	return session{s, p.t}
}

// ok runs a script that is expected to succeed, and returns what it prints.
func (s session) ok(script string) string {
	s.t.Helper()
	r, err := s.Run(s.t.Context(), execpolicy.Command{Script: script})
	assert.NilError(s.t, err)
	assert.Equal(s.t, r.ExitCode, 0, "%s: %s", script, r.Text())
	return strings.TrimSuffix(string(r.Stdout), "\n")
}

// cli runs the engine's client, and returns what it prints.
func (p place) cli(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e := p.policy.Engine
	cmd := exec.CommandContext(ctx, e.Path, slices.Concat(e.Global, args)...)
	cmd.Env, cmd.WaitDelay = e.Env, time.Second
	out, err := cmd.CombinedOutput()
	assert.NilError(t, err, "%q: %s", args, out)
	return string(out)
}

// containers returns the names of the place's containers.
func (p place) containers(t *testing.T) []string {
	t.Helper()
	if p.fake != nil {
		return p.fake.Containers()
	}
	for key, value := range p.spec.Labels {
		return strings.Fields(p.cli(t, "ps", "--all", "--filter=label="+key+"="+value, "--format={{.Names}}"))
	}
	return nil
}
