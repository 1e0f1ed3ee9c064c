package egress

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// A step of the machine's clock neither ends a tunnel nor keeps it: a time without a
// monotonic reading would follow that clock.
func TestIdleTimeIsMonotonic(t *testing.T) {
	tun := &tunnel{proxy: &proxy{idle: time.Hour}, start: time.Now()}
	tun.last.Store(int64(time.Minute))
	until := tun.until()
	assert.Equal(t, until.Sub(tun.start), time.Hour+time.Minute)
	assert.Assert(t, until != until.Round(0), "%v", until) // Round takes the reading away
}
