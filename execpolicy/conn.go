package execpolicy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/ordered"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/truncate"
)

// A conn is one process with a supervisor in it, and what the host knows of its worker
// shell. Only the holder of the session's turn talks to the worker.
type conn struct {
	proc      *Process
	limits    Limits
	env       map[string]string
	startup   []string
	filter    func(io.Writer) io.WriteCloser       // of what commands print; nil if there is none
	approve   func(context.Context, Request) error // asked about commands; nil if nobody is
	prefix    string
	queue     *queue
	streams   [2]*stream    // stdout and stderr
	over      chan struct{} // closed when the process and its streams have ended
	ending    sync.Mutex
	ended     chan struct{}             // closed when the end was seen to
	lastEnd   atomic.Pointer[attempt]   // of those to end it, once one is over
	diagnosis error                     // why the process ended before anything was heard, in its policy's words; set before lastEnd
	forced    bool                      // its lifeline did not end it
	orderly   bool                      // something is done before it is closed
	life      context.Context           // ends with ErrExpired
	why       cause                     // it has ended
	heard     atomic.Pointer[time.Time] // the last time that it answered; nil if it has not
	audit     Auditor                   // nil if nobody wants records

	tag      string // of the next unit
	worker   int    // its generation
	dead     bool   // it has ended, and was not replaced
	raw      bool   // the startup scripts have not run in it
	unsaid   bool   // one before it was lost, and no result has said so
	dir      string // where it is
	oomKills int    // counted by the kernel so far, -1 if it does not tell
	late     int64  // bytes that came while no command ran and that no result has counted

	// Of what is under way, for its record.
	in, out  int64     // bytes
	left     time.Time // when the escalation must be done, if there was one
	recorded bool      // it has its record

	known atomic.Pointer[known]                                     // of all secrets that were ever given to the session; nil if there are none
	given []string                                                  // names of the session's own
	renew func(ctx context.Context, deadline, left time.Time) error // gives a new worker what its environment does not; nil if there is nothing
}

// A reply is how an exchange ended.
type reply struct {
	mark     shellwire.Mark
	cause    error // why it was ended; nil if it ended by itself
	step     Escalation
	unsent   bool      // it was ended before the supervisor had it
	died     bool      // the worker ended
	lost     bool      // the container ended
	endErr   error     // what is not known to be gone
	gone     bool      // nothing is left of it
	left     time.Time // when the escalation must be done, if there was one, or the end of a lost container
	oomAfter int       // -1 if it was not looked up
}

var errEarly = errors.New("the process ended before its shell answered")

// The steps of the escalation that ends a command wait this long, or less if
// [Limits.TerminationTimeout] is short.
const (
	// termGrace is for a program that cleans up on SIGTERM.
	termGrace = 250 * time.Millisecond
	// killGrace is for the walk over the processes: 512 of them take an eighth of a
	// second.
	killGrace = 250 * time.Millisecond
	// workerGrace and lifelineGrace are for a machine under load.
	workerGrace   = time.Second
	lifelineGrace = time.Second
	// A tick keeps orphans from filling the process limit.
	firstTick = 100 * time.Millisecond
	lastTick  = time.Second
)

// dial makes a supervisor of a process that waits for one. If it fails, the process has
// been ended.
func dial(ctx context.Context, proc *Process, spec Spec) (*conn, error) {
	c := &conn{
		proc:     proc,
		limits:   proc.Limits.withDefaults(),
		env:      map[string]string{},
		filter:   inTurn(spec.Filter),
		audit:    spec.Audit,
		orderly:  len(spec.Shutdown) > 0 || spec.Finish != nil,
		prefix:   token(),
		over:     make(chan struct{}),
		ended:    make(chan struct{}),
		why:      cause{known: make(chan struct{})},
		worker:   1,
		raw:      true,
		oomKills: -1,
	}
	maps.Copy(c.env, proc.Env)
	maps.Copy(c.env, spec.Env)
	c.streams = [2]*stream{newStream(proc.Stdout, c.prefix, true), newStream(proc.Stderr, c.prefix, false)}
	c.queue = newQueue(proc.Stdin)
	var expire context.CancelCauseFunc
	c.life, expire = context.WithCancelCause(context.Background())
	go func() {
		if c.limits.Lifetime > 0 {
			t := time.AfterFunc(c.limits.Lifetime, func() {
				expire(ErrExpired)
				c.end(c.limits.TerminationTimeout)
			})
			defer t.Stop()
		}
		<-proc.Done
		// A program that the ended one left behind may hold the streams open.
		late := time.AfterFunc(lifelineGrace, func() {
			for _, s := range c.streams {
				s.r.Close()
			}
		})
		for _, s := range c.streams {
			s.flow()
			<-s.eof
		}
		late.Stop()
		byItself := !c.why.asked.Load()
		close(c.over)
		go c.learn(byItself)
		c.end(c.limits.TerminationTimeout)
	}()
	setup := shellwire.Setup{
		Prefix: c.prefix, Dir: proc.Scratch, Namespace: proc.OwnPIDNamespace, Worker: proc.Worker, Name: proc.Name,
	}
	c.queue.send(item{data: setup.Text(), raw: true}, c.name())
	ctx, cancel := bound(ctx, c.life)
	defer cancel(nil)
	if err := c.handshake(ctx, after(c.limits.StartupTimeout), time.Time{}); err != nil {
		return nil, c.failed(err)
	}
	return c, nil
}

// prepare makes what answers a session's: with its secrets, Spec.Prepare, and the startup
// scripts. If it fails, the process has been ended.
func (c *conn) prepare(ctx context.Context, spec Spec, secrets SecretSet) error {
	ctx, cancel := bound(ctx, c.life)
	defer cancel(nil)
	var err error
	if secrets != nil {
		c.given = secrets.names()
	}
	if c.audit != nil {
		err = c.audit.await(ctx, c, EventStart, nil)
	}
	if err == nil && secrets != nil {
		err = secrets.open(ctx, c)
	}
	if err == nil && spec.Prepare != nil {
		err = c.lend(ctx, spec.Prepare, c.limits.StartupTimeout)
		c.raw = true
	}
	if err == nil {
		c.startup, c.approve = spec.Startup, spec.Approve
		err = c.ready(ctx, after(c.limits.StartupTimeout), time.Time{})
	}
	if err != nil {
		return c.failed(err)
	}
	return nil
}

// lend calls f with a session of its own around the conn, of which nothing is in use when
// it returns.
func (c *conn) lend(ctx context.Context, f func(context.Context, *Session) error, timeout time.Duration) error {
	if timeout >= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	s := newSession(nil, Spec{}, c)
	c.approve = nil // what f does is the caller's own
	returned := false
	defer func() {
		s.close(ErrClosed)
		s.turn <- struct{}{}
		if !returned {
			// A caller that recovers has no session to close.
			c.end(c.limits.TerminationTimeout)
		}
	}()
	err := f(ctx, s)
	returned = true
	return err
}

// failed ends a process that did not come up, and joins what is known of why.
func (c *conn) failed(err error) error {
	said := c.said()
	// An end that has had its time is tried again when the program has ended.
	endErr := c.endSince(time.Time{})
	// A program that ended by itself says why; one that was ended does not.
	if errors.Is(err, errEarly) && c.diagnosis != nil {
		err = c.diagnosis
	} else if len(said) > 0 {
		err = fmt.Errorf("%w; it said: %s", err, strings.TrimSpace(string(said)))
	}
	return errors.Join(fmt.Errorf("%w: %w", ErrStart, err), endErr)
}

// diagnose asks the policy why a process ended of which nothing was heard. The policy may
// end it the sooner for what it learns.
func (c *conn) diagnose() {
	select {
	case <-c.over:
		if c.diagnosis == nil && !c.streams[0].begun() && c.proc.Diagnose != nil {
			c.diagnosis = c.proc.Diagnose(c.proc.exitCode(), c.said())
		}
	default:
	}
}

// said returns the process's words before anything was heard of it.
func (c *conn) said() []byte {
	if said := c.streams[1].said(); len(said) > 0 {
		return said
	}
	return c.streams[0].said()
}

func (p *Process) exitCode() int {
	if p.ExitCode == nil {
		return -1
	}
	return p.ExitCode()
}

// handshake sets the worker's environment and directory.
func (c *conn) handshake(ctx context.Context, deadline, left time.Time) error {
	var script string
	if !c.proc.OwnPIDNamespace {
		// What ends a command there is a SIGTERM to the whole group, which the worker
		// outlives.
		script += "trap : TERM\n"
	} else {
		// When memory is short, the kernel takes what the commands started before process
		// 1, with which all would end.
		script += "{ echo 500 >/proc/$$/oom_score_adj; } 2>/dev/null\n"
		if c.worker == 1 {
			// What Look counts, without another round trip.
			script += "for cf_f in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do while read -r cf_k cf_v; do " +
				"case $cf_k in oom_kill) echo $cf_v ;; esac; done <$cf_f; done 2>/dev/null\nunset cf_f cf_k cf_v\n"
		}
	}
	for _, name := range ordered.Keys(c.env) {
		script += "export " + name + "=" + shellwire.Quote(c.env[name]) + "\n"
	}
	script += ":"
	if c.proc.Dir != "" {
		script += "\ncd -- " + shellwire.Quote(c.proc.Dir)
		if c.proc.DirWritable {
			script += " && { [ -w . ] || { echo 'the workspace can not be written to; if the image has a directory of its name, " +
				"runc before 1.1.8 gives it the mode of that' >&2; false; }; }"
		}
	}
	out := &sink{kept: truncate.Buffer{Limit: wordsKept}}
	in, errOut := newSink(c.filter, wordsKept, nil, nil)
	r := c.exchange(ctx, deadline, left, c.unit(script), out, in)
	said := errOut.said(in)
	switch {
	case r.cause == ErrTimeout:
		return fmt.Errorf("the worker shell did not answer in time; if the command is not a shell, it can't be a session's: %w", context.DeadlineExceeded)
	case r.cause != nil:
		return r.cause
	case r.lost:
		return fmt.Errorf("%w, with status %d", errEarly, c.proc.exitCode())
	case r.died:
		return fmt.Errorf("the worker shell ended with status %d (127: it is not there; 126: it can't be run) and said %q", r.mark.Status, said)
	case r.mark.Status != 0:
		return fmt.Errorf("the worker shell could not be set up: %s", said)
	}
	if c.proc.Answered != nil {
		c.proc.Answered()
	}
	c.dir = r.mark.Dir
	if c.worker == 1 {
		c.oomKills = parseCount(string(out.kept.Bytes()))
		return nil
	}
	// Earlier commands may have left jobs that print.
	c.late += out.came + in.came
	if c.proc.OwnPIDNamespace {
		c.oomKills, _, _ = c.look(context.WithoutCancel(ctx), time.Time{})
	}
	return nil
}

// ready replaces a worker that has ended, within the deadline and the time left to end
// one that does not answer, and runs the startup scripts for a new one: within the same,
// if there is a time left, and else each within its own.
func (c *conn) ready(ctx context.Context, deadline, left time.Time) error {
	if err := c.respawn(ctx, deadline, left); err != nil {
		return err
	}
	if !c.raw {
		return nil
	}
	var by time.Time
	if !left.IsZero() {
		by = deadline
	}
	if err := c.startUp(ctx, by, left); err != nil {
		return err
	}
	c.raw = false
	return nil
}

// respawn replaces a worker that has ended.
func (c *conn) respawn(ctx context.Context, deadline, left time.Time) error {
	// It may have been killed while it had nothing to do.
	if !c.dead {
		if !c.streams[0].died(c.worker) {
			return nil
		}
		c.unsaid = true
	}
	c.worker++
	c.dead, c.raw = false, true
	c.queue.send(item{data: []byte(shellwire.StartWorker)})
	err := c.handshake(ctx, deadline, left)
	if err == nil && c.renew != nil {
		err = c.renew(ctx, deadline, left)
	}
	if err != nil {
		c.dead = true
		return fmt.Errorf("%w: the shell could not be replaced: %w", ErrStart, err)
	}
	return nil
}

// startUp runs the startup scripts in order up to the first that fails. None of them runs
// longer than StartupTimeout, nor beyond by, unless that is zero.
func (c *conn) startUp(ctx context.Context, by, left time.Time) error {
	for _, script := range c.startup {
		if c.dead {
			return fmt.Errorf("startup %w: the shell has ended", ErrScript)
		}
		if err := c.script(ctx, "startup", script, earlier(after(c.limits.StartupTimeout), by), left); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) script(ctx context.Context, kind, script string, deadline, left time.Time) error {
	if c.audit != nil && !c.recorded {
		return c.audit.script(ctx, c, kind, script, deadline, left)
	}
	c.recorded = false
	in, errOut := newSink(c.filter, wordsKept, nil, nil)
	r := c.exchange(ctx, deadline, left, c.unit(script), &sink{}, in)
	said := errOut.said(in)
	var how string
	script = c.conceal(script)
	switch {
	case r.cause != nil:
		return fmt.Errorf("%s %w: %q: %w", kind, ErrScript, script, r.cause)
	case r.lost:
		return fmt.Errorf("%s %w: %q: %w", kind, ErrScript, script, c.lost())
	case r.mark.Status == 0 && !r.died:
		return nil
	case r.mark.Status < 0:
		how = "it was killed"
	default:
		how = "exit code " + strconv.Itoa(r.mark.Status)
	}
	return fmt.Errorf("%s %w: %q: %s: %s", kind, ErrScript, script, how, said)
}

// tell has what happens recorded. It waits for nobody.
func (c *conn) tell(kind EventKind, step Escalation, err error) {
	if c.audit != nil {
		c.audit.tell(c, kind, step, err)
	}
}

// said returns what was kept of what came in, or why none of it may be shown.
func (k *sink) said(in *sink) string {
	if in.close(); in.failed != nil {
		return in.failed.Error()
	}
	return strings.TrimSpace(string(k.kept.Bytes()))
}

// after returns when a time that is counted from now has passed; the zero time if it is
// negative, for never.
func after(d time.Duration) time.Time {
	if d < 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}

// earlier returns the earlier of two times, of which the zero time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// look returns how many processes inside the kernel has killed for memory, or -1 if that
// can't be learnt, and whether the last kill left nothing behind. The answer comes behind
// all that was sent before. If none does, the container has been ended by the time left,
// unless that is zero.
func (c *conn) look(ctx context.Context, left time.Time) (oomKills int, gone bool, r reply) {
	var out, errOut sink // of background jobs
	r = c.exchangeBy(ctx, after(workerGrace), left, []item{{data: []byte(shellwire.Look)}}, &out, &errOut)
	c.late += out.came + errOut.came
	if r.cause != nil || r.lost {
		return -1, false, r
	}
	count, walk, _ := strings.Cut(r.mark.Dir, " ")
	return parseCount(count), walk == "1", r
}

// parseCount returns a number, or -1 if it is none.
func parseCount(text string) int {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// unit returns the operations that run a script.
func (c *conn) unit(script string) []item {
	return []item{{data: shellwire.Unit{Script: script}.Ops()}}
}

// name draws the tag of the next unit, and returns what tells it.
func (c *conn) name() item {
	// The supervisor reads it a byte at a time. Of 65 bits nobody guesses one in time,
	// and there is a new one for each unit.
	c.tag = token()[:13]
	return item{data: shellwire.Next(c.tag), stays: true}
}

// exchange sends the operations of a unit and returns when it has ended, or was ended,
// with all that it started: at the deadline (the zero time is never), or when ctx ends.
// If left is not zero, it has been ended by then.
func (c *conn) exchange(ctx context.Context, deadline, left time.Time, items []item, out, errOut *sink) reply {
	r := c.exchangeBy(ctx, deadline, left, items, out, errOut)
	c.out += out.came
	if r.cause == nil || r.unsent || r.lost || !c.proc.OwnPIDNamespace {
		return r
	}
	// The command has come to its end, but what it left behind may ignore a SIGTERM, and
	// the worker may have forked after a pass. Now that it waits, one pass is enough; but
	// what was killed takes a moment to die on a machine under load.
	for pause := time.Millisecond; ; pause = min(2*pause, lookAgain) {
		c.queue.sendUrgent(shellwire.Kill)
		n, gone, l := c.look(context.WithoutCancel(ctx), r.left)
		if n >= 0 {
			r.oomAfter = n
		}
		r.gone = gone
		r.died = r.died || l.died
		if l.lost {
			r.lost, r.step, r.endErr, r.gone = true, l.step, l.endErr, l.gone
		}
		if gone || l.lost || l.cause != nil || time.Until(r.left) < pause {
			return r
		}
		time.Sleep(pause)
	}
}

// exchangeBy is exchange without the last pass. If left is not zero, it bounds the
// escalation.
func (c *conn) exchangeBy(ctx context.Context, deadline, left time.Time, items []item, out, errOut *sink) (r reply) {
	r.oomAfter = -1
	ends := &marks{events: make(chan event, 8), enough: make(chan struct{}, 1)}
	var ops []item
	told := len(items) > 0 && items[0].told
	fromMark := told || c.streams[0].unclear() || c.streams[1].unclear()
	if fromMark && !told {
		ops = append(ops, item{data: []byte(shellwire.BeginMark)})
	}
	ops = append(ops, items...)
	c.streams[0].begin(c.tag, c.worker, fromMark, out, ends)
	c.streams[1].begin(c.tag, c.worker, fromMark, errOut, ends)
	c.queue.send(append(ops, c.name())...)
	defer func() {
		for _, s := range c.streams {
			c.late += s.end(c.filter)
		}
		if !r.lost {
			now := time.Now()
			c.heard.Store(&now)
		}
	}()
	var seen [2]bool
	var timeout <-chan time.Time
	if !deadline.IsZero() {
		t := time.NewTimer(time.Until(deadline))
		defer t.Stop()
		timeout = t.C
	}
	canceled := ctx.Done()
	pause := firstTick
	tick := time.NewTimer(pause)
	defer tick.Stop()
	var stepEnd <-chan time.Time // the current one has had its time
	var read time.Time           // until then it may wait behind what was sent before

	// done takes what has come, and reports whether it ends the command.
	done := func() bool {
		for len(ends.events) > 0 {
			ev := <-ends.events
			m := ev.mark
			i := 1
			if ev.stdout {
				i = 0
			}
			switch {
			case m.Kind == shellwire.Death:
				r.died = true
				if i == 0 && !seen[0] {
					r.mark = m
				}
			case i == 0:
				r.mark = m
			}
			seen[i] = true
			// A worker that is being killed does not have the last word on its command.
			if seen[0] && seen[1] && (r.step < EscalationShell || r.died) {
				return true
			}
		}
		return false
	}
	escalate := func() {
		grace := func(d time.Duration) <-chan time.Time { return time.After(min(d, c.limits.TerminationTimeout/8)) }
		switch {
		case r.step == 0:
			r.step = EscalationTerm
			c.queue.sendUrgent(shellwire.Terminate)
			if c.proc.OwnPIDNamespace {
				stepEnd = grace(termGrace)
			} else {
				// The next step costs the session.
				stepEnd = grace(workerGrace)
			}
		case r.step == EscalationTerm && c.proc.OwnPIDNamespace:
			r.step = EscalationKill
			c.queue.sendUrgent(shellwire.Kill)
			stepEnd = grace(killGrace)
		case r.step == EscalationKill:
			r.step = EscalationShell
			c.queue.sendUrgent(shellwire.KillWorker)
			stepEnd = grace(workerGrace)
		default:
			r.step = EscalationContainer
			stepEnd = nil
		}
		c.tell(EventKill, r.step, r.cause)
	}
	stopped := func(cause error) {
		r.cause = cause
		left = earlier(after(c.limits.TerminationTimeout), left)
		r.left, c.left = left, left
		read = after(min(workerGrace, c.limits.TerminationTimeout/8))
		timeout, canceled = nil, nil
		// A stream that waits for a caller's writer would never come to the end mark.
		out.free()
		errOut.free()
		switch {
		case c.queue.withdraw():
			r.unsent, r.gone = true, true
		case cause == ErrExpired, cause == ErrClosed && !c.orderly:
			r.step = EscalationContainer
			c.tell(EventKill, r.step, cause)
		default:
			escalate()
		}
	}
	for {
		select {
		case <-ends.enough:
			if done() {
				c.dead = c.dead || r.died
				return r
			}
		case <-c.over:
			if done() && !r.died {
				return r
			}
			// Of two that are ready, either is chosen.
			if r.cause == nil {
				r.cause = context.Cause(ctx)
			}
			left = earlier(after(c.limits.TerminationTimeout), left)
			r.left, c.left = left, left
			c.lose(&r, time.Until(left))
			return r
		case <-timeout:
			stopped(ErrTimeout)
		case <-canceled:
			stopped(context.Cause(ctx))
		case <-stepEnd:
			if !c.queue.idle() && time.Now().Before(read) {
				stepEnd = time.After(time.Millisecond)
			} else {
				escalate()
			}
		case <-tick.C:
			if c.queue.idle() {
				c.queue.sendUrgent(shellwire.Tick)
			}
			pause = min(2*pause, lastTick)
			tick.Reset(pause)
		}
		if r.unsent {
			return r
		}
		if r.step == EscalationContainer {
			c.lose(&r, time.Until(left))
			return r
		}
	}
}

// lose sees to the end of the container under a command.
func (c *conn) lose(r *reply, within time.Duration) {
	r.lost, c.dead = true, true
	c.why.by(r.cause)
	r.endErr = c.end(within)
	r.gone = r.endErr == nil
	if r.step == EscalationContainer && c.forced {
		r.step = EscalationRemoval
	}
}

// An attempt to end a container is over.
type attempt struct {
	err   error
	at    time.Time
	until time.Time // when it had to be over
}

// endSince is end, unless an attempt has come to its end since then: one call has no time
// for two.
func (c *conn) endSince(begin time.Time) error {
	if last := c.lastEnd.Load(); last != nil && last.at.After(begin) {
		return last.err
	}
	return c.end(c.limits.TerminationTimeout)
}

// end ends the container, at first by its lifeline, and returns when it has been made
// sure that nothing is left, or when the time is over.
func (c *conn) end(within time.Duration) (err error) {
	begin := time.Now()
	until := begin.Add(within)
	c.ending.Lock()
	defer c.ending.Unlock()
	c.why.asked.Store(true)
	if last := c.lastEnd.Load(); last == nil {
		defer close(c.ended)
	} else if last.err == nil || last.at.After(begin) && until.Sub(last.until) < lifelineGrace {
		// Another that had as much time is over by now.
		return last.err
	}
	// What was not known to be gone may be by now.
	defer func() {
		// Who sees the attempt waits for the records before it.
		c.tell(EventEnd, 0, err)
		c.lastEnd.Store(&attempt{err, time.Now(), until})
	}()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for _, s := range c.streams {
		s.flow()
	}
	c.queue.close()
	c.proc.Stdin.Close()
	select {
	case <-c.over:
	case <-time.After(min(lifelineGrace, within/4)):
		c.forced = true
		c.tell(EventKill, EscalationRemoval, nil)
	}
	c.diagnose()
	if c.proc.Kill != nil {
		err = c.proc.Kill(ctx)
	}
	select {
	case <-c.over:
		// Its record has it.
		c.ownEnd(time.Now().Add(min(learnTime, within)))
	case <-ctx.Done():
		err = errors.Join(err, fmt.Errorf("%s: %w: its program does not end", c.proc.Name, ErrStillThere))
	}
	return err
}
