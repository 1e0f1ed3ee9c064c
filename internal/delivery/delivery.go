// Package delivery hands items to a function, one at a time and in order, on a goroutine
// of its own. Whoever posts an item may wait until it was delivered, as long as they like.
package delivery

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrLate means that an item was not delivered in time, or was lost because too many
// others wait.
var ErrLate = errors.New("it was not taken in time")

// A Queue delivers items. Its methods may be called at the same time.
type Queue[T any] struct {
	deliver func(T) error
	max     int

	mu        sync.Mutex
	items     []T // items[0] is being delivered
	posted    int // how many items have come, without those that were lost
	delivered int
	changed   chan struct{} // closed when an item was delivered
	failed    error         // of items for which nobody has waited yet
	abandoned error         // why somebody no longer waits, while items[0] is delivered
}

// New returns a queue of at most max items, with the one that is being delivered.
func New[T any](max int, deliver func(T) error) *Queue[T] {
	return &Queue[T]{deliver: deliver, max: max, changed: make(chan struct{})}
}

// Post hands an item over without waiting, and returns its number. If the queue is full
// the item is lost, with [ErrLate], which the next that waits is told too.
func (q *Queue[T]) Post(item T) (n int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) >= q.max {
		if !errors.Is(q.failed, ErrLate) {
			q.failed = errors.Join(q.failed, ErrLate)
		}
		return 0, ErrLate
	}
	q.items = append(q.items, item)
	q.posted++
	if len(q.items) == 1 {
		go q.run()
	}
	return q.posted, nil
}

// run delivers all items. It holds no lock while it delivers one, and defers nothing: a
// panic of deliver is to end the program as itself.
func (q *Queue[T]) run() {
	q.mu.Lock()
	for len(q.items) > 0 {
		item := q.items[0]
		q.mu.Unlock()
		err := q.deliver(item)
		q.mu.Lock()
		q.items, q.abandoned = q.items[1:], nil
		q.failed = errors.Join(q.failed, err)
		q.delivered++
		close(q.changed)
		q.changed = make(chan struct{})
	}
	q.mu.Unlock()
}

// Wait waits until the item of that number was delivered, and all before it. It returns
// the errors of all items of which nobody was told yet; or [ErrLate] after that time, or
// the cause of ctx.
func (q *Queue[T]) Wait(ctx context.Context, n int, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, ErrLate)
	defer cancel()
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.delivered < n {
		if ctx.Err() != nil {
			if q.abandoned != ErrLate {
				q.abandoned = context.Cause(ctx)
			}
			return context.Cause(ctx)
		}
		changed := q.changed
		q.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		q.mu.Lock()
	}
	err := q.failed
	q.failed = nil
	return err
}

// Flush waits, as [Queue.Wait] does, until all items so far were delivered.
func (q *Queue[T]) Flush(ctx context.Context, timeout time.Duration) error {
	q.mu.Lock()
	n := q.posted
	q.mu.Unlock()
	return q.Wait(ctx, n, timeout)
}

// Abandoned returns why somebody no longer waits, while the same item is still being
// delivered: [ErrLate] if that took anybody too long. It is nil if nobody has gone.
func (q *Queue[T]) Abandoned() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.abandoned
}
