package account

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// What prints is waited for too, up to its end.
func TestReadPrinted(t *testing.T) {
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		io.WriteString(w, "Uid:12\nGid:34\n")
		w.Close()
		close(done)
	}()
	a, ok, err := ReadPrinted(t.Context(), r, done)
	assert.NilError(t, err)
	assert.Assert(t, ok)
	assert.Equal(t, a, Account{12, 34})

	_, ok, err = ReadPrinted(t.Context(), strings.NewReader("sh: no such file\n"), done)
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
