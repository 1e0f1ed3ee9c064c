// Package shell talks with the supervisor that package shellwire describes, and so with
// the worker shell behind it: it runs one unit after another, hands out what each prints,
// ends those that have to end, and ends the process.
//
//   - conn.go has the Conn, and how it begins.
//   - worker.go replaces the worker when it has ended, and setup.go gives a new one its
//     environment and directory.
//   - exchange.go runs one unit and enforces its deadline, by the steps of escalation.go.
//   - queue.go writes operations. What is urgent overtakes what waits.
//   - stream.go reads the two outputs, and hands what belongs to a unit to its sinks.
//   - sink.go counts and keeps bytes, and relay.go passes them on to a caller's writer.
//   - alive.go ends the process when the link with it is silent.
//   - serial.go makes one caller at a time of two.
//   - output.go takes what one command prints, and job.go runs a command beside units.
//   - end.go ends the process, and cause.go finds out why it has ended.
package shell

import (
	"context"
	"io"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/random"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/internal/turn"
)

// Options say what a Conn talks to.
type Options struct {
	Name           string
	Stdin          io.WriteCloser
	Stdout, Stderr io.ReadCloser
	// Blocks is for writing to the supervisor's descriptor 3; nil if it has none.
	Blocks *os.File
	// Done is closed when the process has ended.
	Done <-chan struct{}
	// Kill ends what the process started, by force, and returns when nothing is left or
	// when ctx ends. It is called also after the process has ended. It may be nil.
	Kill func(ctx context.Context) error
	// ExitCode returns the process's exit status once Done is closed, -1 if it has none.
	ExitCode func() int
	// Diagnose says why a process ended of which nothing was heard. It may be nil.
	Diagnose func(exitCode int, stderr []byte) error
	// EndTold is how long the exit status and OOMKilled may need, if that is more than it
	// seems.
	EndTold time.Duration
	// OOMKilled tells whether the kernel has ended processes for memory since then. It
	// may be nil.
	OOMKilled func(ctx context.Context, since time.Time) (killed, known bool)
	// Setup is what the supervisor is told first, but for its prefix, which is drawn.
	Setup shellwire.Setup
	// TerminationTimeout is how long it may take to end a unit or the process.
	TerminationTimeout time.Duration
	// KeepAlive is after how long a silent link ends the process, from either end of it,
	// in whole seconds; if zero, never.
	KeepAlive time.Duration

	// Abrupt reports whether a cause that ends a unit ends the process at once.
	Abrupt func(cause error) bool
	// Redact returns a text that has no secrets.
	Redact func(text string) string
	// Stepped is told each step of an escalation, with the cause. It must not wait.
	Stepped func(step Step, cause error)
	// Ended is told how each attempt to end the process has ended. It must not wait.
	Ended func(err error)
	// Finished is called when the process has ended and its end was seen to.
	Finished func()

	// Place is that of each worker. The caller may add to its Env.
	Place Place
	// Answered is called when a worker has been put in a place. It may be nil.
	Answered func()
	// Renew gives a worker that has replaced another what is not a part of its Place.
	Renew func(ctx context.Context, deadline, endBy time.Time) error
	// Startup prepares a worker that is in its Place. It is done by the time by, unless
	// that is zero. An exchange that has to be ended has been by endBy.
	Startup func(ctx context.Context, by, endBy time.Time) error
	// Escalated is told how a worker was set up.
	Escalated func(Reply)
}

// A Conn is one process with a supervisor in it, and what the host knows of its worker
// shell. The exported fields, and the methods that talk to the worker, are for whoever
// has the session's turn.
type Conn struct {
	// Filter is what words between units pass on their way into an error; nil if there is
	// none. SetFilter sets it.
	Filter Filter
	// Dead says that the worker has ended and was not replaced.
	Dead bool
	// UnreportedLoss says that a worker has ended, and no result has said so.
	UnreportedLoss bool
	// OOMKills is how many processes the kernel has killed for memory so far; -1 if it
	// does not tell.
	OOMKills int
	// Background is how many bytes came while no unit ran.
	Background int64

	opts    Options
	queue   *queue
	streams [2]*stream                // stdout and stderr
	exited  chan struct{}             // closed when process and streams have ended
	heard   atomic.Int64              // UnixNano of the last exchange's end, if any
	asked   atomic.Pointer[time.Time] // when the supervisor was sent
	took    atomic.Int64              // how long its first answer took, if that has come
	tag     string                    // of the next unit
	marks   marks                     // of the exchange that is under way
	ops     []Op                      // room for what that sends
	// deadline and tick are timers of that exchange.
	deadline, tick *time.Timer
	beating        *time.Timer   // sends beats
	silent         chan struct{} // closed when the link was found silent
	worker         int           // its generation
	prepared       bool          // what Startup does was done in it
	dir            atomic.Pointer[string]
	// One job at a time has its keeper started, and one asks for what process 1 has to
	// look at each process for: all that stands before the end of its stdin.
	starting, asking turn.Turn

	ticked    atomic.Int64 // when the last Tick was sent, from epoch
	ending    turn.Turn
	endBegun  chan struct{}           // closed when the end begins
	cleanedUp chan struct{}           // closed when the end was seen to
	lastEnd   atomic.Pointer[attempt] // of those to end it, once one is over
	diagnosis error                   // why it ended unheard; set before lastEnd
	forced    atomic.Bool             // its lifeline did not end it
	why       cause                   // it has ended
}

// New returns a Conn to a process that waits for a supervisor. Start and then Supervise
// have to be called next.
func New(opts Options) *Conn {
	c := &Conn{
		opts:      opts,
		exited:    make(chan struct{}),
		endBegun:  make(chan struct{}),
		cleanedUp: make(chan struct{}),
		silent:    make(chan struct{}),
		why:       cause{known: make(chan struct{})},
		worker:    1, OOMKills: -1, starting: turn.New(1), asking: turn.New(1), ending: turn.New(1),
		marks: marks{events: make(chan event, 8), enough: make(chan struct{}, 1)},
		// Nobody receives from them before they are set.
		deadline: time.NewTimer(math.MaxInt64),
		tick:     time.NewTimer(math.MaxInt64),
	}
	c.deadline.Stop()
	c.tick.Stop()
	c.ticked.Store(int64(time.Since(epoch)))
	c.beating = time.AfterFunc(math.MaxInt64, c.beat)
	prefix, lead := random.Fresh(), random.Token()[:4]
	c.queue = newQueue(opts.Stdin, opts.Blocks, prefix, lead)
	heard := func(generation int) { c.queue.sendUrgent(shellwire.Heard(generation)) }
	c.streams = [2]*stream{newStream(opts.Stdout, prefix, true, heard), newStream(opts.Stderr, prefix, false, nil)}
	c.opts.Setup.Prefix, c.opts.Setup.Lead, c.opts.Setup.KeepAlive = prefix, lead, c.opts.KeepAlive
	return c
}

// SetFilter sets the Filter for the words that come from now on. Those that came since
// the last unit have not passed it, and are forgotten, as they are when the next one
// begins.
func (c *Conn) SetFilter(filter Filter) {
	c.Filter = filter
	for _, s := range c.streams {
		s.setFilter(filter)
	}
}

// Start begins to read what the process says, and sees to its end.
func (c *Conn) Start() { go c.await() }

// Supervise sends the supervisor.
func (c *Conn) Supervise() {
	now := time.Now()
	c.asked.Store(&now)
	c.queue.send(Op{Data: c.opts.Setup.Text(), Raw: true, bare: true}, c.name())
	if c.opts.KeepAlive > 0 {
		c.beating.Reset(c.opts.KeepAlive / 3)
	}
}

// await sees to the end when the process has ended by itself.
func (c *Conn) await() {
	<-c.opts.Done
	read := make(chan struct{})
	go c.closeLate(read)
	for _, s := range c.streams {
		s.flow()
		<-s.eof
	}
	close(read)
	byItself := !c.why.asked.Load()
	close(c.exited)
	go c.learn(byItself)
	c.End(c.opts.TerminationTimeout)
	c.opts.Finished()
}

// closeLate closes the streams some time after the process has ended, unless all has been
// read by then: a program that the ended one left behind may hold them open. Where a
// stream waits for a caller's writer, and not for such a program, there may be more to
// read, and at last it waits no longer.
func (c *Conn) closeLate(read <-chan struct{}) {
	ended := time.Now()
	hurry := max(lifelineGrace, c.opts.TerminationTimeout/2)
	for pause := lifelineGrace; ; pause = lifelineGrace / 10 {
		select {
		case <-read:
			return
		case <-time.After(pause):
		}
		since := time.Since(ended)
		last := since >= hurry+lifelineGrace
		for _, s := range c.streams {
			if since >= hurry {
				s.hurry()
			}
			if waits := s.waits.Load(); last || waits != 0 && time.Since(epoch)-time.Duration(waits) >= lifelineGrace/10 {
				s.r.Close()
			}
		}
		if last {
			return
		}
	}
}

// Exited returns a channel that is closed when the process and its streams have ended.
func (c *Conn) Exited() <-chan struct{} { return c.exited }

func (c *Conn) hasExited() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

// CleanedUp returns a channel that is closed when the end of the process was seen to.
func (c *Conn) CleanedUp() <-chan struct{} { return c.cleanedUp }

// Words returns what the process said before anything was heard of its supervisor.
func (c *Conn) Words() []byte {
	if words := c.streams[1].firstWords(); len(words) > 0 {
		return words
	}
	return c.streams[0].firstWords()
}

// Thaw lets go on what was stopped for a unit. It is sent also if units are withdrawn.
func (c *Conn) Thaw() { c.queue.send(Op{Data: []byte(shellwire.Thaw), stays: true}) }

// Unit returns the operations that run a script.
func Unit(script string) []Op { return []Op{{Data: shellwire.Unit{Script: script}.Ops(), Unit: true}} }

// name draws the tag of the next unit, and returns what tells it.
func (c *Conn) name() Op {
	// The supervisor reads it a byte at a time. Of 65 bits nobody guesses one in time,
	// and there is a new one for each unit.
	c.tag = random.Token()[:13]
	return Op{Data: shellwire.Next(c.tag), stays: true}
}

// Look returns how many processes inside the kernel has killed for memory, or -1 if that
// can't be learnt, and whether the last kill left nothing behind. The reply also has the
// counts of what the container has used. The answer comes after all that was sent
// before has had its effect. If none comes, the container has been ended by endBy, unless
// that is zero.
func (c *Conn) Look(ctx context.Context, endBy time.Time) (oomKills int, gone bool, r Reply) {
	grace := min(workerGrace, c.opts.TerminationTimeout/4)
	if !endBy.IsZero() {
		grace = min(grace, time.Until(endBy)/2)
	}
	return c.look(&exchange{ctx: ctx, mustEndBy: endBy}, time.Now().Add(grace))
}

// Ask is Look for what has ended by itself, and may have left something running. If no
// answer comes by a time, Ask has ended nothing, and the reply has a Cause. If the
// process ends meanwhile, endBy bounds how long that is seen to, unless it is zero.
func (c *Conn) Ask(ctx context.Context, by, endBy time.Time) (oomKills int, r Reply) {
	oomKills, _, r = c.look(&exchange{ctx: ctx, mustEndBy: endBy, asks: true}, by)
	return oomKills, r
}

// look runs an exchange that looks.
func (c *Conn) look(x *exchange, deadline time.Time) (oomKills int, gone bool, r Reply) {
	var out, errOut Sink // of background jobs
	x.c, x.out, x.errOut, x.canceled, x.marks = c, &out, &errOut, x.ctx.Done(), &c.marks
	r = x.run(deadline, []Op{{Data: []byte(shellwire.Look)}})
	c.Background += out.Came + errOut.Came
	if r.Cause != nil || r.Lost {
		return -1, false, r
	}
	count, rest, _ := strings.Cut(r.Mark.Dir, " ")
	walk, counts, _ := strings.Cut(rest, " ")
	if end := strings.LastIndexByte(counts, ' '); end >= 0 {
		r.Counts, r.Begins = counts[:end], counts[end:] == " 1"
	}
	return shellwire.ParseCount(count), walk == "1", r
}
