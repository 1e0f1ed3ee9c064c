package shell

import (
	"bytes"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
)

// A queue writes operations to a supervisor. What is urgent overtakes what waits, but
// never splits an operation. Only start and loop write, one at a time.
type queue struct {
	mu      sync.Mutex // of all of this
	changed sync.Cond
	now     func([]byte) int  // writes as much as it can without waiting
	block   func([]byte) bool // makes a block of operations, if it can; may be nil
	lead    string            // begins each line that has an operation
	rest    []byte            // of what was written in part
	urgent  []byte
	waiting []Op
	batched []byte // has no use, and room for what a batch is written as
	sending bool
	closed  bool

	beat   bool      // one is to be written
	beatAt time.Time // when the first arrives that has no answer; zero if there is none
	// carried is when what loop has written has arrived, over the slowest link. What
	// start writes is too little to count.
	carried time.Time
}

// An Op is a run of operations for the supervisor, or one operation with the raw bytes
// that belong to it.
type Op struct {
	Data []byte
	// Raw says that the data must not be split: its first line has an operation, and what
	// comes after it is raw.
	Raw bool
	// Tail is what comes after the raw data, and must come: more operations.
	Tail string
	// Marked says that the unit marks its own begin.
	Marked bool
	// Unit says that the data may go by a block: see [shellwire.Block].
	Unit bool

	stays bool // also if others are withdrawn
	bare  bool // it is not for the supervisor's loop, and has no lead
}

// minBlock is the number of bytes for which the supervisor takes as long as for a block.
const minBlock = 32

// maxWrite is how much is written at a time, so that what is urgent waits for no more
// than that.
const maxWrite = 4 << 10

// newQueue returns the queue of a supervisor that has w for its stdin. Each operation has
// the lead before it. Blocks go to blocks, unless that is nil.
func newQueue(w io.Writer, blocks *os.File, prefix, lead string) *queue {
	q := &queue{now: writeNow(w), block: blockNow(blocks, prefix), lead: lead}
	q.changed.L = &q.mu
	go q.loop(w)
	return q
}

func (q *queue) send(items ...Op) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, items...)
	q.start()
}

// start writes what is short at once, which saves the time it takes to wake the loop, and
// leaves the rest to that.
func (q *queue) start() {
	for !q.sending && !q.closed && len(q.rest) == 0 && len(q.urgent) == 0 && len(q.waiting) > 0 {
		data, n, blocked := q.batch()
		written := 0
		if n > 0 {
			written = q.now(data)
		}
		if written == 0 && !blocked {
			break
		}
		q.waiting = slices.Delete(q.waiting, 0, n)
		if q.rest = data[written:]; len(q.rest) == 0 {
			q.batched = data[:0]
		}
	}
	if len(q.rest) > 0 || len(q.waiting) > 0 {
		q.changed.Broadcast()
	}
}

// batch returns what the first n that wait are written as, at most maxWrite bytes, and
// whether one of them is in a block by now: then they have to be written.
func (q *queue) batch() (data []byte, n int, blocked bool) {
	data, q.batched = q.batched, nil
	for ; n < len(q.waiting); n++ {
		op := q.waiting[n]
		if !blocked && op.Unit && len(op.Data) >= minBlock &&
			len(data)+q.size([]byte(shellwire.ReadBlock)) <= maxWrite && q.block != nil {
			ops, last := op.Data, n
			// The name of the next unit saves process 1 most if it is in the block, too.
			if n+1 < len(q.waiting) && q.waiting[n+1].stays {
				ops, last = slices.Concat(op.Data, q.waiting[n+1].Data), n+1
			}
			if q.block(ops) {
				op, n, blocked = Op{Data: []byte(shellwire.ReadBlock)}, last, true
			}
		}
		if len(data)+q.size(op.Data) > maxWrite {
			break
		}
		data = q.append(data, op)
	}
	return data, n, blocked
}

// size returns how much operations are as they are written.
func (q *queue) size(ops []byte) int { return len(ops) + bytes.Count(ops, []byte("\n"))*len(q.lead) }

// portion returns how many bytes of operations are written at a time: whole lines, of
// which the first may be longer than maxWrite.
func (q *queue) portion(ops []byte) int {
	n := bytes.IndexByte(ops, '\n') + 1
	for size := q.size(ops[:n]); n < len(ops); {
		next := bytes.IndexByte(ops[n:], '\n') + 1
		if size += next + len(q.lead); size > maxWrite {
			break
		}
		n += next
	}
	return n
}

// append appends an operation, or a run of them, as it is written.
func (q *queue) append(data []byte, op Op) []byte {
	switch {
	case op.bare:
		return append(data, op.Data...)
	case op.Raw:
		data = append(append(data, q.lead...), op.Data...)
		return q.appendLines(data, []byte(op.Tail))
	}
	return q.appendLines(data, op.Data)
}

func (q *queue) appendLines(data, ops []byte) []byte {
	for line := range bytes.Lines(ops) {
		data = append(append(data, q.lead...), line...)
	}
	return data
}

func (q *queue) sendUrgent(op string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.urgent = q.appendLines(q.urgent, []byte(op))
	q.changed.Broadcast()
}

// sendBeat writes a beat in front of all that waits, unless one waits to be written. A
// link that has broken under a large write never takes it: so it counts from now.
func (q *queue) sendBeat() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.beat = true
	if q.beatAt.IsZero() {
		q.carry(0)
		q.beatAt = q.carried
	}
	q.changed.Broadcast()
}

// unanswered returns since when a beat waits for its answer, the zero time if none does.
// Whatever was heard later answers it.
func (q *queue) unanswered(heard time.Time) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	if heard.After(q.beatAt) {
		q.beatAt = time.Time{}
	}
	return q.beatAt
}

// carry notes that so much is written from now on.
func (q *queue) carry(n int) {
	if now := time.Now(); q.carried.Before(now) {
		q.carried = now
	}
	q.carried = q.carried.Add(time.Duration(n) * time.Second / slowest)
}

// arrived notes that what was written has arrived: the answer to the last of it has come.
func (q *queue) arrived() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	if q.carried.After(now) {
		q.carried = now
	}
	if q.beatAt.After(now) {
		q.beatAt = now
	}
}

// withdraw takes back what waits and reports whether there was any: then the last
// operation was not sent.
func (q *queue) withdraw() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.waiting)
	q.waiting = slices.DeleteFunc(q.waiting, func(i Op) bool { return !i.stays })
	return len(q.waiting) < n
}

// idle reports whether all that was sent is with the supervisor's pipe.
func (q *queue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.sending && len(q.rest) == 0 && len(q.waiting) == 0 && len(q.urgent) == 0
}

// close ends the writing. It does not close the writer.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
}

func (q *queue) loop(w io.Writer) {
	for {
		data, ok := q.next()
		if !ok {
			return
		}
		if _, err := w.Write(data); err != nil {
			// The supervisor is gone, which its streams tell too.
			q.close()
		}
	}
}

// next returns what to write now.
func (q *queue) next() (data []byte, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer func() { q.carry(len(data)) }()
	q.sending = false
	for {
		switch {
		case q.closed:
			return nil, false
		case len(q.rest) > 0:
			data := q.rest
			q.rest = nil
			q.sending = true
			return data, true
		case q.beat:
			q.beat = false
			q.sending = true
			return q.appendLines(nil, []byte(shellwire.Beat)), true
		case len(q.urgent) > 0:
			data := q.urgent
			q.urgent = nil
			q.sending = true
			return data, true
		case len(q.waiting) > 0:
			q.sending = true
			first := &q.waiting[0]
			if ops := first.Data; !first.Raw && q.size(ops) > maxWrite {
				if n := q.portion(ops); n < len(ops) {
					first.Data = ops[n:]
					return q.appendLines(nil, ops[:n]), true
				}
			}
			data := q.append(nil, *first)
			*first = Op{} // it may be large
			q.waiting = q.waiting[1:]
			return data, true
		}
		q.changed.Wait()
	}
}
