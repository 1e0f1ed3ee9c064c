package container

import (
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
)

// Only so many are removed when nobody waits any more, and one that is looked for already
// needs no room.
func TestPendingIsBounded(t *testing.T) {
	first := &Container{}
	fill := func() bool {
		pending.Lock()
		defer pending.Unlock()
		if pending.running { // for another test
			return false
		}
		pending.running = true // nothing is to be removed here
		pending.all[first] = pendingTimeout
		for len(pending.all) < maxPending {
			pending.all[&Container{}] = pendingTimeout
		}
		return true
	}
	assert.Assert(t, leftover.Patient.Until(fill))
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
