package container

import (
	"testing"

	"gotest.tools/v3/assert"
)

// Only so many are removed when nobody waits any more, and one that is looked for already
// needs no room.
func TestPendingIsBounded(t *testing.T) {
	first := &Container{}
	pending.Lock()
	assert.Assert(t, !pending.running)
	pending.running = true // nothing is to be removed here
	pending.all[first] = pendingTimeout
	for len(pending.all) < maxPending {
		pending.all[&Container{}] = pendingTimeout
	}
	pending.Unlock()
	defer func() {
		pending.Lock()
		defer pending.Unlock()
		clear(pending.all)
		pending.running = false
	}()
	assert.Assert(t, !addPending(&Container{}))
	assert.Assert(t, addPending(first))
	dropPending(first)
	assert.Assert(t, addPending(&Container{}))
	assert.Equal(t, len(pending.all), maxPending)
}
