package secret_test

import (
	"bytes"
	"errors"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/secret"
)

// A value is hidden from when it is known, also if the stream began before.
func TestKnownLate(t *testing.T) {
	var redactor secret.Redactor
	var out closed
	w := redactor.Writer(&out)
	write := func(text string) {
		t.Helper()
		n, err := w.Write([]byte(text))
		assert.NilError(t, err)
		assert.Equal(t, n, len(text))
	}
	write("first-value second-value\n")
	first := newValues(secret.Value{Text: "first-value", Placeholder: "[1]"})
	redactor.Set(first)
	write("first-value second-value fir")
	redactor.Set(first.With(secret.Value{Text: "second-value", Placeholder: "[2]"}))
	write("st-value second-value\n")
	redactor.Set(first.With(secret.Value{Text: "second-value", Placeholder: "[2]"})) // the same ones
	write("first-value second-val")
	assert.Equal(t, out.err, nil)
	gone := errors.New("gone")
	out.err = gone
	assert.ErrorIs(t, w.Close(), gone)
	assert.Equal(t, out.String(), "first-value second-value\n[1] second-value [1] [2]\n[1] second-val")
}

// What nobody closes is not closed.
func TestKnownNothing(t *testing.T) {
	var redactor secret.Redactor
	assert.Assert(t, redactor.Values() == nil)
	var out bytes.Buffer
	w := redactor.Writer(&out)
	_, err := w.Write([]byte("text"))
	assert.NilError(t, err)
	assert.NilError(t, w.Close())
	assert.Equal(t, out.String(), "text")
}

// closed returns err when it is closed.
type closed struct {
	bytes.Buffer
	err error
}

func (c *closed) Close() error { return c.err }
