package shared_test

import (
	"context"
	"errors"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/shared"
)

func TestOneSearchForAll(t *testing.T) {
	begun, answer := make(chan struct{}), make(chan int)
	v := shared.New("a number", func(ctx context.Context) (int, error) {
		begun <- struct{}{}
		return <-answer, ctx.Err()
	})

	// Whoever began the search may leave it to the others.
	ctx, leave := context.WithCancelCause(t.Context())
	left := make(chan error)
	go func() {
		_, err := v.Get(ctx)
		left <- err
	}()
	<-begun
	errLeft := errors.New("no more time")
	leave(errLeft)
	err := <-left
	assert.ErrorIs(t, err, errLeft)
	assert.Error(t, err, "looking for a number: no more time")

	const waiting = 3
	got := make(chan int)
	for range waiting {
		go func() {
			n, err := v.Get(t.Context())
			assert.Check(t, err)
			got <- n
		}()
	}
	answer <- 7
	for range waiting {
		assert.Equal(t, <-got, 7)
	}
	n, err := v.Get(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, n, 7)
}

func TestErrorsAreNotRemembered(t *testing.T) {
	errs := []error{errors.New("not yet"), nil, nil}
	searches := 0
	v := shared.New("a number", func(context.Context) (int, error) {
		searches++
		return searches, errs[searches-1]
	})
	_, err := v.Get(t.Context())
	assert.Error(t, err, "not yet")
	for range 2 {
		n, err := v.Get(t.Context())
		assert.NilError(t, err)
		assert.Equal(t, n, 2)
	}
	v.Forget()
	n, err := v.Get(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, n, 3)
}
