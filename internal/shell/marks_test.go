package shell

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

// A flood is a stream of one text over and over. It ends behind most bytes.
type flood struct {
	text string
	most int64
	read atomic.Int64
}

func (f *flood) Read(p []byte) (int, error) {
	if f.read.Load() >= f.most {
		return 0, io.EOF
	}
	n := copy(p, strings.Repeat(f.text, len(p)/len(f.text)+1))
	f.read.Add(int64(n))
	return n, nil
}

func (f *flood) Close() error { return nil }

// Between commands a stream is read no faster if it has nothing but marks.
func TestFloodOfMarksIsHeldBack(t *testing.T) {
	for _, text := range []string{"y\n", "KEYbX\n", "KEYi\n", "KEYx7 \n"} {
		synctest.Test(t, func(t *testing.T) {
			const pauses = 10
			f := &flood{text: text, most: 4 * pauses * (idleBytes + readBuffer)}
			s := newStream(f, "KEY", false, nil)
			time.Sleep(pauses*idlePause - 1)
			synctest.Wait()
			assert.Check(t, f.read.Load() <= pauses*(idleBytes+readBuffer), "%d bytes of %q", f.read.Load(), text)
			s.flow()
			<-s.eof
		})
	}
}

// A command can't print marks without a limit. Its own do not count, nor do those that
// the host asks for.
func TestStreamCountsMarks(t *testing.T) {
	const limit, many = 1000, 2 * ownMarks / len("KEYbX\n")
	deep := strings.Repeat("/é", 3900/2)
	for _, c := range []struct {
		name, text string
		stdout     bool
		number     int
		asked      int
		want       int
	}{
		{"its end", "KEYeTAG 0 " + deep + "KEY\n", true, 1, 0, 0},
		{"its end on stderr", "KEYeTAG\n", false, 1, 0, 0},
		{"others", "KEYbX\n", true, many, 0, many*len("KEYbX\n") - ownMarks},
		{"others on stderr", "KEYbX\n", false, many, 0, many*len("KEYbX\n") - ownMarks},
		{"its begin", "KEYbTAG\n", true, many, 0, many*len("KEYbTAG\n") - ownMarks},
		{"beats", "KEYi\n", false, many, 0, many*len("KEYi\n") - ownMarks},
		{"beats that were asked for", "KEYi\n", false, many, many, 0},
	} {
		full, cancel := context.WithCancel(t.Context())
		out := NewOutput(OutputOptions{MaxBytes: 10, Limit: limit, Full: cancel})
		r, w := io.Pipe()
		s := newStream(r, "KEY", c.stdout, nil)
		s.begin("TAG", 1, false, true, out.Stdout, &marks{events: make(chan event, 8), enough: make(chan struct{}, 1)})
		io.WriteString(w, "KEYbTAG\n")
		s.spare.Add(int64(c.asked * askedMark))
		for range c.number {
			io.WriteString(w, c.text)
		}
		w.Close()
		<-s.eof
		s.end(nil)
		assert.Equal(t, out.Came(), int64(c.want), c.name)
		assert.Equal(t, full.Err() != nil, c.want > limit, c.name)
		cancel()
		out.Drop()
	}
}

// What is asked of process 1 while a command runs is answered by marks.
func TestAskedMarksDoNotCount(t *testing.T) {
	enginetest.Beside(t)
	c := connect(t, nil)
	c.opts.KeepAlive = time.Hour
	before := c.streams[1].spare.Load()
	c.beat()
	assert.Equal(t, c.streams[1].spare.Load(), before+askedMark)
	before = c.streams[0].spare.Load()
	c.streams[0].expect("nonce")
	assert.Equal(t, c.streams[0].spare.Load(), before+askedMark)
}

// So it is with a job. Nobody who waits for it is woken by marks that say nothing.
func TestJobCountsMarks(t *testing.T) {
	enginetest.Beside(t)
	c := connect(t, nil)
	full, cancel := context.WithCancelCause(t.Context())
	errFull := errors.New("full")
	out := NewOutput(OutputOptions{MaxBytes: 10, Limit: 1000, Full: func() { cancel(errFull) }})
	j := begunJob(c, out)
	changed := j.changed
	prefix := c.opts.Setup.Prefix
	mark := prefix + "bX\n"
	number := int(ownMarks/len(mark) + 1)
	r, w := io.Pipe()
	go j.read(0, r)
	io.WriteString(w, strings.Repeat(mark, number))
	w.Write(nil) // nobody takes that before all else was parsed
	assert.NilError(t, full.Err())
	select {
	case <-changed:
		t.Error("it wakes who waits")
	default:
	}
	io.WriteString(w, strings.Repeat(mark, 1000/len(mark)+1))
	<-full.Done()
	assert.Equal(t, context.Cause(full), errFull)
	io.WriteString(w, prefix+"eTAG 3 "+prefix+"\n")
	w.Close()
	j.reading.Wait()
	m, _ := j.last()
	assert.Equal(t, m.Status, 3)
	out.Drop()
}

// What the last mark adds is counted before anybody is told of the end.
func TestLastMarkOfAJobCounts(t *testing.T) {
	enginetest.Beside(t)
	c := connect(t, nil)
	var j *Job
	ended := true
	out := NewOutput(OutputOptions{MaxBytes: 10, Limit: 1, Full: func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		ended = j.ended[0]
	}})
	j = begunJob(c, out)
	j.spare[0].Store(0)
	prefix := c.opts.Setup.Prefix
	j.read(0, io.NopCloser(strings.NewReader(prefix+"eTAG 3 "+prefix+"\n")))
	assert.Assert(t, !ended)
	m, _ := j.last()
	assert.Equal(t, m.Status, 3)
	out.Drop()
}

// begunJob returns a job whose command has begun, and whose stdout is about to be read.
func begunJob(c *Conn, out Output) *Job {
	j := &Job{c: c, sinks: [2]*Sink{out.Stdout, out.Stderr}, changed: make(chan struct{})}
	j.opts.Job.Tag = "TAG"
	for i := range 2 {
		j.wordsIn[i], j.words[i] = NewSink(nil, WordsKept, nil, nil)
		j.spare[i].Store(ownMarks)
		j.begun[i] = true
	}
	j.reading.Add(1)
	return j
}
