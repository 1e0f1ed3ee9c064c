// Package shared looks for something once, on behalf of all who want it.
package shared

import (
	"context"
	"fmt"
	"sync"
)

// A Value is what a function finds. Whoever asks first has it looked for, and the others
// wait for the same search. What is found is remembered; an error is not, so that the
// next who asks starts another search. The methods may be called at the same time.
type Value[T any] struct {
	what string
	find func(context.Context) (T, error)

	mu     sync.Mutex
	found  bool
	value  T
	search *search[T] // nil if nobody looks
}

// A search is one call of the function.
type search[T any] struct {
	done  chan struct{} // closed when the rest is known
	value T
	err   error
}

// New returns the value that find finds. what names it in the error of somebody who no
// longer waits for it.
func New[T any](what string, find func(context.Context) (T, error)) *Value[T] {
	return &Value[T]{what: what, find: find}
}

// Get returns the value, or the error of the search. If ctx ends first, the error wraps
// its cause, and the search goes on for the others.
func (v *Value[T]) Get(ctx context.Context) (T, error) {
	v.mu.Lock()
	if v.found {
		defer v.mu.Unlock()
		return v.value, nil
	}
	s := v.search
	if s == nil {
		s = &search[T]{done: make(chan struct{})}
		v.search = s
		go v.run(context.WithoutCancel(ctx), s)
	}
	v.mu.Unlock()
	select {
	case <-s.done:
		return s.value, s.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("looking for %s: %w", v.what, context.Cause(ctx))
	}
}

func (v *Value[T]) run(ctx context.Context, s *search[T]) {
	s.value, s.err = v.find(ctx)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.value, v.found, v.search = s.value, s.err == nil, nil
	close(s.done)
}

// Forget makes the next Get start a search.
func (v *Value[T]) Forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.found = false
}
