package shell

import (
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed-64a260eb/cofferdam/truncate"
)

// A Filter makes a writer through which a stream passes on its way to w. The writer is
// closed when the stream's command has ended.
type Filter func(w io.Writer) io.WriteCloser

// A Sink takes what a command prints to one stream.
type Sink struct {
	Came int64           // the number of bytes that were written to this sink
	Kept truncate.Buffer // the head and the tail; while it is written to, see Snapshot
	// Text takes what is kept too, whole. If nil, nothing does.
	Text io.Writer

	filter io.WriteCloser // takes what comes in place of the rest; nil if there is none
	failed error          // the filter's
	relay  *relay         // to the caller's writer; nil if there is none
	// room is how many more bytes may come before full is called; full is nil if that
	// does not matter.
	room *atomic.Int64
	full func()

	keeping sync.Mutex // of Kept and failed
}

// Snapshot returns what is kept so far. It may be called while the sink is written to.
func (k *Sink) Snapshot() []byte {
	k.keeping.Lock()
	defer k.keeping.Unlock()
	return k.Kept.Bytes()
}

// NewSink returns a sink that keeps limit bytes, and hands the stream on to text and w if
// they are not nil. The stream is to be written to in, which passes it through the
// filter; in is out if filter is nil.
func NewSink(filter Filter, limit int, text, w io.Writer) (in, out *Sink) {
	out = &Sink{Kept: truncate.Buffer{Limit: limit}, Text: text}
	if w != nil {
		out.relay = newRelay(w)
	}
	if filter == nil {
		return out, out
	}
	return &Sink{filter: filter(out), relay: out.relay}, out
}

// Limit makes the sink call full when more bytes came than room has. Two sinks may share
// the room.
func (k *Sink) Limit(room *atomic.Int64, full func()) { k.room, k.full = room, full }

func (k *Sink) Write(p []byte) (int, error) {
	k.Came += int64(len(p))
	if k.full != nil && k.room.Add(-int64(len(p))) < 0 {
		k.full()
	}
	if k.filter != nil {
		if k.Failed() == nil {
			_, err := k.filter.Write(p)
			k.fail(err)
		}
		return len(p), nil
	}
	k.keeping.Lock()
	k.Kept.Write(p)
	k.keeping.Unlock()
	if k.Text != nil {
		k.Text.Write(p)
	}
	if k.relay != nil {
		k.relay.Write(p)
	}
	return len(p), nil
}

// Taken returns what is kept. Nothing may be written, nor taken once more.
func (k *Sink) Taken() []byte {
	b := &k.Kept
	head, tail := b.Head(), b.Tail()
	// A large output keeps the buffer's own memory, in which both lie.
	if 2*(len(head)+len(tail)) > cap(head) {
		return slices.Clip(append(head, tail...))
	}
	return b.Bytes()
}

// free makes the stream wait for the caller's writer no more.
func (k *Sink) free() {
	if k.relay != nil {
		k.relay.free()
	}
}

// Close makes the filter pass on what it holds. Nothing may be written any more.
func (k *Sink) Close() {
	if k.filter == nil {
		return
	}
	if k.relay != nil {
		k.relay.rest()
	}
	k.fail(k.filter.Close())
}

// Waits reports whether Finish may wait.
func (k *Sink) Waits() bool { return k.relay != nil }

// Finish closes the sink, and waits until the caller's writer has taken the rest or the
// deadline is closed. It returns the writer's error.
func (k *Sink) Finish(deadline <-chan struct{}) error {
	k.Close()
	if k.relay == nil {
		return nil
	}
	return k.relay.finish(deadline)
}

// Failed returns the filter's error. It may be called while the sink is written to.
func (k *Sink) Failed() error {
	k.keeping.Lock()
	defer k.keeping.Unlock()
	return k.failed
}

func (k *Sink) fail(err error) {
	k.keeping.Lock()
	defer k.keeping.Unlock()
	if k.failed == nil {
		k.failed = err
	}
}

// Words closes in, through which the stream came, and returns what was kept of it as
// text, or why none of it may be shown.
func (k *Sink) Words(in *Sink) string {
	if in.Close(); in.Failed() != nil {
		return in.Failed().Error()
	}
	return strings.TrimSpace(string(k.Kept.Bytes()))
}
