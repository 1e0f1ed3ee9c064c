package delivery_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/delivery"
)

var (
	errTaken = errors.New("taken with an error")
	errGone  = errors.New("the caller has gone")
)

func TestInOrder(t *testing.T) {
	var got []int
	q := delivery.New(100, func(n int) error {
		got = append(got, n)
		return nil
	})
	for i := range 100 {
		assert.NilError(t, q.Post(i))
	}
	assert.NilError(t, q.Flush(t.Context(), time.Minute))
	for i, n := range got {
		assert.Equal(t, n, i)
	}
	assert.Equal(t, len(got), 100)
}

// The error of an item for which nobody waits is told once: to the first that waits.
func TestErrors(t *testing.T) {
	q := delivery.New(10, func(err error) error { return err })
	assert.NilError(t, q.Flush(t.Context(), time.Minute))
	q.Post(errTaken)
	second, _ := q.Submit(errGone)
	err := second.Wait(t.Context(), time.Minute)
	assert.ErrorIs(t, err, errTaken)
	assert.ErrorIs(t, err, errGone)
	assert.NilError(t, q.Flush(t.Context(), time.Minute))
	q.Post(errTaken)
	assert.ErrorIs(t, q.Flush(t.Context(), time.Minute), errTaken)
	assert.NilError(t, q.Flush(t.Context(), time.Minute))
}

// Of two that wait, each is told the error of its own item, whoever comes first.
func TestErrorsOfTwo(t *testing.T) {
	for _, errs := range [][2]error{{errTaken, nil}, {nil, errTaken}} {
		for _, first := range []int{0, 1} {
			synctest.Test(t, func(t *testing.T) {
				deliver := make(chan struct{})
				q := delivery.New(10, func(err error) error {
					<-deliver
					return err
				})
				var receipts [2]*delivery.Receipt[error]
				for i, err := range errs {
					receipts[i], _ = q.Submit(err)
				}
				got := [2]error{errGone, errGone}
				for _, i := range []int{first, 1 - first} {
					go func() { got[i] = receipts[i].Wait(t.Context(), time.Minute) }()
					synctest.Wait()
				}
				close(deliver)
				synctest.Wait()
				assert.NilError(t, q.Flush(t.Context(), time.Minute))
				for i, err := range errs {
					assert.Assert(t, errors.Is(got[i], err), "%v, %v", got, errs)
				}
			})
		}
	}
}

func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := make(chan error)
		q := delivery.New(3, func(int) error { return <-next })
		r, err := q.Submit(1)
		assert.NilError(t, err)
		assert.NilError(t, q.Abandoned())

		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errGone)
		assert.Equal(t, r.Wait(ctx, time.Minute), errGone)
		assert.Equal(t, q.Abandoned(), errGone)
		start := time.Now()
		assert.Equal(t, r.Wait(t.Context(), time.Minute), delivery.ErrLate)
		assert.Equal(t, time.Since(start), time.Minute)
		assert.Equal(t, q.Abandoned(), delivery.ErrLate)
		// That it takes too long is not forgotten while it does.
		assert.Equal(t, r.Wait(ctx, time.Minute), errGone)
		assert.Equal(t, q.Abandoned(), delivery.ErrLate)

		// The queue is full: the item is lost. The next that waits is told, and told the
		// error of the item for which nobody waits any more.
		for n := range 3 {
			assert.NilError(t, q.Post(2+n))
		}
		assert.Equal(t, q.Post(9), delivery.ErrLate)
		next <- errTaken
		synctest.Wait()
		assert.NilError(t, q.Abandoned())
		for range 3 {
			next <- nil
		}
		err = q.Flush(t.Context(), time.Minute)
		assert.ErrorIs(t, err, delivery.ErrLate)
		assert.ErrorIs(t, err, errTaken)
		assert.NilError(t, q.Flush(t.Context(), time.Minute))
	})
}

// What is posted aside waits for the others, takes none of their room, and its errors are
// its own.
func TestAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := make(chan error)
		var got []int
		q := delivery.New(3, func(n int) error {
			got = append(got, n)
			return <-next
		})
		q.PostAside(-1)
		synctest.Wait() // it is being delivered
		for n := range 3 {
			q.PostAside(-2 - n)
		}
		for range 5 {
			q.PostAside(-9) // there is no room
		}
		for n := range 3 {
			assert.NilError(t, q.Post(n+1))
		}
		assert.Equal(t, q.Post(9), delivery.ErrLate)
		next <- errGone
		next <- nil
		next <- errTaken
		next <- nil
		err := q.Flush(t.Context(), time.Minute)
		assert.ErrorIs(t, err, errTaken)
		assert.ErrorIs(t, err, delivery.ErrLate)
		assert.Assert(t, !errors.Is(err, errGone), err)

		err = q.FlushAside(t.Context(), time.Minute)
		assert.ErrorIs(t, err, delivery.ErrLate) // it is stuck
		assert.ErrorIs(t, err, errGone)
		assert.ErrorContains(t, err, "5 more were lost")
		assert.ErrorContains(t, err, "1 were not taken")
		for range 3 {
			next <- nil
		}
		assert.NilError(t, q.FlushAside(t.Context(), time.Minute))
		assert.NilError(t, q.Flush(t.Context(), time.Minute))
		assert.DeepEqual(t, got, []int{-1, 1, 2, 3, -2, -3, -4})
	})
}
