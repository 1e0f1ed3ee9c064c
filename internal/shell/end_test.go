package shell

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/policyerr"
)

// An attempt that takes long does not take the time of those that wait for it too.
func TestEndKeepsItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const within, later = 10 * time.Second, 2 * time.Second
		done := make(chan struct{})
		o, p := newPeer(done)
		o.TerminationTimeout = within
		o.Kill = func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		c := New(o)
		c.Start()
		go c.End(within)
		time.Sleep(later)
		begin := time.Now()
		assert.ErrorIs(t, c.End(within), policyerr.ErrStillThere)
		assert.Assert(t, time.Since(begin) <= within, "%v", time.Since(begin))
		// That without any time tries all the same.
		tries := c.lastEnd.Load()
		assert.ErrorIs(t, c.End(-1), policyerr.ErrStillThere)
		assert.Assert(t, c.lastEnd.Load() != tries)
		for _, f := range []io.Closer{p.stdin, p.stdout, p.stderr} {
			assert.NilError(t, f.Close())
		}
		close(done)
		<-c.CleanedUp()
		time.Sleep(within) // the process tries once more as it ends
	})
}
