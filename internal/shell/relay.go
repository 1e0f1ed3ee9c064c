package shell

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// A relay stands between a stream and a caller's writer, which may be slow or stuck: it
// holds a bounded part of what came, makes the stream wait for more than that, and can be
// left behind.
type relay struct {
	mu      sync.Mutex
	changed sync.Cond
	buf     []byte
	last    bool // what a sink or a filter held comes, and is taken whole
	ended   bool // nothing more comes
	freed   bool // the stream waits for room no more
	hurried bool // it was freed though the library has ended nothing
	cut     bool // something did not fit; all that comes later is dropped too
	writing bool // the writer has what was taken out of buf
	gaveUp  bool // the writer is given up
	err     error
	done    chan struct{}
}

// relayBuffer is as much as a pipe holds.
const relayBuffer = 64 << 10

func newRelay(w io.Writer) *relay {
	r := &relay{done: make(chan struct{})}
	r.changed.L = &r.mu
	go r.loop(w)
	return r
}

// Write waits for room. It takes everything, also what is not wanted any more.
func (r *relay) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		for len(r.buf) >= relayBuffer && !r.gaveUp && !r.freed && !r.last {
			r.changed.Wait()
		}
		r.cut = r.cut || len(r.buf) >= relayBuffer && !r.last
		if r.gaveUp || r.cut {
			break
		}
		part := p
		if !r.last {
			part = p[:min(len(p), relayBuffer-len(r.buf))]
		}
		r.buf = append(r.buf, part...)
		p = p[len(part):]
		r.changed.Broadcast()
	}
	return n, nil
}

// free makes the stream wait for the writer no more: its end has to be seen. What the
// relay holds still goes to the writer, up to the first byte that finds no room.
func (r *relay) free() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.freed = true
	r.changed.Broadcast()
}

// hurry is free for what ends by itself: that the writer gets less is an error. What the
// library has ended before stays so.
func (r *relay) hurry() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.freed {
		r.freed, r.hurried = true, true
		r.changed.Broadcast()
	}
}

// rest makes the relay take what comes now whole: what a sink or a filter holds is
// bounded, and nobody is to wait for the writer to take it.
func (r *relay) rest() {
	r.mu.Lock()
	r.last = true
	r.mu.Unlock()
}

// errGivenUp is the error of a writer that had not taken everything some time after its
// command had ended by itself.
var errGivenUp = fmt.Errorf("the writer did not take it in time: %w", os.ErrDeadlineExceeded)

// finish waits until the writer has taken everything, and returns its error. At the
// deadline the writer is given up.
func (r *relay) finish(deadline <-chan struct{}) error {
	r.mu.Lock()
	r.ended = true
	r.changed.Broadcast()
	r.mu.Unlock()
	late := false
	select {
	case <-r.done:
	case <-deadline:
		late = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	late = late && (len(r.buf) > 0 || r.writing)
	if r.err == nil && (late && !r.freed || r.hurried && (late || r.cut)) {
		r.err = errGivenUp
	}
	r.gaveUp = true
	r.changed.Broadcast()
	return r.err
}

func (r *relay) loop(w io.Writer) {
	defer close(r.done)
	var spare []byte
	for {
		r.mu.Lock()
		for len(r.buf) == 0 && !r.ended && !r.gaveUp {
			r.changed.Wait()
		}
		if r.gaveUp || len(r.buf) == 0 {
			r.mu.Unlock()
			return
		}
		data := r.buf
		r.buf, r.writing = spare[:0], true
		r.changed.Broadcast()
		r.mu.Unlock()

		n, err := w.Write(data)
		if err == nil && n < len(data) {
			err = io.ErrShortWrite
		}
		spare = data
		r.mu.Lock()
		if r.writing = false; err != nil {
			r.err, r.gaveUp = err, true
			r.changed.Broadcast()
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
	}
}
