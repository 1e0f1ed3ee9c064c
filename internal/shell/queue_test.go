package shell

import (
	"os"
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
