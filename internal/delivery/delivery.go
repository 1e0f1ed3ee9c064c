// Package delivery hands items to a function, one at a time and in order, on a goroutine
// of its own. Whoever posts an item may wait until it was delivered, as long as they
// like.
//
// Items that come from somebody who is not trusted are posted aside. They wait for all
// others, have room of their own, and what becomes of them is told apart.
package delivery

import (
	"context"
	"errors"
	"fmt"
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
	running   bool // an item is being delivered
	items     []T  // items[0] is being delivered, unless one that was posted aside is
	posted    int  // how many items have come, without those that were lost
	delivered int
	changed   chan struct{} // closed when an item was delivered
	failed    error         // of items for which nobody has waited yet
	abandoned error         // why somebody no longer waits, while an item is delivered

	aside                   []T // without the one that is being delivered
	asideLost, asideRefused int
	asideFailed             error // the first error of those
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
	q.start()
	return q.posted, nil
}

// PostAside hands an item over that waits for all others, without waiting. There may be
// max of them beside the others. One more is lost, and counted.
func (q *Queue[T]) PostAside(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.aside) >= q.max {
		q.asideLost++
		return
	}
	q.aside = append(q.aside, item)
	q.start()
}

// start has what was posted delivered.
func (q *Queue[T]) start() {
	if !q.running {
		q.running = true
		go q.run()
	}
}

// run delivers all items. It holds no lock while it delivers one, and defers nothing: a
// panic of deliver is to end the program as itself.
func (q *Queue[T]) run() {
	q.mu.Lock()
	for len(q.items) > 0 || len(q.aside) > 0 {
		if len(q.items) > 0 {
			err := q.hand(q.items[0])
			q.items = q.items[1:]
			q.failed = errors.Join(q.failed, err)
			q.delivered++
		} else {
			item := q.aside[0]
			q.aside = q.aside[1:]
			if err := q.hand(item); err != nil {
				q.asideRefused++
				if q.asideFailed == nil {
					q.asideFailed = err
				}
			}
		}
		q.abandoned = nil
		close(q.changed)
		q.changed = make(chan struct{})
	}
	q.running = false
	q.mu.Unlock()
}

// hand delivers an item without the lock.
func (q *Queue[T]) hand(item T) error {
	q.mu.Unlock()
	err := q.deliver(item)
	q.mu.Lock()
	return err
}

// Wait waits until the item of that number was delivered, and all before it. It returns
// the errors of all items of which nobody was told yet; or [ErrLate] after that time, or
// the cause of ctx.
func (q *Queue[T]) Wait(ctx context.Context, n int, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, ErrLate)
	defer cancel()
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.await(ctx, func() bool { return q.delivered >= n }); err != nil {
		return err
	}
	err := q.failed
	q.failed = nil
	return err
}

// await waits until something has come about by deliveries. It returns the cause of ctx
// if that ends first.
func (q *Queue[T]) await(ctx context.Context, done func() bool) error {
	for !done() {
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
	return nil
}

// Flush waits, as [Queue.Wait] does, until all items so far were delivered.
func (q *Queue[T]) Flush(ctx context.Context, timeout time.Duration) error {
	q.mu.Lock()
	n := q.posted
	q.mu.Unlock()
	return q.Wait(ctx, n, timeout)
}

// FlushAside waits until all items were delivered that were posted aside. It returns the
// first of their errors and how many were lost, once.
func (q *Queue[T]) FlushAside(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, ErrLate)
	defer cancel()
	q.mu.Lock()
	defer q.mu.Unlock()
	err := q.await(ctx, func() bool { return !q.running })
	if q.asideLost > 0 {
		err = errors.Join(err, fmt.Errorf("%d more were lost: %w", q.asideLost, ErrLate))
	}
	if q.asideRefused > 0 {
		err = errors.Join(err, fmt.Errorf("%d were not taken, the first because: %w", q.asideRefused, q.asideFailed))
	}
	q.asideLost, q.asideRefused, q.asideFailed = 0, 0, nil
	return err
}

// Abandoned returns why somebody no longer waits, while the same item is still being
// delivered: [ErrLate] if that took anybody too long. It is nil if nobody has gone.
func (q *Queue[T]) Abandoned() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.abandoned
}
