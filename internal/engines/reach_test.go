package engines

import (
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/turn"
)

// Sessions whose engine never answers, or that do not ask, keep nobody from another.
func TestConnectingEnds(t *testing.T) {
	was := Connecting
	defer func() { Connecting = was }()
	synctest.Test(t, func(t *testing.T) {
		Connecting = turn.New(4)
		take := func() func() {
			connected, err := Connect(t.Context(), &dockercli.Engine{Remote: true})
			assert.NilError(t, err)
			return connected
		}
		start := time.Now()
		var all []func()
		for range 4 {
			all = append(all, take())
		}
		assert.Equal(t, time.Since(start), time.Duration(0))
		all = append(all, take())
		assert.Equal(t, time.Since(start), connectTime)
		// Each gives back only what it has, and once.
		for _, connected := range all {
			connected()
			connected()
		}
		assert.Equal(t, len(Connecting), 0)
		take()()
		synctest.Wait()
		time.Sleep(2 * connectTime)
		assert.Equal(t, len(Connecting), 0)
	})
}
