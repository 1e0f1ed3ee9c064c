package turn_test

import (
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/turn"
)

func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := turn.Room{Places: 2}
		room.Wait(time.Hour)
		assert.Assert(t, room.Take())
		assert.Assert(t, room.Take())
		assert.Assert(t, !room.Take())
		start := time.Now()
		room.Wait(time.Minute)
		assert.Equal(t, time.Since(start), time.Minute)
		go func() {
			for range 2 {
				time.Sleep(time.Second)
				room.Give()
			}
		}()
		start = time.Now()
		done := make(chan struct{})
		go func() {
			room.Wait(time.Hour)
			close(done)
		}()
		room.Wait(time.Hour)
		<-done
		assert.Equal(t, time.Since(start), 2*time.Second)
		assert.Assert(t, room.Take())
	})
}

// Who holds a turn too long has it no more, and takes it from nobody else.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := turn.New(4)
		take := func() func() {
			give, err := turns.Hold(t.Context(), time.Minute)
			assert.NilError(t, err)
			return give
		}
		start := time.Now()
		var all []func()
		for range 4 {
			all = append(all, take())
		}
		assert.Equal(t, time.Since(start), time.Duration(0))
		all = append(all, take())
		assert.Equal(t, time.Since(start), time.Minute)
		// Each gives back only what it has, and once.
		for _, give := range all {
			give()
			give()
		}
		assert.Equal(t, len(turns), 0)
		take()()
		synctest.Wait()
		time.Sleep(2 * time.Minute)
		assert.Equal(t, len(turns), 0)
	})
}
