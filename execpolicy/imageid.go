package execpolicy

import (
	"context"

	"github.com/seed-64a260eb/cofferdam/internal/bound"
)

// An imageQuestion is put to the policy when the session has started, which does not wait
// for the answer: its first result does.
type imageQuestion struct {
	over context.Context // ends with the process: nobody answers then
	done chan struct{}   // closed when the rest is known
	id   string
	err  error
}

// askImage asks for the ID of the process's image. There is an answer, or none is waited
// for any more, after half of the TerminationTimeout: so no command returns late for it.
func (c *conn) askImage() {
	q := &c.image
	q.done = make(chan struct{})
	if c.proc.ImageID == nil {
		close(q.done)
		return
	}
	timeout := c.limits.TerminationTimeout / 2
	go func() {
		defer close(q.done)
		ctx, cancel := context.WithTimeout(q.over, timeout)
		defer cancel()
		var id string
		q.err = bound.Call(ctx, func() (err error) {
			id, err = c.proc.ImageID(ctx)
			return err
		})
		if q.err == nil {
			q.id = id
		}
	}()
}

// imageID returns the ID of the image; empty if there is none, or it was not told.
func (c *conn) imageID() (string, error) {
	<-c.image.done
	return c.image.id, c.image.err
}
