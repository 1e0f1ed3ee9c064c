package execpolicy

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/random"
	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
)

// upload reads a command's stdin, and returns what sends it into a file inside, and the
// file's name.
func (c *conn) upload(ctx context.Context, stdin *spool, deadline time.Time) ([]shell.Op, string, error) {
	if stdin == nil {
		return nil, "", nil
	}
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, deadline, ErrTimeout)
		defer cancel()
	}
	read := make(chan []byte, 1)
	err := abandonOnCancel(ctx, func() error {
		data, err := stdin.all(ctx)
		read <- data
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("reading stdin: %w", err)
	}
	got := <-read
	c.tally.in = int64(len(got))
	switch {
	case len(got) > MaxStdin:
		return nil, "", fmt.Errorf("%w: more than %d bytes", ErrStdinTooLong, MaxStdin)
	case len(got) == 0:
		return nil, "", nil
	}
	name := "i" + random.Token()
	data := slices.Concat(shellwire.Upload(name, int64(len(got))), got, []byte(shellwire.Thaw))
	return []shell.Op{{Data: data, Raw: true}}, c.proc.Scratch + "/" + name, nil
}

// readGrace is how long a Read of the caller's that is under way may take when nobody
// waits for it any longer.
const readGrace = 250 * time.Millisecond

// A spool is a command's stdin: it lets Approve read it, and keeps what Approve has read
// for the command. A nil spool is that of a command without one.
type spool struct {
	r      io.Reader
	turn   chan struct{} // held by who reads from r, or looks at what follows
	data   []byte        // all that was read
	err    error         // why no more is read; io.EOF if that is all
	closed atomic.Bool   // Approve reads no more
}

func newSpool(r io.Reader) *spool {
	if r == nil {
		return nil
	}
	return &spool{r: r, turn: make(chan struct{}, 1)}
}

// Read is Approve's. Since nobody else reads before it has returned, it goes on behind
// data.
func (s *spool) Read(p []byte) (int, error) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	switch {
	case s.closed.Load():
		return 0, fmt.Errorf("the stdin of a request is not there after Approve: %w", fs.ErrClosed)
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
func (s *spool) more(n int) {
	n = min(n, MaxStdin+1-len(s.data))
	s.data = slices.Grow(s.data, n)
	at := len(s.data)
	n, s.err = s.r.Read(s.data[at : at+n])
	s.data = s.data[:at+n]
	if len(s.data) > MaxStdin {
		s.err = fmt.Errorf("%w: more than %d bytes", ErrStdinTooLong, MaxStdin)
	}
}

// close makes later calls of Read fail, and waits for one that is under way, at most so
// long: whoever takes the reader back is not to meet it there.
func (s *spool) close(wait time.Duration) {
	if s == nil {
		return
	}
	s.closed.Store(true)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case s.turn <- struct{}{}:
		<-s.turn
	case <-timer.C:
	}
}

// all reads the rest, unless ctx ends, and returns the whole, or more than MaxStdin
// bytes.
func (s *spool) all(ctx context.Context) ([]byte, error) {
	const piece = 4096
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	for s.err == nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		s.more(max(piece, cap(s.data)-len(s.data)))
	}
	if s.err != io.EOF && len(s.data) <= MaxStdin {
		return nil, s.err
	}
	return s.data, nil
}
