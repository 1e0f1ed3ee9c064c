// Package spool lets whoever approves a command read its stdin, and keeps what was read
// for the command.
package spool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"
)

// ErrTooLong means that a reader has more than it may.
var ErrTooLong = errors.New("stdin is too long")

// A Spool is a command's stdin. Its Read is the approver's.
type Spool struct {
	r    io.Reader
	max  int
	turn chan struct{} // held by whoever reads from r, or looks at what follows
	data []byte        // all that was read
	err  error         // why no more is read; io.EOF if that is all

	closed chan struct{} // closed when the approver reads no more
	close  func()
}

// New returns the spool of a reader that is to have at most max bytes; nil if r is nil.
func New(r io.Reader, max int) *Spool {
	if r == nil {
		return nil
	}
	closed := make(chan struct{})
	return &Spool{
		r: r, max: max, turn: make(chan struct{}, 1),
		closed: closed, close: sync.OnceFunc(func() { close(closed) }),
	}
}

var errClosed = fmt.Errorf("the stdin of a request is not there after Approve: %w", fs.ErrClosed)

// Read reads what nobody has read yet. All must not be called before the approver has
// returned or was left behind.
func (s *Spool) Read(p []byte) (int, error) {
	select {
	case s.turn <- struct{}{}:
	case <-s.closed:
		return 0, errClosed
	}
	defer func() { <-s.turn }()
	// Select picks either of two that are ready.
	select {
	case <-s.closed:
		return 0, errClosed
	default:
	}
	switch {
	case s.err != nil:
		return 0, s.err
	case len(p) == 0:
		return 0, nil
	}
	at := len(s.data)
	s.more(len(p))
	n := copy(p, s.data[at:])
	if n > 0 {
		return n, nil
	}
	return n, s.err
}

// more reads at most n bytes, but no more in all than tell that they are too many.
func (s *Spool) more(n int) {
	n = min(n, s.max+1-len(s.data))
	s.data = slices.Grow(s.data, n)
	at := len(s.data)
	n, s.err = s.r.Read(s.data[at : at+n])
	s.data = s.data[:at+n]
	if len(s.data) > s.max {
		s.err = fmt.Errorf("%w: more than %d bytes", ErrTooLong, s.max)
	}
}

// Close makes later calls of Read fail, and waits for one that is under way, at most so
// long: whoever takes the reader back is not to meet it there. A nil Spool is closed.
func (s *Spool) Close(wait time.Duration) {
	if s == nil {
		return
	}
	s.close()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case s.turn <- struct{}{}:
		<-s.turn
	case <-timer.C:
	}
}

// All reads the rest, unless ctx ends, and returns the whole. If that is too much, the
// error wraps [ErrTooLong].
func (s *Spool) All(ctx context.Context) ([]byte, error) {
	const piece = 4096
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	for s.err == nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		s.more(max(piece, cap(s.data)-len(s.data)))
	}
	if s.err != io.EOF {
		return nil, s.err
	}
	return s.data, nil
}
