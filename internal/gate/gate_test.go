package gate_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/gate"
	"github.com/seed-64a260eb/cofferdam/internal/policyerr"
)

// A way takes a time to close, and counts how often it was.
type way struct {
	takes  time.Duration
	closed int
}

func (w *way) Close() error {
	time.Sleep(w.takes)
	w.closed++
	return nil
}

func opens(w *way) func() (io.Closer, error) {
	return func() (io.Closer, error) { return w, nil }
}

var errKill = errors.New("kill")

func kill(context.Context) error { return errKill }

func TestKillClosesTheWay(t *testing.T) {
	var g gate.Gate
	var w way
	assert.NilError(t, g.Open(opens(&w)))
	assert.ErrorIs(t, g.Kill(t.Context(), kill), errKill)
	assert.Equal(t, w.closed, 1)
	// It is closed once, and for good.
	assert.ErrorIs(t, g.Kill(t.Context(), kill), errKill)
	assert.ErrorContains(t, g.Open(opens(&w)), "the container has ended")
	assert.Equal(t, w.closed, 1)
}

func TestWayThatDoesNotOpen(t *testing.T) {
	g := gate.Gate{Field: "Egress"}
	no := errors.New("no")
	err := g.Open(func() (io.Closer, error) { return nil, no })
	assert.ErrorIs(t, err, no)
	assert.ErrorContains(t, err, "Egress: the way out can't be opened")
	assert.Equal(t, g.Kill(t.Context(), func(context.Context) error { return nil }), nil)
}

// The container is killed although its way out is stuck, and what is left is told.
func TestWayThatIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate.Gate
		assert.NilError(t, g.Open(opens(&way{takes: time.Hour})))
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		start, killed := time.Now(), false
		err := g.Kill(ctx, func(context.Context) error { killed = true; return nil })
		assert.Assert(t, killed)
		assert.ErrorIs(t, err, policyerr.ErrStillThere)
		assert.Equal(t, time.Since(start), 6*time.Second)
		time.Sleep(time.Hour)
	})
}

func TestNoGate(t *testing.T) {
	var g *gate.Gate
	assert.Equal(t, g.Kill(t.Context(), kill), errKill)
}
