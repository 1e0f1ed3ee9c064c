package warm_test

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/warm"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// patience bounds a wait for a condition: no test passes faster or slower for it.
const patience = time.Minute

// A place is where sessions of a test run.
type place struct{ places.Place }

// limits are those of sessions that are to be ended by what the test does, and never by
// their time.
var limits = execpolicy.Limits{CommandTimeout: patience, StartupTimeout: patience}

// onFake returns a place on a fake engine, and fails the test on what is left there.
func onFake(t *testing.T, faults fakeengine.Faults) place {
	return place{places.OnFake(t, limits, faults)}
}

// onEngines runs f on each real engine, and fails on what is left there.
func onEngines(t *testing.T, f func(t *testing.T, p place)) {
	places.OnEngines(t, limits, func(t *testing.T, p places.Place) { f(t, place{p}) })
}

// everywhere runs f on the fake engine too.
func everywhere(t *testing.T, f func(t *testing.T, p place)) {
	places.Everywhere(t, limits, func(t *testing.T, p places.Place) { f(t, place{p}) })
}

// A pool is open, and the test that it is for.
type pool struct {
	*warm.Pool
	t *testing.T
}

func (p place) pool(t *testing.T, o warm.Options) pool {
	t.Helper()
	w, err := warm.New(p.Policy, p.Spec, o)
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

// ok is [places.OK].
func (s session) ok(script string) string {
	s.t.Helper()
	return places.OK(s.t, s.Session, script)
}
