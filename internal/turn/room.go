package turn

import (
	"sync"
	"time"
)

// A Room has places, which are taken and given back, and whose end can be waited for.
type Room struct {
	// Places is how many there are.
	Places int

	mu    sync.Mutex
	taken int
	empty chan struct{} // closed when none is taken any more; nil if nobody waits
}

// Take takes a place, and reports whether there was one.
func (r *Room) Take() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken == r.Places {
		return false
	}
	r.taken++
	return true
}

// Give gives a place back.
func (r *Room) Give() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken--; r.taken == 0 && r.empty != nil {
		close(r.empty)
		r.empty = nil
	}
}

// Wait waits until no place is taken, or the time is over.
func (r *Room) Wait(timeout time.Duration) {
	r.mu.Lock()
	if r.taken == 0 {
		r.mu.Unlock()
		return
	}
	if r.empty == nil {
		r.empty = make(chan struct{})
	}
	empty := r.empty
	r.mu.Unlock()
	select {
	case <-empty:
	case <-time.After(timeout):
	}
}
