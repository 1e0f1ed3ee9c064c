// Package delivery hands items to a function, one at a time and in order, on a goroutine
// of its own. Whoever submits an item waits until it was delivered, as long as they like,
// and is told its error. Nobody waits for an item that is posted.
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
	running   bool       // an item is being delivered
	items     []entry[T] // without the one that is being delivered
	came      int        // how many items have come, without those that were lost
	delivered int
	changed   chan struct{} // closed when an item was delivered
	failed    error         // of items for which nobody waits, until it is told
	abandoned error         // why somebody no longer waits, while an item is delivered

	aside                   []T // without the one that is being delivered
	asideLost, asideRefused int
	asideFailed             error // the first error of those
}

// An entry is an item that waits.
type entry[T any] struct {
	item    T
	receipt *Receipt[T] // nil if nobody waits for the item
}

// A Receipt is for whoever waits for an item.
type Receipt[T any] struct {
	q    *Queue[T]
	n    int   // the item's number
	left bool  // nobody waits any more
	err  error // the item's
}

// New returns a queue in which at most max items wait while one is being delivered.
func New[T any](max int, deliver func(T) error) *Queue[T] {
	return &Queue[T]{deliver: deliver, max: max, changed: make(chan struct{})}
}

// Post hands an item over for which nobody waits. Its error is told to the next that
// waits. If the queue is full the item is lost, with [ErrLate], which the next that waits
// is told too.
func (q *Queue[T]) Post(item T) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.add(entry[T]{item: item})
}

// Submit is Post for an item for which its caller is to wait next, by [Receipt.Wait].
func (q *Queue[T]) Submit(item T) (*Receipt[T], error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := &Receipt[T]{q: q, n: q.came + 1}
	return r, q.add(entry[T]{item, r})
}

func (q *Queue[T]) add(e entry[T]) error {
	if len(q.items) >= q.max {
		if !errors.Is(q.failed, ErrLate) {
			q.failed = errors.Join(q.failed, ErrLate)
		}
		return ErrLate
	}
	q.items = append(q.items, e)
	q.came++
	q.start()
	return nil
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
			e := q.items[0]
			q.items = q.items[1:]
			err := q.hand(e.item)
			q.delivered++
			if r := e.receipt; r != nil && !r.left {
				r.err = err
			} else {
				q.failed = errors.Join(q.failed, err)
			}
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

// Wait waits until the item was delivered, and all before it. It returns the item's error
// and those of which nobody was told yet; or [ErrLate] after that time, or the cause of
// ctx. Then the item's error is told to the next that waits.
func (r *Receipt[T]) Wait(ctx context.Context, timeout time.Duration) error {
	q := r.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.wait(ctx, r.n, timeout); err != nil {
		r.left = true
		return err
	}
	return errors.Join(r.err, q.pendingErr())
}

// Flush waits, as [Receipt.Wait] does, until all items so far were delivered. It returns
// the errors of those for which nobody waits.
func (q *Queue[T]) Flush(ctx context.Context, timeout time.Duration) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.wait(ctx, q.came, timeout); err != nil {
		return err
	}
	return q.pendingErr()
}

// wait waits until n items were delivered.
func (q *Queue[T]) wait(ctx context.Context, n int, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, ErrLate)
	defer cancel()
	return q.await(ctx, func() bool { return q.delivered >= n })
}

// pendingErr returns the errors of which nobody was told yet.
func (q *Queue[T]) pendingErr() error {
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
