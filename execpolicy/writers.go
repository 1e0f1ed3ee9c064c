package execpolicy

import (
	"io"
	"sync"
)

// locked is a writer that is shared.
type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// same reports whether two writers are one. Some can't be compared, and are not.
func same(a, b io.Writer) bool {
	defer func() { _ = recover() }()
	return a != nil && a == b
}
