package shell

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// learnTime is how long an engine may take to tell how a process has ended, if its start
// took no more than a third of that. Docker takes a twentieth of a second.
const learnTime = time.Second

// LearnTime returns how long the engine may take to tell how the process has ended, for
// which it may be asked again and again. One that was slow to start it is slow to tell,
// too.
func (c *Conn) LearnTime() time.Duration {
	return max(c.usualLearnTime(), min(c.opts.EndTold, c.opts.TerminationTimeout/2))
}

// usualLearnTime is LearnTime for an engine that does not say that it is slow to tell.
func (c *Conn) usualLearnTime() time.Duration {
	timeout := c.opts.TerminationTimeout
	return max(min(learnTime, timeout/8), min(3*c.startTook(), timeout/2))
}

// startTook returns how long the supervisor took to answer, so far if it has not.
func (c *Conn) startTook() time.Duration {
	if took := c.took.Load(); took != 0 {
		return time.Duration(took)
	}
	if asked := c.asked.Load(); asked != nil {
		return time.Since(*asked)
	}
	return 0
}

// shortageTime is how long the kernel may take to kill one process after another for the
// same memory.
const shortageTime = 250 * time.Millisecond

// lookAgain is the longest pause between two looks at something that gives no notice of
// a change.
const lookAgain = 200 * time.Millisecond

// A cause is why a process has ended.
type cause struct {
	asked atomic.Bool           // the library has set out to end it
	ours  atomic.Pointer[error] // why it did so for a command
	// known is closed when what follows is known, soon after the process and its streams
	// have ended.
	known chan struct{}
	err   error // nil if the library ended it
	oom   bool
}

// by notes that it is ended because a command is, if there is a reason.
func (w *cause) by(reason error) {
	if reason != nil {
		// It is not the next call's own: that has not been canceled, and its deadline has
		// not passed.
		err := fmt.Errorf("it was ended with a command: %v", reason)
		w.ours.CompareAndSwap(nil, &err)
	}
}

// learn finds out why the process has ended, if it did so by itself and had answered
// before. It is called once, when all has been read.
func (c *Conn) learn(byItself bool) {
	defer close(c.why.known)
	if !byItself || !c.streams[0].begun() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.LearnTime())
	defer cancel()
	known, code := false, c.exitCode(ctx)
	if c.opts.OOMKilled != nil {
		var since time.Time
		if heard := c.heard.Load(); heard != 0 {
			// What was killed before did not end it, but one shortage of memory may end a
			// command first.
			since = time.Unix(0, heard).Add(-shortageTime)
		}
		c.why.oom, known = c.opts.OOMKilled(ctx, since)
		if known && !c.why.oom && code == 128+sigkill {
			// Under load an engine hears of it later than of the end, so one answer is
			// not enough.
			known = false
			for until := time.Now().Add(c.usualLearnTime() / 2); !c.why.oom && ctx.Err() == nil && time.Now().Before(until); {
				select {
				case <-time.After(lookAgain / 2):
				case <-ctx.Done():
				}
				oom, answered := c.opts.OOMKilled(ctx, since)
				c.why.oom, known = oom, known || answered
			}
		}
	}
	text := fmt.Sprintf("its program exited with status %d", code)
	if code < 0 {
		text = "its program ended without an exit status"
	}
	switch {
	case c.why.oom:
		text += ": the kernel killed it for want of memory"
	case code == 128+sigkill && known:
		text += ": it was killed, and the engine tells of no want of memory"
	case code == 128+sigkill:
		text += ": it was killed, perhaps for want of memory"
	}
	if words := c.streams[1].lastWords; words != "" {
		text += fmt.Sprintf("; the last words on its stderr: %q", words)
	}
	c.why.err = errors.New(c.opts.Redact(text))
	if code == silentStatus && c.opts.KeepAlive > 0 {
		c.why.err = fmt.Errorf("%w for %v, seen from inside: %w", ErrSilent, c.opts.KeepAlive, c.why.err)
	}
}

// OwnEnd returns why the process has ended, as far as it is known by the time; nil if it
// is not, or if the session was closed.
func (c *Conn) OwnEnd(by time.Time) error {
	if ours := c.why.ours.Load(); ours != nil {
		return *ours
	}
	if !c.learnt(by) {
		return nil
	}
	return c.why.err
}

// learnt waits until it is known why the process has ended, or the time has come. If it
// has not ended, nothing is known.
func (c *Conn) learnt(by time.Time) bool {
	if !c.hasExited() {
		return false
	}
	select {
	case <-c.why.known:
		return true
	default:
	}
	select {
	case <-c.why.known:
		return true
	case <-time.After(time.Until(by)):
		return false
	}
}

// OOMKilled reports whether it is known by the time that the process was ended for
// memory.
func (c *Conn) OOMKilled(by time.Time) bool {
	return c.learnt(by) && c.why.oom
}

// sigkill is the number of SIGKILL, with which the kernel ends what needs memory.
const sigkill = 9
