// Package places runs tests of sessions on the fake engine and on every real one.
package places

import (
	"maps"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/setup"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// A Place is where sessions of a test run.
type Place struct {
	Policy execpolicy.DockerPolicy
	Spec   execpolicy.Spec
	Fake   *fakeengine.Engine // nil if the engine is real
}

// Patience is the TerminationTimeout of tests that don't measure it: on a busy machine a
// removal may take longer than the default.
const Patience = time.Minute

// Transport returns that of an engine's sessions: see [setup.Attaches].
func Transport(e *dockercli.Engine) execpolicy.Transport {
	if setup.Attaches(e) {
		return execpolicy.TransportAttach
	}
	return execpolicy.TransportAuto
}

// NoFilter reports whether sessions of an engine have its own filter of system calls,
// because it can't be given the library's.
func NoFilter(e *dockercli.Engine) bool {
	return e.PodmanService || e.Kind == dockercli.Podman && e.Remote
}

// Policy returns the policy of an engine's sessions: the zero one, but for what the
// engine can't do.
func Policy(e *dockercli.Engine, image string, limits execpolicy.Limits) execpolicy.DockerPolicy {
	return execpolicy.DockerPolicy{
		Engine: e, Image: image, Limits: limits, Transport: Transport(e),
		EngineSeccomp: NoFilter(e), AllowMissingLimits: len(e.MissingLimits) > 0,
	}
}

// Client runs the engine's client, which has to succeed, and returns what it prints.
func (p Place) Client(t testing.TB, args ...string) string {
	t.Helper()
	stdout, stderr, err := p.engine().Client(args...)
	assert.NilError(t, err, "%q: %s%s", args, stdout, stderr)
	return stdout
}

// Containers returns the names of the place's containers.
func (p Place) Containers(t testing.TB) []string {
	t.Helper()
	if p.Fake != nil {
		return p.Fake.Containers()
	}
	return p.engine().Containers(t)
}

// Environ returns the environment of an [enginetest.Child] that uses the engine.
func (p Place) Environ(t *testing.T) []string {
	t.Helper()
	return p.engine().Environ(t)
}

func (p Place) engine() enginetest.Engine {
	return enginetest.Engine{Engine: p.Policy.Engine, Image: p.Policy.Image, Labels: p.Spec.Labels}
}

func patient(limits execpolicy.Limits) execpolicy.Limits {
	if limits.TerminationTimeout == 0 {
		limits.TerminationTimeout = Patience
	}
	return limits
}

// Everywhere runs f on the fake engine, if [enginetest.Fake] says so, and on the real
// ones, as [enginetest.Run] does. It fails on what is left behind. Without a
// TerminationTimeout, it is Patience.
func Everywhere(t *testing.T, limits execpolicy.Limits, f func(t *testing.T, p Place)) {
	if enginetest.Fake() {
		t.Run("fake", func(t *testing.T) { f(t, OnFake(t, limits, fakeengine.Faults{})) })
	}
	OnEngines(t, limits, f)
}

// OnFake returns a place on a fake engine, and fails the test on what is left there.
// Without a TerminationTimeout, it is Patience.
func OnFake(t *testing.T, limits execpolicy.Limits, faults fakeengine.Faults) Place {
	fakeengine.NeedIsolation(t)
	enginetest.Check(t)
	e := fakeengine.New(t, dockercli.Docker, faults)
	return Place{Policy: execpolicy.DockerPolicy{Engine: e.Engine, Limits: patient(limits)}, Fake: e}
}

// OnEngines runs f on the real engines, as [enginetest.Run] does. Without a
// TerminationTimeout, it is Patience.
func OnEngines(t *testing.T, limits execpolicy.Limits, f func(t *testing.T, p Place)) {
	enginetest.Run(t, at(limits, f))
}

// OnAllEngines is OnEngines on each engine with -short, too.
func OnAllEngines(t *testing.T, limits execpolicy.Limits, f func(t *testing.T, p Place)) {
	enginetest.RunOnAll(t, at(limits, f))
}

func at(limits execpolicy.Limits, f func(t *testing.T, p Place)) func(*testing.T, enginetest.Engine) {
	return func(t *testing.T, e enginetest.Engine) {
		f(t, Place{
			Policy: Policy(e.Engine, e.Image, patient(limits)),
			Spec:   execpolicy.Spec{Labels: maps.Clone(e.Labels)},
		})
	}
}

// Eventually calls f, which begins in a state that it makes anew, until it returns "",
// and fails the test if that is not so by the fifth time. It is for what the library
// ends: on a busy machine that may take more than it should, and an answer may come too
// late to be heard, which the library says. What f returns is what it has said.
func Eventually(t *testing.T, f func() (again string)) {
	t.Helper()
	var again string
	for range 5 {
		if again = f(); again == "" {
			return
		}
		t.Logf("once more: %s", again)
	}
	t.Fatalf("never as it has to be: %s", again)
}
