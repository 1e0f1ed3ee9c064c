package shell

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// A gatedWriter takes nothing until it is opened.
type gatedWriter struct {
	gate chan struct{}
	got  bytes.Buffer
}

func (w *gatedWriter) Write(p []byte) (int, error) {
	<-w.gate
	return w.got.Write(p)
}

// What a writer gets of a command that was ended is the beginning of its stream, without
// a gap.
func TestNothingComesAfterAGap(t *testing.T) {
	w := &gatedWriter{gate: make(chan struct{})}
	r := newRelay(w)
	first := []byte(strings.Repeat("a", relayBuffer/2))
	r.Write(first)
	r.free()
	for range 8 {
		r.Write([]byte(strings.Repeat("b", relayBuffer/2)))
	}
	close(w.gate)
	for len(r.taken()) > 0 {
		runtime.Gosched() // until there is room
	}
	r.rest()
	r.Write([]byte("c"))
	assert.NilError(t, r.finish(nil))
	got := w.got.String()
	assert.Assert(t, strings.HasPrefix(got, string(first)))
	assert.Assert(t, len(got) < 4*relayBuffer && !strings.Contains(got, "c"), "%d bytes", len(got))
}

// taken returns what the relay holds.
func (r *relay) taken() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf
}

// A writer that is too slow for a command which has ended by itself is told of, and one
// that is too slow for a command which was ended is not.
func TestWriterIsGivenUp(t *testing.T) {
	for _, freed := range []bool{false, true} {
		for _, hurried := range []bool{false, true} {
			w := &gatedWriter{gate: make(chan struct{})}
			r := newRelay(w)
			r.Write([]byte("a"))
			if freed {
				r.free()
			}
			if hurried {
				r.hurry() // its process has ended since
			}
			over := make(chan struct{})
			close(over)
			err := r.finish(over)
			assert.Equal(t, err != nil, !freed, "%v", err)
			close(w.gate)
		}
	}
}
