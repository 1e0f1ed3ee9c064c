package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/policyerr"
	"github.com/seed-64a260eb/cofferdam/internal/random"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/internal/turn"
)

// JobOptions say what a job is.
type JobOptions struct {
	// Job is the job, but for its Prefix and its Tag.
	Job shellwire.Job
	// Stdin, Stdout and Stderr are our ends of its keeper's streams.
	Stdin          io.WriteCloser
	Stdout, Stderr io.ReadCloser
	// Inside is the keeper's command line, if the supervisor has to start it.
	Inside []string
	// Filter is what the keeper's words pass on their way into an error; nil if there is
	// none.
	Filter Filter
	// Out and ErrOut take what the job prints.
	Out, ErrOut *Sink
	// Ending reports whether a cause that ends a job ends the process too.
	Ending func(cause error) bool
}

// A Job is a command that runs beside the worker.
type Job struct {
	// OOMsBefore is how many processes the kernel had killed for memory when the job
	// began, -1 if that is not known.
	OOMsBefore int

	c     *Conn
	opts  JobOptions
	name  string
	sinks [2]*Sink

	mu      sync.Mutex
	changed chan struct{} // closed, and made anew, when something below changes
	sent    bool          // process 1 was told to start the keeper
	pid     int           // the keeper's, once it has said it
	begun   [2]bool
	ended   [2]bool
	eof     [2]bool
	mark    shellwire.Mark // that of the end on stdout
	nonce   string         // of the operation that is waited for
	answer  shellwire.Mark // the one with that nonce, if its Kind is set
	// words have what came before the command began, and wordsIn are where that passes
	// the filter first.
	words, wordsIn [2]*Sink
	// spare is how many bytes of marks may come that are no output.
	spare [2]atomic.Int64

	asking  turn.Turn       // one operation at a time
	dying   context.Context // ends when the job is to be ended
	die     context.CancelCauseFunc
	reading sync.WaitGroup // of the streams
}

var (
	// ErrNoDir and ErrNoFile say why a job did not begin.
	ErrNoDir  = errors.New("the directory of a job can't be entered")
	ErrNoFile = errors.New("a file for a job can't be made")
	// ErrNoKeeper says that the shell which was to run a job has ended, or is being
	// ended.
	ErrNoKeeper = errors.New("the shell for a job has ended")
	// ErrUnheard is ErrNoKeeper for a shell that had said nothing, and that the
	// supervisor had not been asked to start. It was told no command.
	ErrUnheard = fmt.Errorf("%w before it was heard", ErrNoKeeper)
)

const (
	// askAgain is when an operation whose answer did not come is sent once more: what
	// answers may have been killed, or there was no room for it.
	askAgain = time.Second
	jobTick  = time.Second
	// carrierGrace is what the engine's client of a job may take to end.
	carrierGrace = 1500 * time.Millisecond
)

// StartJob starts a job, and returns when its command begins, or an error that says why
// it did not. Then nothing of it is left, unless the error says so; what is returned is
// only good for Drained. ctx bounds the start.
func (c *Conn) StartJob(ctx context.Context, opts JobOptions) (*Job, error) {
	j := &Job{
		OOMsBefore: -1, c: c, opts: opts, name: random.Token()[:13],
		sinks: [2]*Sink{opts.Out, opts.ErrOut}, changed: make(chan struct{}), asking: turn.New(1),
	}
	j.dying, j.die = context.WithCancelCause(context.Background())
	j.reading.Add(2)
	j.opts.Job.Prefix, j.opts.Job.Tag = c.opts.Setup.Prefix, random.Token()[:13]
	for i, r := range []io.ReadCloser{opts.Stdout, opts.Stderr} {
		j.spare[i].Store(ownMarks)
		j.wordsIn[i], j.words[i] = NewSink(opts.Filter, WordsKept, nil, nil)
		go j.read(i, r)
	}
	err := j.start(ctx)
	if err == nil {
		return j, nil
	}
	if j.known() && !errors.Is(err, ErrNoDir) && !errors.Is(err, ErrNoFile) {
		until := time.Now().Add(c.opts.TerminationTimeout)
		j.free()
		there, gone := j.killAll(j.killBy(until))
		switch {
		case !there:
			err = errors.Join(ErrEarly, err, c.End(time.Until(until)))
		case !gone:
			err = errors.Join(err, j.stillThere())
		}
	}
	j.release()
	return j, err
}

func (j *Job) start(ctx context.Context) error {
	written := j.write(j.opts.Job.Keeper())
	if err := j.begin(ctx); err != nil {
		return err
	}
	if err := j.wait(ctx, written); err != nil {
		return err
	}
	// From now on what ends a command spares it.
	m, err := j.ask(ctx, func(nonce string) string { return shellwire.AdoptJob(j.name, j.pid, nonce) })
	if err != nil {
		return err
	}
	j.OOMsBefore = m.OOMKills
	written = j.write(j.opts.Job.Line())
	if err := j.await(ctx, nil, func() bool { return j.begun[0] && j.begun[1] || j.ended[0] }); err != nil {
		return err
	}
	j.mu.Lock()
	mark := j.mark
	j.mu.Unlock()
	switch {
	case mark.NoDir:
		return ErrNoDir
	case mark.NoFile:
		return ErrNoFile
	}
	return j.wait(ctx, written)
}

// write writes to the keeper's stdin. A keeper that is not there reads nothing, and one
// that was stopped no more: the channel's error may never come.
func (j *Job) write(p []byte) <-chan error {
	written := make(chan error, 1)
	go func() {
		_, err := j.opts.Stdin.Write(p)
		written <- err
	}()
	return written
}

// wait waits for a write. A mark that was forged may have come before it.
func (j *Job) wait(ctx context.Context, written <-chan error) error {
	select {
	case err := <-written:
		return err
	case <-j.c.exited:
		return ErrEarly
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin has the keeper started, and returns when it has said its number. Where there is
// no room for a process, process 1 tries for a while each time: so it is asked for one
// keeper at a time.
func (j *Job) begin(ctx context.Context) error {
	c := j.c
	start := func() {}
	if len(j.opts.Inside) > 0 {
		if err := c.starting.Take(ctx); err != nil {
			return err
		}
		defer c.starting.Give()
		j.mu.Lock()
		j.sent = true
		j.mu.Unlock()
		start = func() { c.queue.sendUrgent(shellwire.StartJob(j.name, j.opts.Inside)) }
	}
	start()
	err := j.await(ctx, start, func() bool { return j.pid > 0 })
	if !errors.Is(err, ErrUnheard) {
		return err
	}
	// Why stands on stderr, which may be read later than the end of stdout.
	late := time.After(askAgain)
	for {
		j.mu.Lock()
		over, changed := j.eof[1], j.changed
		j.mu.Unlock()
		if over {
			return j.early()
		}
		select {
		case <-changed:
		case <-late:
			return j.early()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// known reports whether process 1 may know the job.
func (j *Job) known() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.pid > 0 || j.sent
}

func (j *Job) read(i int, r io.ReadCloser) {
	p := shellwire.Parser{
		Prefix: j.c.opts.Setup.Prefix, Stdout: i == 0, Job: true,
		Output: func(b []byte) { j.output(i, b) },
	}
	p.Mark = func(m shellwire.Mark) {
		// Before anybody hears of the job's end, who then asks whether it has printed too
		// much.
		if j.open(i) {
			j.sinks[i].countMark(p.Size, &j.spare[i])
		}
		j.marked(i, m)
	}
	defer j.reading.Done()
	buf := make([]byte, readBuffer)
	held := 0
	for {
		n, err := r.Read(buf[held:])
		data := buf[:held+n]
		held = p.Parse(data)
		copy(buf, data[len(data)-held:])
		if err != nil {
			p.Flush(buf[:held])
			break
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.wordsIn[i].Close()
	j.eof[i] = true
	j.wake()
}

// wake wakes all that wait for a change. It is called with the lock.
func (j *Job) wake() {
	close(j.changed)
	j.changed = make(chan struct{})
}

func (j *Job) output(i int, b []byte) {
	j.mu.Lock()
	open := j.begun[i] && !j.ended[i]
	if !j.begun[i] {
		j.wordsIn[i].Write(b)
	}
	j.mu.Unlock()
	if open {
		j.sinks[i].Write(b)
	}
}

// marked takes a mark.
func (j *Job) marked(i int, m shellwire.Mark) {
	j.mu.Lock()
	defer j.mu.Unlock()
	tag := j.opts.Job.Tag
	pid, hasPID := strings.CutPrefix(m.Tag, tag+" ")
	switch {
	case m.Kind == shellwire.Begin && m.Tag == tag && !j.begun[i]:
		j.begun[i] = true
	case m.Kind == shellwire.Begin && hasPID && j.pid == 0:
		j.pid = max(0, shellwire.ParseCount(pid))
	case m.Kind == shellwire.End && m.Tag == tag && !j.ended[i]:
		j.ended[i] = true
		if i == 0 {
			j.mark = m
		}
	case m.Kind == shellwire.Answer && m.Tag == j.nonce && j.answer.Kind == 0:
		j.answer = m
	default:
		return
	}
	j.wake()
}

// open reports whether a stream is at the command's own output.
func (j *Job) open(i int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.begun[i] && !j.ended[i]
}

// await waits until met is true, which is called with the lock, and calls again in
// between. Its error is the cause of ctx, or says that the streams or the process have
// come to their ends.
func (j *Job) await(ctx context.Context, again func(), met func() bool) error {
	repeat := time.NewTicker(askAgain)
	defer repeat.Stop()
	for {
		j.mu.Lock()
		done, over, changed := met(), j.eof[0], j.changed
		j.mu.Unlock()
		switch {
		case done:
			return nil
		case over:
			return j.early()
		}
		select {
		case <-changed:
		case <-repeat.C:
			if again != nil {
				again()
			}
		case <-j.c.exited:
			return ErrEarly
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// early returns why a job's keeper ended before its command began.
func (j *Job) early() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	why := ErrNoKeeper
	if j.pid == 0 && !j.sent {
		why = ErrUnheard
	}
	words := j.words[1].Kept.Bytes()
	if len(words) == 0 {
		words = j.words[0].Kept.Bytes()
	}
	if text := strings.TrimSpace(string(words)); text != "" {
		return fmt.Errorf("%w: %s", why, text)
	}
	return why
}

// ask sends an operation, and again, until its answer comes.
func (j *Job) ask(ctx context.Context, op func(nonce string) string) (shellwire.Mark, error) {
	if err := j.asking.Take(ctx); err != nil {
		return shellwire.Mark{}, err
	}
	defer j.asking.Give()
	nonce := random.Token()
	j.mu.Lock()
	j.nonce, j.answer = nonce, shellwire.Mark{}
	j.mu.Unlock()
	for {
		m, err := j.askOnce(ctx, func() string { return op(nonce) })
		if m.Kind != 0 || err != context.DeadlineExceeded || ctx.Err() != nil {
			return m, err
		}
	}
}

// askOnce makes an operation and sends it, when the turn has come. Its error is
// DeadlineExceeded if the answer takes long.
func (j *Job) askOnce(ctx context.Context, op func() string) (shellwire.Mark, error) {
	if err := j.c.asking.Take(ctx); err != nil {
		return shellwire.Mark{}, err
	}
	defer j.c.asking.Give()
	ctx, cancel := context.WithTimeout(ctx, askAgain)
	defer cancel()
	j.spare[0].Add(askedMark)
	j.c.queue.sendUrgent(op())
	err := j.await(ctx, nil, func() bool { return j.answer.Kind != 0 })
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.answer.Kind != 0 {
		err = nil // it has come as the time was over
	}
	return j.answer, err
}

// Signal sends a signal, a name without SIG, to all that belongs to the job, and returns
// when that is done. What ends the job does not wait for it: then it is ErrNoKeeper.
func (j *Job) Signal(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, j.c.opts.TerminationTimeout)
	defer cancel()
	ctx, stop := bound.By(ctx, j.dying)
	defer stop(nil)
	_, err := j.ask(ctx, func(nonce string) string {
		op := shellwire.SignalJob(j.name, name, nonce)
		name = "0" // only the answer may be missing, and a program counts its signals
		return op
	})
	return err
}

// terminate sends SIGTERM. It does not wait long for the answer, for which there may be
// no room, nor for other jobs that are being ended: it must leave time to kill.
func (j *Job) terminate() {
	ctx, cancel := context.WithTimeout(context.Background(), j.c.opts.TerminationTimeout/4)
	defer cancel()
	j.ask(ctx, func(nonce string) string {
		time.AfterFunc(StepTerm.grace(true, j.c.opts.TerminationTimeout), cancel)
		return shellwire.SignalJob(j.name, "TERM", nonce)
	})
}

// kill kills all that belongs to the job, again and again, and reports whether process 1
// has then found nothing of it.
func (j *Job) kill(until time.Time) bool {
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	for pause := time.Millisecond; ; pause = min(2*pause, lookAgain) {
		m, err := j.ask(ctx, func(nonce string) string { return shellwire.SignalJob(j.name, "KILL", nonce) })
		if err != nil {
			return false
		}
		if !m.Reached {
			return true
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false
		}
	}
}

func (j *Job) stillThere() error {
	return fmt.Errorf("%s: processes of the job: %w", j.c.opts.Name, policyerr.ErrStillThere)
}

// release gives the job up. Its streams are left to whoever has opened them.
func (j *Job) release() {
	j.die(ErrNoKeeper)
	j.c.queue.sendUrgent(shellwire.TendJob(j.name) + shellwire.EndJob(j.name))
}

// Run returns when the job has ended, or was ended: at the deadline, unless that is zero,
// or when ctx ends.
func (j *Job) Run(ctx context.Context, deadline time.Time) (r Reply) {
	c := j.c
	r.OOMs = -1
	defer j.release()
	var timeout <-chan time.Time
	if !deadline.IsZero() {
		t := time.NewTimer(time.Until(deadline))
		defer t.Stop()
		timeout = t.C
	}
	tick := time.NewTicker(jobTick)
	defer tick.Stop()
	ending := c.endBegun
	for {
		over, changed := j.over()
		if over && (j.sinks[0].passed() || j.sinks[1].passed()) {
			// Select picks either of two that are ready.
			j.end(&r, context.Cause(ctx))
			return r
		}
		if over {
			r.Mark, r.Died = j.last()
			if r.Died {
				// The engine's client may have ended, and not the keeper: nobody could
				// see or end the job any more.
				var there bool
				if there, r.Gone, r.OOMs = j.killRest(time.Now().Add(c.opts.TerminationTimeout)); !there {
					r.Cause = context.Cause(ctx)
					j.lose(&r)
				} else if !r.Gone {
					r.EndErr = j.stillThere()
				}
				return r
			}
			// A signal that has ended the job may not have been answered for yet.
			if j.asking.Take(ctx) == nil {
				j.asking.Give()
			}
			if r.Mark.Status == 128+9 {
				r.OOMs = j.countOOMs()
			}
			return r
		}
		select {
		case <-changed:
		case <-tick.C:
			if c.queue.idle() {
				c.queue.sendUrgent(c.nextTick() + shellwire.TendJob(j.name))
			}
		case <-ending:
			// Podman removes no container whose output nobody takes.
			j.free()
			ending = nil
		case <-c.exited:
			by := time.Now().Add(c.opts.TerminationTimeout)
			if !j.endedBefore(ctx) {
				r.Cause, r.EndBy = context.Cause(ctx), by
				j.lose(&r)
				return r
			}
		case <-c.silent:
			j.lose(&r)
			return r
		case <-timeout:
			j.end(&r, ErrTimeout)
			return r
		case <-ctx.Done():
			j.end(&r, context.Cause(ctx))
			return r
		}
	}
}

// over reports whether the command has ended, or nobody is left to say so; else it
// returns what is closed when that may have changed.
func (j *Job) over() (over bool, changed <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return (j.ended[0] || j.eof[0]) && (j.ended[1] || j.eof[1]), j.changed
}

// endedBefore reports whether the command has ended before the process, which has. What
// came of it may have to wait no more for the caller's writers, and be read first.
func (j *Job) endedBefore(ctx context.Context) bool {
	for _, k := range j.sinks {
		k.hurry()
	}
	late := time.After(min(lifelineGrace, j.c.opts.TerminationTimeout/4))
	for {
		over, changed := j.over()
		if over {
			j.mu.Lock()
			defer j.mu.Unlock()
			return j.ended[0] && j.ended[1]
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		case <-late:
			return false
		}
	}
}

// last returns the mark of the end. If there is none, the keeper was killed.
func (j *Job) last() (m shellwire.Mark, killed bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.ended[0] {
		return shellwire.Mark{Status: -1}, true
	}
	return j.mark, false
}

// killBy returns until when a job may be killed that must be over by then: who carries
// its streams has to end after that.
func (j *Job) killBy(endBy time.Time) time.Time {
	if len(j.opts.Inside) > 0 {
		return endBy // nobody does
	}
	return endBy.Add(-min(carrierGrace, j.c.opts.TerminationTimeout/4))
}

// killAll is kill, and killRest for a job on whose stdout no answer can come. If nothing
// has answered by then, all that is left is sent a SIGKILL all the same. there reports
// whether the process lives.
func (j *Job) killAll(until time.Time) (there, gone bool) {
	if j.kill(until) {
		return true, true
	}
	j.mu.Lock()
	deaf := j.eof[0]
	j.mu.Unlock()
	there = true
	if deaf {
		there, gone, _ = j.killRest(until)
	}
	if there && !gone {
		j.c.queue.sendUrgent(shellwire.SignalJob(j.name, "KILL", random.Token()))
	}
	// Over FIFOs the streams do not end with the process before it is cleared up.
	return there && !j.c.hasExited(), gone
}

// killRest kills what is left of a job that has ended without a word, again and again,
// and reports whether process 1 has then found nothing of it. The job may have ended with
// the process, whose end may show much later. there reports whether the process lives: it
// counts as one that does if by then process 1 has neither answered nor ended.
// ooms is how many processes the kernel has killed for memory, -1 if nobody tells.
func (j *Job) killRest(until time.Time) (there, gone bool, ooms int) {
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	ooms = -1
	for pause, wait := time.Millisecond, askAgain/4; ; pause, wait = min(2*pause, lookAgain), min(2*wait, askAgain) {
		m, err := j.killOnce(ctx, wait)
		switch {
		case err == ErrEarly:
			return false, false, ooms
		case err == nil && !m.Reached:
			return true, true, m.OOMKills
		case err == nil:
			ooms = m.OOMKills
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return true, false, ooms
		}
	}
}

// killOnce kills what is left of the job when the turn has come, and returns what process
// 1 says of it on the session's stdout. Its error is DeadlineExceeded if the answer takes
// longer than wait: other jobs have questions, too.
func (j *Job) killOnce(ctx context.Context, wait time.Duration) (m shellwire.Mark, err error) {
	c := j.c
	if err := c.asking.Take(ctx); err != nil {
		return m, err
	}
	defer c.asking.Give()
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	nonce := random.Token()
	answer := c.streams[0].expect(nonce)
	c.queue.sendUrgent(shellwire.SignalJob(j.name, "KILL", random.Token()) + shellwire.Ask(nonce))
	select {
	case m := <-answer:
		return m, nil
	case <-c.exited:
		return m, ErrEarly
	case <-ctx.Done():
		return m, ctx.Err()
	}
}

// countOOMs returns how many processes the kernel has killed for memory, -1 if nobody
// tells.
func (j *Job) countOOMs() int {
	ctx, cancel := context.WithTimeout(context.Background(), min(workerGrace, j.c.opts.TerminationTimeout/8))
	defer cancel()
	m, err := j.ask(ctx, func(nonce string) string { return shellwire.AdoptJob(j.name, j.pid, nonce) })
	if err != nil {
		return -1
	}
	return m.OOMKills
}

// end ends a job.
func (j *Job) end(r *Reply, cause error) {
	c := j.c
	r.Cause, r.EndBy = cause, time.Now().Add(c.opts.TerminationTimeout)
	j.die(ErrNoKeeper)
	j.free()
	if j.opts.Ending(cause) {
		r.Step = StepContainer
		j.lose(r)
		return
	}
	r.Step = StepTerm
	j.terminate()
	grace, cancel := context.WithTimeout(context.Background(), StepTerm.grace(true, c.opts.TerminationTimeout))
	defer cancel()
	if j.await(grace, nil, func() bool { return j.ended[0] && j.ended[1] }) != nil {
		r.Step = StepKill
	}
	there, gone := j.killAll(j.killBy(r.EndBy))
	r.Gone = gone
	rest, cancelRest := context.WithDeadline(context.Background(), r.EndBy)
	defer cancelRest()
	if r.Gone {
		// The keeper says so at once; the rest of the output comes before.
		j.await(rest, nil, func() bool { return j.ended[0] && j.ended[1] })
	}
	r.Mark, r.Died = j.last()
	switch {
	case !there || c.hasExited():
		j.lose(r)
	case !r.Gone:
		r.EndErr = j.stillThere()
	}
}

// free makes the streams wait for the caller's writers no more: they would never come to
// their ends.
func (j *Job) free() {
	for _, k := range j.sinks {
		k.free()
	}
}

// lose sees to the end of the process under the job.
func (j *Job) lose(r *Reply) {
	c := j.c
	j.free()
	r.Lost = true
	if r.EndBy.IsZero() {
		r.EndBy = time.Now().Add(c.opts.TerminationTimeout)
	}
	r.EndErr = c.End(time.Until(r.EndBy))
	r.Gone = r.EndErr == nil
	if r.Step == StepContainer && c.forced.Load() {
		r.Step = StepRemoval
	}
}

// Drained returns when nothing is written to the sinks any more. The streams must have
// been closed.
func (j *Job) Drained() {
	if over, _ := j.over(); !over {
		j.free() // what waits for a writer would not come to the end
	}
	j.reading.Wait()
}
