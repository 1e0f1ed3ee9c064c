// Package places runs tests of sessions on the fake engine and on every real one.
package places

import (
	"maps"
	"testing"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// A Place is where sessions of a test run.
type Place struct {
	Policy execpolicy.DockerPolicy
	Spec   execpolicy.Spec
	Fake   bool
}

// Everywhere runs f on the fake engine and on each real one, and fails on what is left behind.
func Everywhere(t *testing.T, limits execpolicy.Limits, f func(t *testing.T, p Place)) {
	t.Run("fake", func(t *testing.T) {
		fakeengine.NeedIsolation(t)
		enginetest.Check(t)
		e := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{})
		f(t, Place{Policy: execpolicy.DockerPolicy{Engine: e.Engine, Limits: limits}, Fake: true})
	})
	OnEngines(t, limits, f)
}

// OnEngines runs f on each real engine.
func OnEngines(t *testing.T, limits execpolicy.Limits, f func(t *testing.T, p Place)) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		f(t, Place{
			Policy: execpolicy.DockerPolicy{Engine: e.Engine, Image: e.Image, Limits: limits},
			Spec:   execpolicy.Spec{Labels: maps.Clone(e.Labels)},
		})
	})
}
