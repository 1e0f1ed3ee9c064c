package bound_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/bound"
)

func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var never time.Time
		now := time.Now()
		assert.Equal(t, bound.After(-1), never)
		assert.Equal(t, bound.After(0), now)
		assert.Equal(t, bound.After(time.Second), now.Add(time.Second))
		later := now.Add(1)
		assert.Equal(t, bound.Earlier(now, later), now)
		assert.Equal(t, bound.Earlier(later, now), now)
		assert.Equal(t, bound.Earlier(never, now), now)
		assert.Equal(t, bound.Earlier(now, never), now)
		assert.Equal(t, bound.Earlier(never, never), never)
	})
}

func TestBy(t *testing.T) {
	why := errors.New("why")
	for i := range 3 {
		var all [3]context.Context
		var end [3]context.CancelCauseFunc
		for k := range all {
			all[k], end[k] = context.WithCancelCause(t.Context())
		}
		ctx, cancel := bound.By(all[0], all[1])
		ctx, cancelBoth := bound.By(ctx, all[2])
		assert.NilError(t, ctx.Err())
		end[i](why)
		<-ctx.Done()
		assert.Equal(t, context.Cause(ctx), why)
		cancelBoth(nil)
		cancel(nil)
		// One that has ended before ends it too.
		ctx, cancel = bound.By(all[0], all[1])
		ctx, cancelBoth = bound.By(ctx, all[2])
		<-ctx.Done()
		assert.Equal(t, context.Cause(ctx), why)
		cancelBoth(nil)
		cancel(nil)
	}
	// After the cancel the others do nothing.
	other, end := context.WithCancelCause(t.Context())
	ctx, cancel := bound.By(t.Context(), other)
	cancel(why)
	end(nil)
	assert.Equal(t, context.Cause(ctx), why)
}

// Where the caller's context never ends, the other one still ends it.
func TestByForEver(t *testing.T) {
	why := errors.New("why")
	life, end := context.WithCancelCause(context.Background())
	ctx, cancel := bound.By(context.Background(), life)
	end(why)
	assert.Equal(t, context.Cause(ctx), why)
	cancel(nil)
}

func TestByHasTheCallersValues(t *testing.T) {
	type key struct{}
	caller := context.WithValue(context.Background(), key{}, "value")
	ends, end := context.WithTimeout(caller, 0)
	defer end()
	for _, caller := range []context.Context{caller, ends} {
		ctx, cancel := bound.By(caller, t.Context())
		assert.Equal(t, ctx.Value(key{}), "value")
		assert.Equal(t, ctx.Err(), caller.Err())
		cancel(nil)
	}
}

func TestCall(t *testing.T) {
	why := errors.New("why")
	assert.Equal(t, bound.Call(t.Context(), func() error { return why }), why)
	ctx, cancel := context.WithCancelCause(t.Context())
	stuck := make(chan struct{})
	defer close(stuck)
	assert.Equal(t, bound.Call(ctx, func() error {
		cancel(why)
		<-stuck
		return nil
	}), why)
}
