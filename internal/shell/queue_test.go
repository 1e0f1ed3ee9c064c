package shell

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"
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
