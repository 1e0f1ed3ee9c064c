package leftover

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Patience is how long something is waited for. It ends when the time is over and there
// were as many looks: what only the clock ends is over before it was looked for where the
// machine stood still, or where every look takes long.
type Patience struct {
	Time  time.Duration
	Looks int
}

// Patient is the patience with what should be gone.
var Patient = Patience{Timeout, 20}

// Until looks until ok says so, which it reports.
func (p Patience) Until(ok func() bool) bool {
	began := time.Now()
	for looks := 1; !ok(); looks++ {
		if looks >= p.Looks && time.Since(began) >= p.Time {
			return false
		}
		time.Sleep(10 * time.Millisecond)
	}
	return true
}

// Settle looks until nothing is there that was not there before, and returns what stays.
//
// The helpers of podman are those of the whole machine, and each removal of a container
// shows one for a moment. Only one that is seen twice in a row is left behind.
func (p Patience) Settle(before map[string]string, look func() map[string]string) (left []string) {
	var last map[string]string // of the last look; nil if there was more than helpers
	p.Until(func() bool {
		now := look()
		maps.DeleteFunc(now, func(what, _ string) bool {
			_, ok := before[what]
			return ok
		})
		left = slices.Sorted(maps.Values(now))
		if slices.ContainsFunc(left, func(text string) bool { return !strings.HasPrefix(text, helper) }) {
			last = nil
			return false
		}
		settled := len(now) == 0 || last != nil
		for what := range now {
			_, again := last[what]
			settled = settled && !again
		}
		if last = now; settled {
			left = nil
		}
		return settled
	})
	return left
}
