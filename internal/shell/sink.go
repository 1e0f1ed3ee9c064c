package shell

import (
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/truncate"
)

// A Filter makes a writer through which a stream passes on its way to w. The writer is
// closed when the stream's command has ended.
type Filter func(w io.Writer) io.WriteCloser

// A Sink takes what a command prints to one stream.
type Sink struct {
	Came int64           // the number of bytes that were written to this sink
	Kept truncate.Buffer // the head and the tail; while it is written to, see Look
	// Text takes what is kept too, whole. If nil, nothing does.
	Text io.Writer

	filter io.WriteCloser // takes what comes in place of the rest; nil if there is none
	failed error          // the filter's
	relay  *relay         // to the caller's writer; nil if there is none
	// room is how many more bytes may come before full is called; full is nil if that
	// does not matter.
	room *atomic.Int64
	full func()

	marks *shellwire.Parser // takes marks out of what comes; nil if there are none
	held  []byte            // the end of what came, where a mark may begin
	spare atomic.Int64      // how many bytes of those marks may come that do not count

	keeping sync.Mutex // of Kept and failed
}

// Look calls look with what is kept so far. It may be called while the sink is written
// to.
func (k *Sink) Look(look func(kept *truncate.Buffer)) {
	k.keeping.Lock()
	defer k.keeping.Unlock()
	look(&k.Kept)
}

// NewSink returns a sink that keeps limit bytes, and hands the stream on to text and w if
// they are not nil. The stream is to be written to in, which passes it through the
// filter; in is out if filter is nil.
func NewSink(filter Filter, limit int, text, w io.Writer) (in, out *Sink) {
	out = new(Sink)
	return out.open(filter, limit, text, w), out
}

// open makes a sink the out of NewSink, and returns the in.
func (k *Sink) open(filter Filter, limit int, text, w io.Writer) (in *Sink) {
	k.Kept.Limit, k.Text = limit, text
	if w != nil {
		k.relay = newRelay(w)
	}
	if filter == nil {
		return k
	}
	return &Sink{filter: filter(k), relay: k.relay}
}

// Limit makes the sink call full when more bytes came than room has. Two sinks may share
// the room.
func (k *Sink) Limit(room *atomic.Int64, full func()) { k.room, k.full = room, full }

// passed reports whether more came than the limit. Then full was called, if nothing is
// being written.
func (k *Sink) passed() bool { return k.room != nil && k.room.Load() < 0 }

// freeMarks is how many bytes of marks count as no output: one that a pipe takes whole.
const freeMarks = 4 << 10

// TakeOut makes the sink take marks with that prefix out of what comes, and hand take
// what stands in an end mark in place of a directory. Marks are not kept. More than one
// needs are counted as output, or a command could print marks without a limit. What may
// begin a mark is held back until more comes, at the latest until the exchange is over.
func (k *Sink) TakeOut(prefix string, take func(text string)) {
	k.spare.Store(freeMarks)
	k.marks = &shellwire.Parser{Prefix: prefix, Stdout: true, Output: k.write, Mark: func(m shellwire.Mark) {
		k.countMark(k.marks.Size, &k.spare)
		if m.Kind == shellwire.End {
			take(m.Dir)
		}
	}}
}

func (k *Sink) Write(p []byte) (int, error) {
	if k.marks == nil {
		k.write(p)
		return len(p), nil
	}
	data := p
	if len(k.held) > 0 {
		data = append(k.held, p...)
	}
	// What is held is at the end of data, which may be its own memory.
	n := k.marks.Parse(data)
	k.held = append(k.held[:0], data[len(data)-n:]...)
	return len(p), nil
}

// flush takes what is held as output, without waiting for the caller's writer.
func (k *Sink) flush() {
	if len(k.held) == 0 {
		return
	}
	if k.relay != nil {
		k.relay.rest()
	}
	k.marks.Flush(k.held)
	k.held = nil
}

// count counts so many bytes as output.
func (k *Sink) count(n int64) {
	k.Came += n
	if k.full != nil && k.room.Add(-n) < 0 {
		k.full()
	}
}

// countMark counts a mark of n bytes as output, but for what is left to spare.
func (k *Sink) countMark(n int, spare *atomic.Int64) {
	if left := spare.Add(-int64(n)); left < 0 {
		spare.Add(-left)
		k.count(-left)
	}
}

func (k *Sink) write(p []byte) {
	k.count(int64(len(p)))
	if k.filter != nil {
		if k.Failed() == nil {
			_, err := k.filter.Write(p)
			k.fail(err)
		}
		return
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

// hurry is free for what ends by itself.
func (k *Sink) hurry() {
	if k.relay != nil {
		k.relay.hurry()
	}
}

// Close makes the filter pass on what it holds. Nothing may be written any more.
func (k *Sink) Close() {
	k.flush()
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

// Finish closes the sink, and finishes it.
func (k *Sink) Finish(deadline <-chan struct{}) error {
	k.Close()
	return k.finish(deadline)
}

// finish waits until the caller's writer has taken the rest or the deadline is closed. It
// returns the writer's error. The sink must be closed.
func (k *Sink) finish(deadline <-chan struct{}) error {
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
