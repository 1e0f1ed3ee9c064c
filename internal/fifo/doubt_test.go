package fifo_test

import (
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/fifo"
)

func TestDoubt(t *testing.T) {
	const engine = "an engine of this test"
	none := fifo.DoubtOf(engine)
	assert.Assert(t, none == nil)
	assert.Equal(t, none.Why(), "")
	none.Confirm()
	none.Drop()

	fifo.Suspect(engine, fifo.ErrNotSeen)
	first := fifo.DoubtOf(engine)
	assert.Equal(t, first.Why(), fifo.ErrNotSeen.Error())
	assert.Equal(t, fifo.DoubtOf("another engine of this test").Why(), "")

	// An old doubt takes no newer one with it.
	fifo.Suspect(engine, fifo.ErrNotMet)
	first.Drop()
	second := fifo.DoubtOf(engine)
	assert.Equal(t, second.Why(), fifo.ErrNotMet.Error())
	second.Drop()
	assert.Equal(t, fifo.DoubtOf(engine).Why(), "")

	fifo.Suspect(engine, fifo.ErrNotMet)
	third := fifo.DoubtOf(engine)
	third.Confirm()
	third.Drop()
	assert.Equal(t, fifo.DoubtOf(engine).Why(), fifo.ErrNotMet.Error())
}
