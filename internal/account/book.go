package account

import (
	"context"
	"sync"
)

// A Book keeps the accounts of users with names, by what their numbers depend on.
type Book struct {
	mu    sync.Mutex
	byKey map[string]Account
	turn  chan struct{} // held by whoever looks one up
}

// NewBook returns a book that is empty.
func NewBook() *Book {
	return &Book{byKey: map[string]Account{}, turn: make(chan struct{}, 1)}
}

// Known returns an account that was looked up.
func (b *Book) Known(key string) (a Account, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, ok = b.byKey[key]
	return a, ok
}

// Add keeps an account.
func (b *Book) Add(key string, a Account) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.byKey[key] = a
}

// Lock waits until nobody else looks an account up, and returns what lets the next do so;
// or the cause of ctx.
func (b *Book) Lock(ctx context.Context) (unlock func(), err error) {
	select {
	case b.turn <- struct{}{}:
		return func() { <-b.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
