package shell

import (
	"fmt"
	"io"
	"runtime/debug"
	"sync"
)

// Serial returns the two writers, of which each may be nil. If they are one, it is never
// called by two at the same time, as with os/exec.
func Serial(a, b io.Writer) (io.Writer, io.Writer) {
	if !same(a, b) {
		return a, b
	}
	w := &locked{w: a}
	return w, w
}

type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// same reports whether two writers are one. Some can't be compared, and are not.
func same(a, b io.Writer) bool {
	defer func() { _ = recover() }()
	return a != nil && a == b
}

// InTurn returns a filter that is called once at a time: the words between units come on
// a goroutine of their own. If it or its writer panics, the program ends, whoever would
// recover: a session could not go on. It is nil if the filter is.
func (f Filter) InTurn() Filter {
	if f == nil {
		return nil
	}
	var mu sync.Mutex
	return func(w io.Writer) io.WriteCloser {
		mu.Lock()
		defer mu.Unlock()
		defer endAll()
		return &filtering{f(w)}
	}
}

// endAll ends the program if its caller panics.
func endAll() {
	if v := recover(); v != nil {
		go panic(fmt.Sprintf("%v, in a filter\n%s", v, debug.Stack()))
		select {}
	}
}

// filtering is a filter's writer, whose panics end the program.
type filtering struct{ w io.WriteCloser }

func (f *filtering) Write(p []byte) (int, error) {
	defer endAll()
	return f.w.Write(p)
}

func (f *filtering) Close() error {
	defer endAll()
	return f.w.Close()
}
