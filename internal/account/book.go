package account

import (
	"sync"

	"github.com/seed-64a260eb/cofferdam/internal/turn"
)

// A Book keeps the accounts of users with names, by what their numbers depend on.
type Book struct {
	mu    sync.Mutex
	byKey map[string]Account

	// Turn is that of whoever looks one up.
	Turn turn.Turn
}

// NewBook returns a book that is empty.
func NewBook() *Book {
	return &Book{byKey: map[string]Account{}, Turn: turn.New(1)}
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
