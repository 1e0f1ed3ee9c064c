package account

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
)

// What prints is waited for too, up to its end.
func TestReadPrinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		start := time.Now()
		time.AfterFunc(time.Second, func() { close(done) })
		a, ok, err := ReadPrinted(t.Context(), strings.NewReader("Uid:12\nGid:34\n"), done)
		assert.NilError(t, err)
		assert.Assert(t, ok)
		assert.Equal(t, a, Account{12, 34})
		assert.Equal(t, time.Since(start), time.Second)
	})
	done := make(chan struct{})
	close(done)
	_, ok, err := ReadPrinted(t.Context(), strings.NewReader("sh: no such file\n"), done)
	assert.NilError(t, err)
	assert.Assert(t, !ok)
}

func TestReadPrintedUntilTheContextEnds(t *testing.T) {
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	_, ok, err := ReadPrinted(ctx, strings.NewReader("Uid:12\nGid:34\n"), nil)
	assert.Equal(t, err, gone)
	assert.Assert(t, !ok)
}
