package truncate

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestCopierPassesTheHeadOnAtOnce(t *testing.T) {
	for _, c := range []struct {
		name         string
		limit, lines int
		in, early    string
	}{
		{"below", 100, 0, "hello\n", "hello\n"},
		{"held back by bytes", 20, 0, "0123456789ab", "0123456"},
		{"head complete", 20, 0, "0123456789abc", "0123456789"},
		{"rune not in the head", 20, 0, "012345678€bc", "012345678"},
		{"held back by lines", 100, 4, "1\n2\n3\n", "1\n2\n"},
		{"nothing", 0, 0, "hello\n", ""},
		{"no head of one line", 100, 1, "hello\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(20) {
				var out strings.Builder
				w := Copier{Buffer: Buffer{Limit: c.limit, MaxLines: c.lines}, W: &out}
				for _, piece := range chunks(c.in, seed) {
					io.WriteString(&w, piece)
				}
				assert.Equal(t, out.String(), c.early)
				assert.NilError(t, w.Close())
				assert.Equal(t, out.String(), w.String())
				assert.NilError(t, w.Close())
				assert.Equal(t, out.String(), w.String())
			}
		})
	}
}

// A failingWriter takes the first 3 bytes, fails once, and would take all that follows.
type failingWriter struct {
	err    error
	failed bool
	got    strings.Builder
}

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.failed {
		return w.got.Write(p)
	}
	w.failed = true
	w.got.Write(p[:3])
	return 3, w.err
}

func TestCopierKeepsTheErrorForClose(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name      string
		err, want error
	}{
		{"error", broken, broken},
		{"short write", nil, io.ErrShortWrite},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := failingWriter{err: c.err}
			copier := Copier{Buffer: Buffer{Limit: 100}, W: &w}
			for range 50 {
				n, err := io.WriteString(&copier, "hello")
				assert.NilError(t, err)
				assert.Equal(t, n, 5)
			}
			assert.ErrorIs(t, copier.Close(), c.want)
			assert.ErrorIs(t, copier.Close(), c.want)
			assert.Equal(t, w.got.String(), "hel")
			assert.Equal(t, copier.Total(), int64(250))
			assert.Equal(t, copier.Dropped(), int64(150))
		})
	}
}

func TestCopierAfterClose(t *testing.T) {
	var out strings.Builder
	w := Copier{Buffer: Buffer{Limit: 100}, W: &out}
	io.WriteString(&w, "one")
	assert.NilError(t, w.Close())
	n, err := io.WriteString(&w, "two")
	assert.NilError(t, err)
	assert.Equal(t, n, 3)
	assert.Equal(t, out.String(), "one")
	assert.Equal(t, w.Total(), int64(6))
}

func TestCopierAllocatesNothing(t *testing.T) {
	w := Copier{Buffer: Buffer{Limit: 64 << 10}, W: io.Discard}
	for range 4 {
		w.Write(sample(64 << 10))
	}
	p := sample(80)
	noAllocs(t, func() { w.Write(p) })
}

func BenchmarkCopier(b *testing.B) {
	for _, size := range []int{80, 64 << 10, 64 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			p := sample(size)
			w := Copier{Buffer: Buffer{Limit: 256 << 10, MaxLines: 100}, W: io.Discard}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				w.Write(p)
			}
		})
	}
}
