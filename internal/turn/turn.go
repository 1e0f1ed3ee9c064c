// Package turn lets only so many do something at a time.
package turn

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A Turn is waited for, taken and given back. Those who wait get it in the order in which
// they came.
type Turn chan struct{}

// New returns a turn that n can have at a time.
func New(n int) Turn { return make(Turn, n) }

// Take waits for the turn, which the caller then has. If ctx ends first, or has ended
// when the turn comes, Take returns its cause, and the caller does not have the turn.
func (t Turn) Take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		// Select picks either of two that are ready.
		if ctx.Err() == nil {
			return nil
		}
		t.Give()
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// TakeOf is Take, with an error that says whose turn was waited for.
func (t Turn) TakeOf(ctx context.Context, whose string) error {
	if err := t.Take(ctx); err != nil {
		return fmt.Errorf("waiting for the %s's turn: %w", whose, err)
	}
	return nil
}

// TryTake takes the turn if nobody has to be waited for, and reports whether it did.
func (t Turn) TryTake() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

// Hold is Take for a turn that is given back after limit at the latest. give does that
// before, and may be called again.
func (t Turn) Hold(ctx context.Context, limit time.Duration) (give func(), err error) {
	if err := t.Take(ctx); err != nil {
		return nil, err
	}
	once := sync.OnceFunc(t.Give)
	late := time.AfterFunc(limit, once)
	return func() {
		late.Stop()
		once()
	}, nil
}

// Give gives the turn back.
func (t Turn) Give() { <-t }
