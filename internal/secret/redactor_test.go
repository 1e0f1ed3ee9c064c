package secret_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
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

// What was held when the values changed is still looked at, and what something else has
// taken the place of is not passed on.
func TestKnownLateWhileHeld(t *testing.T) {
	values := []secret.Value{{Text: "first-second", Placeholder: "[1]"}, {Text: "second-third", Placeholder: "[2]"}}
	const stream = "a first-second-third b first-second c second-third d first-secon"
	for cut := range len(stream) {
		var redactor secret.Redactor
		all := newValues(values...)
		redactor.Set(all)
		var out bytes.Buffer
		w := redactor.Writer(&out)
		w.Write([]byte(stream[:cut]))
		redactor.Set(all.With(secret.Value{Text: "something-else", Placeholder: "[3]"}))
		w.Write([]byte(stream[cut:]))
		assert.NilError(t, w.Close())
		assert.Equal(t, out.String(), "a [1] b [1] c [2] d first-secon", "cut at %d", cut)
	}
}

// The memory of a stream does not grow with how often the values have changed.
func TestKnownLateOften(t *testing.T) {
	var redactor secret.Redactor
	w := redactor.Writer(io.Discard)
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	for i := range 100 {
		redactor.Set(redactor.Values().With(secret.Value{Text: fmt.Sprintf("%03d", i) + strings.Repeat("x", 997), Placeholder: "[x]"}))
		w.Write([]byte("line 1\n"))
	}
	// The last values have some 4 MB.
	assert.Assert(t, used() < before+64<<20)
	assert.NilError(t, w.Close())
}

// What is known already makes no new values, which each result would keep.
func TestKnownAlready(t *testing.T) {
	var none *secret.Values
	one := secret.Value{Text: "hunter2\nhunter3", Placeholder: "***"}
	v := none.With(one)
	assert.Assert(t, v.With(one) == v)
	assert.Assert(t, v.With() == v)
	more := v.With(secret.Value{Text: "hunter", Placeholder: "***"})
	assert.Assert(t, more != v)
	assert.Equal(t, more.Redact("a hunter"), "a ***")
	assert.Equal(t, v.Redact("a hunter"), "a hunter")
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
