package shell

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
)

// ErrTimeout is the cause of a unit that was ended at its deadline.
var ErrTimeout = fmt.Errorf("the deadline has passed: %w", context.DeadlineExceeded)

// causeOf returns why a caller's context has ended. One that a caller has been given may
// have come to a deadline of its own, which is not that of a unit.
func causeOf(ctx context.Context) error {
	cause := context.Cause(ctx)
	if cause == ErrTimeout {
		cause = fmt.Errorf("%w", cause)
	}
	return cause
}

const (
	// A tick keeps orphans from filling the process limit.
	firstTick = 100 * time.Millisecond
	lastTick  = time.Second
	// drained is how long a read waits only for a stream in which there was nothing.
	drained = 10 * time.Millisecond
)

// A Reply is how an exchange ended.
type Reply struct {
	Mark   shellwire.Mark
	Cause  error // why it was ended; nil if it ended by itself
	Step   Step
	Unsent bool  // it was ended before the supervisor had it
	Died   bool  // the worker ended
	Lost   bool  // the container ended
	EndErr error // what is not known to be gone
	Gone   bool  // nothing is left of it
	// EndBy is when the escalation must be done, if there was one, or the end of a lost
	// container.
	EndBy time.Time
	// OOMs is how many processes the kernel has killed for memory so far; -1 if that was
	// not looked up.
	OOMs int
	// Counts are what a look has told of the use of the container; empty if none did.
	Counts string
	// Begins says that process 1 had the last unit for a worker mark its begin, of its
	// own accord: a look has told so.
	Begins bool
}

// Run sends the operations of a unit and returns when it has ended, or was ended, with
// all that it started: at the deadline (the zero time is never), or when ctx ends. If
// endBy is not zero, it has been ended by then.
func (c *Conn) Run(ctx context.Context, deadline, endBy time.Time, ops []Op, out, errOut *Sink) Reply {
	r := c.Exchange(ctx, deadline, endBy, ops, out, errOut)
	if r.Cause == nil || r.Unsent || r.Lost || !c.opts.Setup.Namespace {
		return r
	}
	// The command has come to its end, but what it left behind may ignore a SIGTERM, and
	// the worker may have forked after a pass. Now that it waits, one pass is enough; but
	// what was killed takes a moment to die on a machine under load.
	for pause := time.Millisecond; ; pause = min(2*pause, lookAgain) {
		c.queue.sendUrgent(shellwire.Kill)
		n, gone, l := c.Look(context.WithoutCancel(ctx), r.EndBy)
		if n >= 0 {
			r.OOMs = n
		}
		if l.Counts != "" {
			r.Counts = l.Counts
		}
		r.Gone = gone
		r.Died = r.Died || l.Died
		if l.Lost {
			r.Lost, r.Step, r.EndErr, r.Gone = true, l.Step, l.EndErr, l.Gone
		}
		if gone || l.Lost || l.Cause != nil || time.Until(r.EndBy) < pause {
			return r
		}
		time.Sleep(pause)
	}
}

// Exchange is Run without the last pass: what the unit has started may live on. If endBy
// is not zero, it bounds the escalation.
func (c *Conn) Exchange(ctx context.Context, deadline, endBy time.Time, ops []Op, out, errOut *Sink) Reply {
	x := &exchange{c: c, ctx: ctx, out: out, errOut: errOut, mustEndBy: endBy, canceled: ctx.Done(), marks: &c.marks}
	return x.run(deadline, ops)
}

// run sends the operations and returns when they are over.
func (x *exchange) run(deadline time.Time, ops []Op) Reply {
	c := x.c
	x.OOMs = -1
	c.marks.clear()
	if !deadline.IsZero() {
		c.deadline.Reset(time.Until(deadline))
		defer c.deadline.Stop()
		x.timeout = c.deadline.C
	}
	x.begin(ops)
	x.await()
	x.end()
	if x.Cause == nil && (x.out.passed() || x.errOut.passed()) {
		// Select picks either of two that are ready, and what is held counts at the end.
		x.Cause = causeOf(x.ctx)
		x.bound()
	}
	return x.Reply
}

// An exchange is one that is under way.
type exchange struct {
	Reply
	c           *Conn
	ctx         context.Context
	out, errOut *Sink
	marks       *marks
	seen        [2]bool // the unit's last mark on each stream
	asks        bool    // it only asks, and ends nothing if there is no answer in time
	beside      bool    // a helper runs it beside the worker

	mustEndBy time.Time        // when it must have been ended
	timeout   <-chan time.Time // nil once it is to be ended
	canceled  <-chan struct{}  // nil once it is to be ended
	stepEnd   <-chan time.Time // the step has had its time
	// Until read, an operation that ends it may wait in the pipe after earlier ones.
	read time.Time
}

// begin sends the unit.
func (x *exchange) begin(unit []Op) {
	c := x.c
	ops := c.ops[:0]
	marked := len(unit) > 0 && unit[0].Marked
	fromMark := marked || c.streams[0].unclear() || c.streams[1].unclear()
	if fromMark && !marked {
		ops = append(ops, Op{Data: []byte(shellwire.BeginMark)})
	}
	ops = append(ops, unit...)
	// In a process group nobody else tells the end of a helper that was killed.
	x.beside = marked && c.opts.Setup.Namespace
	c.streams[0].begin(c.tag, c.worker, x.beside, fromMark, x.out, x.marks)
	c.streams[1].begin(c.tag, c.worker, x.beside, fromMark, x.errOut, x.marks)
	c.ops = append(ops, c.name())
	c.queue.send(c.ops...)
	clear(c.ops)
}

// end stops the exchange from taking output and marks.
func (x *exchange) end() {
	for _, s := range x.c.streams {
		x.c.Background += s.end(x.c.Filter)
	}
	if !x.Lost && !x.Unsent && (!x.Died || x.beside) {
		x.c.queue.arrived()
	}
	if !x.Lost && !(x.asks && x.Unsent) {
		x.c.heard.Store(time.Now().UnixNano())
		x.c.took.CompareAndSwap(0, int64(x.c.startTook()))
	}
}

// await returns when the unit has ended, or was ended.
func (x *exchange) await() {
	c := x.c
	pause := firstTick
	c.tick.Reset(pause)
	defer c.tick.Stop()
	for !x.Unsent {
		if x.Step == StepContainer {
			x.lose(time.Until(x.mustEndBy))
			return
		}
		select {
		case <-x.marks.enough:
			if x.done() {
				c.Dead = c.Dead || x.Died
				return
			}
		case <-c.exited:
			if x.done() && !x.Died {
				return
			}
			// Select picks either of two that are ready.
			if x.Cause == nil {
				x.Cause = causeOf(x.ctx)
			}
			x.bound()
			x.lose(time.Until(x.mustEndBy))
			return
		case <-c.silent:
			// What comes late may wait for a writer.
			x.free()
			x.bound()
			x.lose(time.Until(x.mustEndBy))
			return
		case <-x.timeout:
			x.stop(ErrTimeout)
		case <-x.canceled:
			x.stop(causeOf(x.ctx))
		case <-x.stepEnd:
			if !c.queue.idle() && time.Now().Before(x.read) {
				x.stepEnd = time.After(time.Millisecond)
			} else {
				x.escalate()
			}
		case <-c.tick.C:
			if c.queue.idle() {
				c.queue.sendUrgent(c.nextTick())
			}
			pause = min(2*pause, lastTick)
			c.tick.Reset(pause)
		}
	}
}

// nextTick returns what a tick sends. Process 1 takes a worker for lost that is missed at
// two of them: so each is sent when the worker's own word would have been read, and some
// time after the last. Several jobs have ticks, and a stream may wait for a writer.
func (c *Conn) nextTick() string {
	now, last := time.Since(epoch), c.ticked.Load()
	waits := time.Duration(c.streams[0].waits.Load())
	if waits == 0 || now-waits < drained || now-time.Duration(last) < firstTick ||
		!c.ticked.CompareAndSwap(last, int64(now)) {
		return shellwire.Reap
	}
	return shellwire.Tick
}

// done takes the marks that have come, and reports whether they end the unit.
func (x *exchange) done() bool {
	for len(x.marks.events) > 0 {
		ev := <-x.marks.events
		i := 1
		if ev.stdout {
			i = 0
		}
		death := ev.mark.Kind == shellwire.Death
		x.Died = x.Died || death
		if !death || !x.beside {
			// The end of a helper may be told twice, and then not as it was.
			if i == 0 && !x.seen[0] {
				x.Mark = ev.mark
			}
			x.seen[i] = true
		}
		// A worker that is being killed does not have the last word on its command.
		if x.seen[0] && x.seen[1] && (x.Step < StepShell || x.Died) {
			return true
		}
	}
	return false
}

// bound sets when the escalation must be done.
func (x *exchange) bound() {
	if by := time.Now().Add(x.c.opts.TerminationTimeout); x.mustEndBy.IsZero() || by.Before(x.mustEndBy) {
		x.mustEndBy = by
	}
	x.EndBy = x.mustEndBy
}

// stop begins to end the unit.
func (x *exchange) stop(cause error) {
	c := x.c
	x.Cause = cause
	if x.asks {
		c.queue.withdraw()
		x.Unsent = true
		return
	}
	x.bound()
	x.read = time.Now().Add(min(workerGrace, c.opts.TerminationTimeout/8))
	x.timeout, x.canceled = nil, nil
	// A stream that waits for a caller's writer would never come to the end mark.
	x.free()
	switch {
	case c.queue.withdraw():
		x.Unsent, x.Gone = true, true
	case c.opts.Abrupt(cause):
		x.Step = StepContainer
		c.opts.Stepped(x.Step, cause)
	default:
		x.escalate()
	}
}

// free makes the streams wait for the caller's writers no more.
func (x *exchange) free() {
	x.out.free()
	x.errOut.free()
}

// escalate takes the next step. It sends nothing for StepContainer: await then ends the
// container.
func (x *exchange) escalate() {
	c := x.c
	if x.Step = x.Step.next(c.opts.Setup.Namespace); !time.Now().Before(x.mustEndBy) {
		x.Step = StepContainer
	}
	switch x.Step {
	case StepTerm:
		c.queue.sendUrgent(shellwire.Terminate)
	case StepKill:
		c.queue.sendUrgent(shellwire.Kill)
	case StepShell:
		c.queue.sendUrgent(shellwire.KillWorker)
	}
	x.stepEnd = nil
	if grace := x.Step.grace(c.opts.Setup.Namespace, c.opts.TerminationTimeout); grace > 0 {
		// The steps that follow need their times too.
		x.stepEnd = time.After(min(grace, time.Until(x.mustEndBy)/4))
	}
	c.opts.Stepped(x.Step, x.Cause)
}

// lose sees to the end of the container under a unit.
func (x *exchange) lose(within time.Duration) {
	c := x.c
	x.Lost, c.Dead = true, true
	c.why.by(x.Cause)
	x.EndErr = c.End(within)
	x.Gone = x.EndErr == nil
	if x.Step == StepContainer && c.forced.Load() {
		x.Step = StepRemoval
	}
}
