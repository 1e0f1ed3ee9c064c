package shell

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/truncate"
)

// A stream reads one of a process's two outputs to its end, and hands what belongs to a
// command to the command's sink.
type stream struct {
	stdout bool
	r      io.ReadCloser
	parser shellwire.Parser
	wake   chan struct{}         // a command begins, or the end is near
	eof    chan struct{}         // closed at the end of the stream
	free   atomic.Bool           // read at full speed, whatever comes
	waits  atomic.Int64          // since when a read waits, from epoch; 0 if none does
	spare  atomic.Int64          // how many bytes of marks may come that are no output
	relay  atomic.Pointer[relay] // the sink's, for who has not mu; nil if it has none

	mu     sync.Mutex
	tag    string // of the command that is under way, if any
	worker int    // the generation of the last command's
	beside bool   // it is not the worker's, whose end does not end it
	open   bool   // what comes is its output
	behind bool   // its begin mark has not come, and has to
	began  bool   // its begin mark has come
	sink   *Sink  // takes what it prints
	marks  *marks // takes those that end it
	// words are the first that came before any mark: an engine's, if it failed.
	words  truncate.Buffer
	marked bool
	death  shellwire.Mark // the last worker's that ended
	// onDeath, if not nil, is called with the generation of each worker that has ended,
	// and must not wait.
	onDeath func(generation int)
	// last takes what comes on stderr while no command runs: an engine's words, if that
	// ends the session, or a background job's. It is nil if nothing came since the last
	// command; lastIn is where it passes filter first, and lastWords what was kept of it
	// at the end.
	last, lastIn *Sink
	filter       Filter
	lastWords    string
	idle         int   // bytes since the last command, also of marks
	dropped      int64 // bytes of output since the last command

	// answers is of what is below: mu is held while a caller's writer is waited for.
	answers sync.Mutex
	nonce   string              // of the answer that is expected
	answer  chan shellwire.Mark // takes it
}

// An event is a mark that ended a command, and where it was seen.
type event struct {
	mark   shellwire.Mark
	stdout bool
}

// marks takes the events of one command from both streams. An exchange that waits for
// both marks of a unit is not woken for the first, unless the worker has died: that would
// only hold up the second.
type marks struct {
	events chan event
	came   atomic.Int32
	enough chan struct{}
}

// clear forgets what came for the exchange before. None comes for that any more.
func (m *marks) clear() {
	m.came.Store(0)
	for len(m.events) > 0 {
		<-m.events
	}
	select {
	case <-m.enough:
	default:
	}
}

const (
	// readBuffer is what docker's client writes at a time. One that is larger costs a
	// tenth of the throughput: what is read has left the processor's cache before it is
	// looked at.
	readBuffer = 32 << 10
	// Between commands a stream is read at no more than idleBytes each idlePause: a
	// background job that floods is held back by the pipe and costs nothing, and the end
	// of the session is still seen.
	idleBytes = 64 << 10
	idlePause = 100 * time.Millisecond
	// A command may print marks as it may print all else, so those that exceed ownMarks
	// count as output. That is one of the longest, and some that are short: those of a
	// command, and what comes late of the one before. What the host asks for while a
	// command runs adds askedMark.
	ownMarks  = 20 << 10
	askedMark = 256
	// WordsKept is how many bytes an error shows of what a program said.
	WordsKept = 4 << 10
)

func newStream(r io.ReadCloser, prefix string, stdout bool, onDeath func(generation int)) *stream {
	s := &stream{
		stdout:  stdout,
		r:       r,
		wake:    make(chan struct{}, 1),
		eof:     make(chan struct{}),
		words:   truncate.Buffer{Limit: WordsKept},
		onDeath: onDeath,
	}
	s.parser = shellwire.Parser{Prefix: prefix, Stdout: stdout, Output: s.output, Mark: s.mark}
	go s.loop()
	return s
}

func (s *stream) loop() {
	defer close(s.eof)
	defer s.r.Close()
	buf := make([]byte, readBuffer)
	held := 0
	for {
		s.waits.Store(int64(time.Since(epoch)))
		n, err := s.r.Read(buf[held:])
		s.waits.Store(0)
		s.mu.Lock()
		data := buf[:held+n]
		held = s.parser.Parse(data)
		copy(buf, data[len(data)-held:])
		if err != nil {
			s.parser.Flush(buf[:held])
			s.lastWords = s.endLast()
		}
		pause := false
		if s.tag == "" {
			if s.idle += n; s.idle > idleBytes {
				pause, s.idle = true, 0
			}
		}
		s.mu.Unlock()
		if err != nil {
			return
		}
		if pause && !s.free.Load() {
			select {
			case <-s.wake:
			case <-time.After(idlePause):
			}
		}
	}
}

// poke wakes who waits for c now or next. It never waits itself.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// unclear reports whether what comes next may not be the next command's: something came
// that no command printed, or nothing came yet, or the last command never began.
func (s *stream) unclear() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped > 0 || !s.marked || s.behind
}

// begin makes the stream hand the output of the command with that tag to the sink, from
// now or from the command's begin mark, and the marks that end it to marks.
func (s *stream) begin(tag string, worker int, beside, fromMark bool, sink *Sink, marks *marks) {
	s.mu.Lock()
	s.tag, s.worker, s.beside, s.sink, s.marks, s.idle = tag, worker, beside, sink, marks, 0
	s.open, s.behind, s.began = !fromMark, fromMark, false
	s.parser.Tag = tag
	s.spare.Store(ownMarks)
	s.relay.Store(sink.relay)
	s.endLast()
	s.mu.Unlock()
	poke(s.wake)
}

// end makes the stream hand nothing more to the sink, and returns how many bytes were
// dropped since the last call. What is kept of those that come next passes the filter, if
// there is one.
func (s *stream) end(filter Filter) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filter = filter
	if s.sink != nil {
		s.sink.flush()
	}
	s.relay.Store(nil)
	s.tag, s.open, s.sink, s.marks = "", false, nil, nil
	n := s.dropped
	s.dropped = 0
	return n
}

// setFilter forgets the words between commands, and sets what those that come next pass.
func (s *stream) setFilter(filter Filter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLast()
	s.filter = filter
}

// hurry makes the stream wait for a caller's writer no more, though its command has not
// been ended.
func (s *stream) hurry() {
	if r := s.relay.Load(); r != nil {
		r.hurry()
	}
}

// flow makes the stream read to its end at full speed.
func (s *stream) flow() {
	s.free.Store(true)
	poke(s.wake)
}

func (s *stream) output(b []byte) {
	switch {
	case s.open:
		s.sink.Write(b)
	case !s.marked:
		s.words.Write(b)
	default:
		s.dropped += int64(len(b))
		if !s.stdout {
			if s.last == nil {
				s.lastIn, s.last = NewSink(s.filter, WordsKept, nil, nil)
			}
			s.lastIn.Write(b)
		}
	}
}

func (s *stream) mark(m shellwire.Mark) {
	if s.open {
		s.sink.countMark(s.parser.Size, &s.spare)
	}
	if m.Kind == shellwire.Beating {
		return
	}
	s.marked = true
	switch m.Kind {
	case shellwire.Begin:
		if m.Tag == s.tag && s.tag != "" {
			s.open, s.behind, s.began = true, false, true
		}
		return
	case shellwire.End:
		if m.Tag != s.tag || !s.open {
			return
		}
		s.open = false
	case shellwire.Answer:
		s.answered(m)
		return
	case shellwire.Death:
		// A worker that was replaced may be said to have ended once more.
		if m.Generation != s.worker {
			return
		}
		s.open = s.open && s.beside
		if s.death.Generation != m.Generation && s.onDeath != nil {
			s.onDeath(m.Generation)
		}
		s.death = m
	}
	if s.marks == nil {
		return
	}
	// Nothing is ever made to wait here.
	select {
	case s.marks.events <- event{m, s.stdout}:
	default:
	}
	if s.marks.came.Add(1) > 1 || m.Kind == shellwire.Death {
		poke(s.marks.enough)
	}
}

// expect returns what takes the answer with that nonce. Only one is expected at a time.
func (s *stream) expect(nonce string) <-chan shellwire.Mark {
	s.answers.Lock()
	defer s.answers.Unlock()
	s.nonce, s.answer = nonce, make(chan shellwire.Mark, 1)
	s.spare.Add(askedMark)
	return s.answer
}

func (s *stream) answered(m shellwire.Mark) {
	s.answers.Lock()
	defer s.answers.Unlock()
	if m.Tag == s.nonce && s.nonce != "" {
		s.nonce = ""
		s.answer <- m
	}
}

// firstWords returns what came before any mark.
func (s *stream) firstWords() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.words.Bytes()
}

// endLast ends what takes the words between commands, and returns what it has.
func (s *stream) endLast() (words string) {
	if s.last != nil {
		words = s.last.Words(s.lastIn)
		s.last = nil
	}
	return words
}

// died reports whether the worker of a generation has ended.
func (s *stream) died(generation int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.death.Generation == generation
}

// unrun reports whether process 1 has said that the worker of a generation had ended
// before a unit came.
func (s *stream) unrun(generation int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.death.Generation == generation && s.death.NotRun
}

// lastBegin reports whether the begin mark of the last command has come, and whether it
// has not and had to.
func (s *stream) lastBegin() (came, missed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.began, s.behind
}

// begun reports whether any mark was seen: the command inside has started.
func (s *stream) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.marked
}
