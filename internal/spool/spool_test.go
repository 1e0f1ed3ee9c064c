package spool_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/spool"
)

// The command gets all of it, whatever the approver has read.
func TestAll(t *testing.T) {
	const text = "some text of a command"
	for _, read := range []int64{0, 1, 5, int64(len(text)), 100} {
		s := spool.New(iotest.OneByteReader(strings.NewReader(text)), 100)
		seen, err := io.ReadAll(io.LimitReader(s, read))
		assert.NilError(t, err)
		assert.Equal(t, string(seen), text[:min(int(read), len(text))])
		s.Close(time.Minute)
		_, err = s.Read(make([]byte, 1))
		assert.ErrorIs(t, err, fs.ErrClosed)
		all, err := s.All(t.Context())
		assert.NilError(t, err)
		assert.Equal(t, string(all), text)
	}
	assert.Assert(t, spool.New(nil, 1) == nil)
}

func TestLimit(t *testing.T) {
	for n, want := range map[int]error{9: nil, 10: nil, 11: spool.ErrTooLong, 5000: spool.ErrTooLong} {
		r := strings.NewReader(strings.Repeat("x", n))
		_, err := spool.New(r, 10).All(t.Context())
		assert.ErrorIs(t, err, want, "%d bytes", n)
		assert.Assert(t, n-r.Len() <= 11, "%d bytes were read", n-r.Len())
	}
	broken := errors.New("broken")
	_, err := spool.New(iotest.ErrReader(broken), 10).All(t.Context())
	assert.Equal(t, err, broken)
}

func TestCanceled(t *testing.T) {
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	_, err := spool.New(strings.NewReader("x"), 10).All(ctx)
	assert.Equal(t, err, gone)
}

// Nor does one hang that waits for its turn, or comes while the command reads.
func TestReadAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		s := spool.New(r, 10)
		waits := make(chan error, 2)
		read := func() {
			_, err := s.Read(make([]byte, 1))
			waits <- err
		}
		go s.All(t.Context())
		synctest.Wait()
		go read()
		synctest.Wait()
		s.Close(time.Second)
		read()
		assert.ErrorIs(t, <-waits, fs.ErrClosed)
		assert.ErrorIs(t, <-waits, fs.ErrClosed)
		assert.NilError(t, w.Close())
	})
}

// A Read that hangs is left behind.
func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		s := spool.New(r, 10)
		go s.Read(make([]byte, 1))
		synctest.Wait()
		start := time.Now()
		s.Close(time.Second)
		assert.Equal(t, time.Since(start), time.Second)
		assert.NilError(t, w.Close())
	})
}
