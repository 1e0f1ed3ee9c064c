package warm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
)

var (
	// ErrBusy is wrapped by the error of a Take for which there is no session in time:
	// [Options.MaxWait] has passed, or [Options.MaxWaiting] others wait.
	ErrBusy = errors.New("no session is ready")
	// ErrClosed is returned by Take when the pool is closed.
	ErrClosed = errors.New("the pool is closed")
)

// Options say how many sessions a [Pool] has, and how long anybody waits for one.
type Options struct {
	// Size is how many idle sessions the pool keeps. If callers gave up while sessions
	// were started for them, up to MaxStarting more are kept until they are taken. If
	// zero, 4. It must not be negative.
	Size int
	// MaxStarting is how many sessions are started at a time. More of them take longer
	// each, and slow down the sessions in use. If zero, 2. It must not be negative.
	MaxStarting int
	// MaxWaiting is how many calls of Take may wait at a time; more fail at once. If
	// zero, 100; if negative, any number may.
	MaxWaiting int
	// MaxWait is how long a Take waits for a session. One that is there then gets up to 2
	// s more to answer. If zero, a minute; if negative, a Take waits until its context
	// ends.
	MaxWait time.Duration
	// MaxAge is how long after its start an idle session is replaced at the latest. It is
	// replaced up to an eighth of that earlier, so that those which were started together
	// are not replaced together. If zero, an hour; if negative, never. Else it is at
	// least a second.
	MaxAge time.Duration
}

func (o Options) withDefaults() Options {
	if o.Size == 0 {
		o.Size = 4
	}
	if o.MaxStarting == 0 {
		o.MaxStarting = 2
	}
	if o.MaxWaiting == 0 {
		o.MaxWaiting = 100
	}
	if o.MaxWait == 0 {
		o.MaxWait = time.Minute
	}
	if o.MaxAge == 0 {
		o.MaxAge = time.Hour
	}
	return o
}

// Stats are what a pool has, and what has happened since it was made.
type Stats struct {
	// Idle, Starting and Waiting are how many sessions could be taken, how many are being
	// started, and how many calls of Take wait, now.
	Idle, Starting, Waiting int

	// Started is how many sessions were started, and StartTime how long that took them
	// together.
	Started   int64
	StartTime time.Duration
	// StartFailures is how many starts failed. StartError is the error of the latest
	// start, or nil if that succeeded.
	StartFailures int64
	StartError    error

	// Taken is how many sessions were handed out, with those that could not be made the
	// user's then. TakeTime is how long their callers waited for them together. What was
	// then done for the user does not count.
	Taken    int64
	TakeTime time.Duration
	// Busy is how many calls of Take failed with ErrBusy.
	Busy int64
	// Died, Unhealthy and Aged are how many idle sessions were given up because they had
	// ended, did not answer, or had come to their MaxAge.
	Died, Unhealthy, Aged int64
}

// A Pool keeps sessions that were started ahead. Its methods are safe for concurrent use.
// [New] makes one; the zero Pool is closed.
type Pool struct {
	policy execpolicy.Policy
	spec   execpolicy.Spec
	o      Options
	ctx    context.Context // of the starts
	cancel context.CancelFunc
	// Close waits for work. It is added to while the pool is open, or by what it counts.
	work sync.WaitGroup

	mu        sync.Mutex
	open      bool
	idle      []*idle         // the oldest first; none while somebody waits
	waiters   []chan<- answer // the first first
	failures  int             // of starts in a row
	early     int             // how many sessions in a row ended soon after their starts
	lastEarly time.Time       // when the last of them did
	pause     *time.Timer     // until the next start; nil if there is none
	closeErrs []error         // what is not known to be gone
	stats     Stats
}

// An idle session is one that may be handed out.
type idle struct {
	*execpolicy.Idle
	start time.Time
	out   chan struct{} // closed when it is in the pool no more
}

// An answer is what a Take receives that waits.
type answer struct {
	session *idle
	err     error
}

const (
	// answerTime is how long a shell may take to answer before it is handed out.
	answerTime = 2 * time.Second
	// checkTime bounds the look at the policy before the first start.
	checkTime = 10 * time.Second

	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
	// enoughFailures in a row are no accident.
	enoughFailures = 2
	maxCloseErrs   = 100
)

// lull is the pause before the start that replaces an idle session which was taken. A
// start keeps a processor busy for half a second, and the user's first command, or those
// of others who come at the same time, would wait for it.
var lull = 100 * time.Millisecond

// New returns a pool of sessions that are started with the policy and the spec, which is
// one for [execpolicy.StartIdle]: it has what all users have in common. New begins to
// start them, and does not wait for them.
//
// The error wraps [execpolicy.ErrInvalid] and says all that is wrong with the options,
// the spec and, if that is an [execpolicy.Checker], the policy. For that New may ask the
// engine, and wait up to 10 s for its answer. Without an engine New succeeds, and Take
// fails.
func New(policy execpolicy.Policy, spec execpolicy.Spec, o Options) (*Pool, error) {
	var found problems.List
	if policy == nil {
		found.Add("there is no policy")
	}
	if o.Size < 0 {
		found.Add("Size is %d: it must not be negative", o.Size)
	}
	if o.MaxStarting < 0 {
		found.Add("MaxStarting is %d: it must not be negative", o.MaxStarting)
	}
	if o.MaxAge > 0 && o.MaxAge < time.Second {
		found.Add("MaxAge is %v: it has to be at least 1 s", o.MaxAge)
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTime)
	defer cancel()
	err := execpolicy.Check(ctx, policy, spec)
	if !errors.Is(err, execpolicy.ErrInvalid) {
		err = nil
	}
	if err := problems.Join(append(found, execpolicy.CheckTake(spec, execpolicy.Spec{}), err)...); err != nil {
		return nil, err
	}
	// It is used later, when the caller may change its own.
	spec.Env, spec.Labels = maps.Clone(spec.Env), maps.Clone(spec.Labels)
	spec.Command, spec.Startup = slices.Clone(spec.Command), slices.Clone(spec.Startup)
	p := &Pool{policy: policy, spec: spec, o: o.withDefaults(), open: true}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refill()
	return p, nil
}

// Take hands out a session that nobody else has had or will have, and makes it the user's
// with what spec brings, as [execpolicy.Idle.Take] does. The caller must close it. If no
// session is idle, Take waits.
//
// The error is one of these:
//
//   - It wraps [execpolicy.ErrInvalid], and says all that is wrong with the spec. The
//     spec is checked first.
//   - It wraps [ErrBusy] if there was no session in time, or is [ErrClosed].
//   - It is the cause of ctx, if that ended while Take waited.
//   - It wraps the error of the latest start, if no session is idle and the last two
//     starts have failed.
//   - It wraps [execpolicy.ErrStart] if a session was there and could not be made the
//     user's, because a secret's Lookup, Prepare, a startup script or Audit failed, or
//     ctx ended. Only then is a session lost: it has ended.
func (p *Pool) Take(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Session, error) {
	if err := execpolicy.CheckTake(p.spec, spec); err != nil {
		return nil, err
	}
	i, err := p.take(ctx)
	if err != nil {
		return nil, err
	}
	return i.Take(ctx, spec)
}

// take returns a session that answers.
func (p *Pool) take(ctx context.Context) (*idle, error) {
	start := time.Now()
	wait := ctx
	if p.o.MaxWait >= 0 {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeoutCause(ctx, p.o.MaxWait, fmt.Errorf("%w: none came within %v: starts are slower than callers come; raise Size, MaxStarting or MaxWait, or let fewer in", ErrBusy, p.o.MaxWait))
		defer cancel()
	}
	if !p.enter() {
		return nil, ErrClosed
	}
	defer p.work.Done()
	for first := true; ; first = false {
		i, err := p.next(wait, first)
		if err == nil {
			checked := p.check(i)
			select {
			case why := <-checked:
				if why != nil {
					p.discard(i, why)
					continue
				}
			case <-ctx.Done():
				p.work.Go(func() { p.giveBack(i, <-checked) })
				err = context.Cause(ctx)
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case err == nil && ctx.Err() != nil:
			p.put(i)
			err = context.Cause(ctx)
		case err == nil && !p.open:
			p.end(i)
			err = ErrClosed
		case err == nil:
			p.early = 0
			p.stats.Taken++
			p.stats.TakeTime += time.Since(start)
			return i, nil
		case errors.Is(err, ErrBusy):
			p.stats.Busy++
		}
		return nil, err
	}
}

// enter reports whether the pool is open, and if so makes Close wait.
func (p *Pool) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open {
		p.work.Add(1)
	}
	return p.open
}

// next returns the session whose turn it is. Who has waited before is first in line.
func (p *Pool) next(ctx context.Context, first bool) (*idle, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case !p.open:
		return nil, ErrClosed
	case len(p.idle) > 0:
		i := p.idle[0]
		p.remove(i)
		switch {
		case p.failures > 0:
			p.refill() // the pause may have ended when none was missing
		case p.pause == nil:
			p.rest(lull)
		}
		return i, nil
	case p.failures >= enoughFailures:
		p.refill()
		return nil, p.failed()
	case first && p.o.MaxWaiting >= 0 && len(p.waiters) >= p.o.MaxWaiting:
		return nil, fmt.Errorf("%w: %d others wait; raise MaxWaiting, or let fewer in", ErrBusy, len(p.waiters))
	}
	waiter := make(chan answer, 1)
	place := 0
	if first {
		place = len(p.waiters)
	}
	p.waiters = slices.Insert(p.waiters, place, chan<- answer(waiter))
	if p.failures == 0 && p.early <= 1 {
		p.goOn() // a waiter needs a start now
	}
	p.refill()
	p.mu.Unlock()
	select {
	case a := <-waiter:
		p.mu.Lock()
		return a.session, a.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	if place = slices.Index(p.waiters, chan<- answer(waiter)); place >= 0 {
		p.waiters = slices.Delete(p.waiters, place, place+1)
	} else if a := <-waiter; a.session != nil {
		// It came at the same time.
		p.put(a.session)
	}
	return nil, context.Cause(ctx)
}

// failed returns the error of a Take that gets no session because starts fail.
func (p *Pool) failed() error {
	return fmt.Errorf("no session is idle, and none can be started: %w", p.stats.StartError)
}

// check asks whether a session can be handed out. What it returns then has nil if so, and
// else what counts those that can't.
func (p *Pool) check(i *idle) <-chan *int64 {
	ctx, cancel := context.WithTimeout(p.ctx, answerTime)
	answered, checked := make(chan error, 1), make(chan *int64, 1)
	// A session that does not answer takes its time to end.
	p.work.Go(func() {
		defer cancel()
		answered <- i.Check(ctx)
	})
	p.work.Go(func() {
		select {
		case err := <-answered:
			checked <- p.unfit(err)
		case <-time.After(answerTime):
			checked <- &p.stats.Unhealthy
		}
	})
	return checked
}

// unfit returns nil if the error of a check is nil, and else what counts such sessions.
func (p *Pool) unfit(err error) *int64 {
	switch {
	case err == nil:
		return nil
	case p.ctx.Err() != nil:
		return new(int64) // Close ends it, whatever it is like
	case errors.Is(err, execpolicy.ErrEnded):
		return &p.stats.Died
	}
	return &p.stats.Unhealthy
}

// giveBack puts back a session that was checked for somebody who waits no longer.
func (p *Pool) giveBack(i *idle, why *int64) {
	if why != nil {
		p.discard(i, why)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(i)
}

// The methods below are called with mu held.

// refill starts as many sessions as are missing and may be started at a time; one at a
// time once a start has failed.
func (p *Pool) refill() {
	most := p.o.MaxStarting
	if p.failures > 0 {
		most = 1
	}
	for p.open && p.pause == nil && p.stats.Starting < most &&
		len(p.idle)+p.stats.Starting < p.o.Size+len(p.waiters) {
		p.stats.Starting++
		p.work.Go(p.start)
	}
}

// rest delays the next start.
func (p *Pool) rest(d time.Duration) {
	p.goOn()
	var pause *time.Timer
	pause = time.AfterFunc(d, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.pause == pause { // another may have taken its place
			p.pause = nil
			p.refill()
		}
	})
	p.pause = pause
}

// goOn ends the pause, if there is one.
func (p *Pool) goOn() {
	if p.pause != nil {
		p.pause.Stop()
		p.pause = nil
	}
}

// put hands a session to the first waiter, or keeps it.
func (p *Pool) put(i *idle) {
	switch {
	case !p.open:
		p.end(i)
	case len(p.waiters) > 0:
		p.waiters[0] <- answer{session: i}
		p.waiters = slices.Delete(p.waiters, 0, 1)
	case len(p.idle) >= p.o.Size+p.o.MaxStarting:
		p.end(i) // its place was filled while somebody had it
	default:
		out := make(chan struct{})
		i.out = out
		p.idle = append(p.idle, i)
		p.work.Go(func() { p.watch(i, out) })
	}
}

// remove takes a session out, and reports whether it was there.
func (p *Pool) remove(i *idle) bool {
	n := slices.Index(p.idle, i)
	if n < 0 {
		return false
	}
	p.idle = slices.Delete(p.idle, n, n+1)
	close(i.out)
	return true
}

// end ends a session in the background.
func (p *Pool) end(i *idle) {
	p.work.Go(func() {
		if err := i.Close(); err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.keepErr(err)
		}
	})
}

// keepErr keeps an error for Close.
func (p *Pool) keepErr(err error) {
	if len(p.closeErrs) == maxCloseErrs {
		p.closeErrs = slices.Delete(p.closeErrs, 0, 1)
	}
	p.closeErrs = append(p.closeErrs, err)
}

// The methods below are called without mu.

// start starts a session.
func (p *Pool) start() {
	begin := time.Now()
	s, err := execpolicy.StartIdle(p.ctx, p.policy, p.spec)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Starting--
	if err != nil {
		p.startFailed(err)
		return
	}
	if p.failures > 0 && p.early <= 1 {
		p.goOn()
	}
	p.failures, p.stats.StartError = 0, nil
	p.stats.Started++
	p.stats.StartTime += time.Since(begin)
	p.put(&idle{Idle: s, start: time.Now()})
	p.refill()
}

// startFailed tells the waiters, and delays the next start.
func (p *Pool) startFailed(err error) {
	if errors.Is(err, execpolicy.ErrStillThere) {
		p.keepErr(err)
	}
	if !p.open {
		return
	}
	p.failures++
	p.stats.StartFailures++
	p.stats.StartError = err
	if p.failures >= enoughFailures && p.stats.Starting == 0 {
		p.failWaiters(p.failed())
	}
	if p.pause == nil || p.failures == 1 {
		p.rest(pauseAfter(max(p.failures, p.early-1)))
	}
}

// pauseAfter returns the pause before the next start, after so many things in a row that
// went wrong.
func pauseAfter(n int) time.Duration { return min(lastPause, firstPause<<min(n-1, 10)) }

// failWaiters makes all waiters fail.
func (p *Pool) failWaiters(err error) {
	for _, waiter := range p.waiters {
		waiter <- answer{err: err}
	}
	p.waiters = nil
}

// watch gives up a session that ends, or that has come to its age.
func (p *Pool) watch(i *idle, out <-chan struct{}) {
	var old <-chan time.Time
	if p.o.MaxAge >= 0 {
		t := time.NewTimer(time.Until(i.start.Add(p.o.MaxAge - rand.N(p.o.MaxAge/8+1))))
		defer t.Stop()
		old = t.C
	}
	why := &p.stats.Died
	select {
	case <-out:
		return
	case <-i.Done():
	case <-old:
		why = &p.stats.Aged
	}
	p.mu.Lock()
	there := p.remove(i)
	p.mu.Unlock()
	if there {
		p.discard(i, why)
	}
}

// discard ends a session that can't be handed out, and counts it. What ends one session
// after the other soon after their starts must not make the pool start containers without
// end.
func (p *Pool) discard(i *idle, why *int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*why++
	p.end(i)
	if why == &p.stats.Aged || time.Since(i.start) > lastPause {
		p.early = 0
	} else if i.start.After(p.lastEarly) { // else it is one of those that ended together
		p.early++
		p.lastEarly = time.Now()
		if p.early > 1 && p.failures == 0 && p.open {
			p.rest(pauseAfter(p.early - 1))
		}
	}
	p.refill()
}

// Stats returns what the pool has, and what has happened so far.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Idle, s.Waiting = len(p.idle), len(p.waiters)
	return s
}

// Close hands out nothing more, ends the sessions that are idle or being started, and
// returns when they are gone, at the latest after [execpolicy.Limits.TerminationTimeout].
// Calls of Take that wait fail with [ErrClosed]. Sessions that were taken, or are being
// handed out, go on. The error says which of the other sessions that the pool has started
// are not known to be gone, and wraps [execpolicy.ErrStillThere] then, and
// [execpolicy.ErrAudit] if records were lost. Closing again waits for the same end and
// returns the same error.
func (p *Pool) Close() error {
	p.mu.Lock()
	if p.open {
		p.open = false
		p.cancel()
		p.goOn()
		p.failWaiters(ErrClosed)
		for len(p.idle) > 0 {
			i := p.idle[0]
			p.remove(i)
			p.end(i)
		}
	}
	p.mu.Unlock()
	p.work.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.closeErrs...)
}
