package shell

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
)

// A beat is to be answered in time also if it can't be written, since the link has broken
// under a large write. What has been answered for counts no more.
func TestBeatBehindALargeWrite(t *testing.T) {
	r, w, err := os.Pipe()
	assert.NilError(t, err)
	defer r.Close()
	defer w.Close()
	q := newQueue(w, nil, "", "")
	defer q.close()
	begin := time.Now()
	const seconds = 100
	q.send(Op{Data: make([]byte, seconds*slowest), Raw: true})
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.sending {
			return poll.Success()
		}
		return poll.Continue("it is being written")
	})
	q.sendBeat()
	at := q.unanswered(begin)
	assert.Assert(t, at.Sub(begin) >= seconds*time.Second, "%v", at.Sub(begin))
	// Nothing that comes before that time is its answer.
	assert.Equal(t, q.unanswered(time.Now()), at)

	q.arrived()
	at = q.unanswered(begin)
	assert.Assert(t, !at.IsZero() && !at.After(time.Now()), "%v", at.Sub(begin))
	assert.Assert(t, q.unanswered(time.Now().Add(1)).IsZero())
	q.sendBeat()
	assert.Assert(t, !q.unanswered(begin).After(time.Now()))
}

// A writes keeps each Write.
type writes struct {
	sync.Mutex
	all []string
}

func (w *writes) Write(b []byte) (int, error) {
	w.Lock()
	defer w.Unlock()
	w.all = append(w.all, string(b))
	return len(b), nil
}

// What went into a block is read, however full the write is that says so.
func TestBlockIsRead(t *testing.T) {
	for size := maxWrite - 100; size <= maxWrite; size++ {
		for _, tail := range []string{"", "h\n"} {
			var written []byte
			var blocks []string
			q := &queue{lead: "LEAD",
				now:   func(b []byte) int { written = append(written, b...); return len(b) },
				block: func(ops []byte) bool { blocks = append(blocks, string(ops)); return true },
			}
			q.changed.L = &q.mu
			unit := Op{Data: []byte("e'" + strings.Repeat(":", minBlock) + "'\n"), Unit: true}
			q.send(Op{Data: []byte(strings.Repeat("x", size)), Raw: true, Tail: tail}, unit, Op{Data: []byte("ntag\n"), stays: true})
			if len(blocks) == 0 {
				assert.Assert(t, len(q.waiting) > 0, "%d bytes: the unit is gone", size)
				continue
			}
			assert.DeepEqual(t, blocks, []string{string(unit.Data) + "ntag\n"})
			assert.Equal(t, strings.Count(string(written), "LEADx\n"), 1, "%d bytes", size)
			assert.Equal(t, len(q.waiting), 0)
		}
	}
}

// The supervisor counts the workers that it starts, and so does the host.
func TestNewWorkerIsNotTakenBack(t *testing.T) {
	q := &queue{sending: true}
	q.changed.L = &q.mu
	c := &Conn{queue: q}
	c.replace()
	q.send(Op{Data: []byte("e':'\n"), Unit: true})
	assert.Assert(t, q.withdraw())
	assert.Equal(t, len(q.waiting), 1)
	assert.Equal(t, string(q.waiting[0].Data), shellwire.StartWorker)
}

// Each line that has an operation begins with the lead, and nothing else does.
func TestLead(t *testing.T) {
	w := new(writes)
	q := newQueue(w, nil, "", "LEAD")
	defer q.close()
	idle := func() {
		poll.WaitOn(t, func(poll.LogT) poll.Result {
			if q.idle() {
				return poll.Success()
			}
			return poll.Continue("it is being written")
		})
	}
	long := strings.Repeat("x", 2*maxWrite)
	q.send(Op{Data: []byte("set\nup\n"), Raw: true, bare: true}, Op{Data: []byte(strings.Repeat("+\n", maxWrite))},
		Op{Data: []byte("d 0 4\na\nb\n"), Raw: true, Tail: "h\n"}, Op{Data: []byte("n\ny" + long + "\ng\n")})
	idle()
	for _, written := range w.all {
		assert.Assert(t, len(written) <= maxWrite || strings.Contains(written, long), "%d", len(written))
	}
	q.sendUrgent("kTERM\nw\n")
	idle()
	q.sendBeat()
	idle()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		w.Lock()
		defer w.Unlock()
		if strings.HasSuffix(w.all[len(w.all)-1], "i\n") {
			return poll.Success()
		}
		return poll.Continue("the beat is being written")
	})
	assert.Equal(t, strings.Join(w.all, ""), "set\nup\n"+strings.Repeat("LEAD+\n", maxWrite)+"LEADd 0 4\na\nb\nLEADh\n"+
		"LEADn\nLEADy"+long+"\nLEADg\n"+"LEADkTERM\nLEADw\n"+"LEADi\n")
}

// What is told twice of an end is what was told first.
func TestFirstEndCounts(t *testing.T) {
	x := &exchange{marks: &marks{events: make(chan event, 3)}}
	end := func(status int, stdout bool) {
		x.marks.events <- event{shellwire.Mark{Kind: shellwire.End, Status: status}, stdout}
	}
	end(0, true)
	end(137, true)
	assert.Assert(t, !x.done())
	end(137, false)
	assert.Assert(t, x.done())
	assert.Equal(t, x.Mark.Status, 0)
}
