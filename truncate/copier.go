package truncate

import (
	"bytes"
	"io"
)

// A Copier is a [Buffer] that writes to W what its String would return: the head as it
// comes, and the rest at [Copier.Close]. Until then it holds back what may lie beyond the
// head.
//
// A Write never fails. The first error of W ends the writing to it, not the counting and
// keeping; Close returns it. A Copier is not safe for concurrent use.
type Copier struct {
	Buffer

	// W takes the output. It must not be nil.
	W io.Writer

	sent   int  // bytes of the head that W has had
	lines  int  // newlines among them
	ended  bool // the head is complete by bytes
	closed bool
	err    error
}

// Write takes all of p, and passes on what belongs to the head. It always returns len(p)
// and nil. After Close it only counts and keeps.
func (c *Copier) Write(p []byte) (int, error) {
	n, err := c.Buffer.Write(p)
	if !c.ended && !c.closed {
		c.advance()
	}
	return n, err
}

// advance passes on all that is in the head whatever follows.
func (c *Copier) advance() {
	end := min(len(c.buf), max(0, c.headLimit()-runeContext))
	if c.Limit <= 0 {
		c.ended = true
	} else if len(c.buf) >= c.fixed() {
		end, _ = runeAround(c.buf, c.headLimit())
		c.ended = true
	}
	next := c.buf[c.sent:end]
	if c.MaxLines > 0 {
		next = firstLines(next, c.MaxLines/2-c.lines)
		c.lines += bytes.Count(next, newline)
	}
	c.sent += len(next)
	c.pass(next)
}

func (c *Copier) pass(p []byte) {
	if len(p) == 0 || c.err != nil {
		return
	}
	n, err := c.W.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	c.err = err
}

// Close writes the rest of the head, the notice if anything was dropped, and the tail. It
// returns the first error of W, or [io.ErrShortWrite] if W wrote less than it was given.
// It does not close W. A second Close only returns the same error.
func (c *Copier) Close() error {
	if c.closed {
		return c.err
	}
	c.closed = true
	head, tail := c.cut()
	c.pass(head[c.sent:])
	c.pass([]byte(c.notice(head, tail)))
	c.pass(tail)
	return c.err
}
