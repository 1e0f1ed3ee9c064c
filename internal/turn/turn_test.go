package turn_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/turn"
)

func TestInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := turn.New(2)
		for range 2 {
			assert.NilError(t, turns.Take(t.Context()))
		}
		var came []int
		for i := range 5 {
			go func() {
				assert.Check(t, turns.Take(t.Context()))
				came = append(came, i)
			}()
			synctest.Wait()
		}
		for i := range 5 {
			assert.Equal(t, len(came), i)
			turns.Give()
			synctest.Wait()
		}
		assert.DeepEqual(t, came, []int{0, 1, 2, 3, 4})
	})
}

// Who does not get the turn does not keep it from others.
func TestCanceled(t *testing.T) {
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	turns := turn.New(1)
	for range 100 {
		assert.Equal(t, turns.Take(ctx), gone)
	}
	assert.NilError(t, turns.Take(t.Context()))
	assert.Equal(t, turns.Take(ctx), gone)
}
