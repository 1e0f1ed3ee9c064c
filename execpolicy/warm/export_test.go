package warm

import (
	"testing"
	"time"
)

// Early returns how many idle sessions have ended one after the other.
func Early(p *Pool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.early
}

// Paused reports whether the next start waits for the end of a pause.
func Paused(p *Pool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pause != nil
}

// Lull makes the pause before an idle session is replaced last so long during a test.
func Lull(t *testing.T, d time.Duration) {
	was := lull
	lull = d
	t.Cleanup(func() { lull = was })
}
