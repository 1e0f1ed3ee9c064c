package shell

import (
	"errors"
	"fmt"
	"time"
)

// ErrSilent says that nothing came over the link with the process for the time of the
// keep-alive.
var ErrSilent = errors.New("the link with the engine was silent")

// silentStatus is the exit status of a supervisor that has not heard its host.
const silentStatus = 93

// slowest is what a link carries at least, in bytes a second, or it counts as silent
// while something goes in.
const slowest = 64 << 10

// epoch is when times as numbers begin.
var epoch = time.Now()

// beat sends a beat, and ends the process if the link is silent. It is called each third
// of the keep-alive until the end begins.
func (c *Conn) beat() {
	select {
	case <-c.endBegun:
		return
	default:
	}
	if since := c.quietSince(); !since.IsZero() && time.Since(since) >= c.opts.KeepAlive {
		err := fmt.Errorf("%w for %v", ErrSilent, c.opts.KeepAlive)
		c.why.ours.CompareAndSwap(nil, &err)
		close(c.silent)
		c.End(c.opts.TerminationTimeout)
		return
	}
	c.streams[1].spare.Add(askedMark)
	c.queue.sendBeat()
	c.beating.Reset(c.opts.KeepAlive / 3)
}

// quietSince returns since when a beat waits for an answer while the streams are read,
// the zero time if none does. Whatever comes is an answer.
func (c *Conn) quietSince() time.Time {
	if c.heard.Load() == 0 {
		return time.Time{} // it has a deadline of its own for its start
	}
	var heard time.Time
	for _, s := range c.streams {
		waits := s.waits.Load()
		if waits == 0 {
			return time.Time{} // somebody else holds it up
		}
		if at := epoch.Add(time.Duration(waits)); at.After(heard) {
			heard = at
		}
	}
	return c.queue.unanswered(heard)
}
