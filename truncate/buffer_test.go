package truncate

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"gotest.tools/v3/assert"
)

func TestBuffer(t *testing.T) {
	for _, c := range []struct {
		name         string
		limit, lines int
		in           string
		head, tail   string
		droppedLines int64
		text         string
	}{
		{"empty", 10, 0, "", "", "", 0, ""},
		{"below", 10, 0, "ab\ncd", "ab\ncd", "", 0, "ab\ncd"},
		{"equal", 10, 0, "0123456789", "0123456789", "", 0, "0123456789"},
		{"one more", 10, 0, "0123456789a", "01234", "6789a", 0, "01234\n... 1 byte dropped ...\n6789a"},
		{"odd", 5, 0, "0123456789", "01", "789", 0, "01\n... 5 bytes dropped ...\n789"},
		{"one byte", 1, 0, "ab", "", "b", 0, "... 1 byte dropped ...\nb"},
		{"nothing kept", 0, 0, "a\nb", "", "", 2, "... 3 bytes (2 lines) dropped ...\n"},
		{"negative", -5, 0, "a\nb\n", "", "", 2, "... 4 bytes (2 lines) dropped ...\n"},
		{"nothing kept of nothing", 0, 0, "", "", "", 0, ""},
		{"between lines", 8, 0, "1\n2\n3\n4\n5\n", "1\n2\n", "4\n5\n", 1, "1\n2\n... 2 bytes (1 line) dropped ...\n4\n5\n"},
		{"inside lines", 8, 0, "abcdef\ng\nhijklm\n", "abcd", "klm\n", 1, "abcd\n... 8 bytes (1 line) dropped ...\nklm\n"},

		{"lines equal", 100, 4, "1\n2\n3\n4\n", "1\n2\n3\n4\n", "", 0, "1\n2\n3\n4\n"},
		{"lines equal, last open", 100, 4, "1\n2\n3\n4", "1\n2\n3\n4", "", 0, "1\n2\n3\n4"},
		{"lines more", 100, 4, "1\n2\n3\n4\n5\n", "1\n2\n", "4\n5\n", 1, "1\n2\n... 2 bytes (1 line) dropped ...\n4\n5\n"},
		{"lines more, last open", 100, 4, "1\n2\n3\n4\n5", "1\n2\n", "4\n5", 1,
			"1\n2\n... 2 bytes (1 line) dropped ...\n4\n5"},
		{"lines odd", 100, 3, "1\n2\n3\n4\n5\n", "1\n", "4\n5\n", 2, "1\n... 4 bytes (2 lines) dropped ...\n4\n5\n"},
		{"one line", 100, 1, "1\n2\n3\n", "", "3\n", 2, "... 4 bytes (2 lines) dropped ...\n3\n"},
		{"empty lines", 100, 2, "\n\n\n\n", "\n", "\n", 2, "\n... 2 bytes (2 lines) dropped ...\n\n"},
		{"one long line", 4, 2, "abcdefgh\n", "ab", "h\n", 0, "ab\n... 5 bytes dropped ...\nh\n"},
		{"lines first, then bytes", 8, 2, "abcdefgh\ni\nj\n", "abcd", "j\n", 1,
			"abcd\n... 7 bytes (1 line) dropped ...\nj\n"},

		{"rune at the head", 6, 0, "ab€cdefg", "ab", "efg", 0, "ab\n... 5 bytes dropped ...\nefg"},
		{"rune at the tail", 6, 0, "abcdef€g", "abc", "g", 0, "abc\n... 6 bytes dropped ...\ng"},
		{"rune of four", 8, 0, "😀😀😀", "😀", "😀", 0, "😀\n... 4 bytes dropped ...\n😀"},
		{"rune of four, late", 8, 0, "a😀😀😀", "a", "😀", 0, "a\n... 8 bytes dropped ...\n😀"},
		{"rune over both cuts", 2, 0, "a€b", "a", "b", 0, "a\n... 3 bytes dropped ...\nb"},
		{"replacement rune", 6, 0, "ab\uFFFDcdefg", "ab", "efg", 0, "ab\n... 5 bytes dropped ...\nefg"},
		{"binary", 6, 0, "\xff\xff\xe2\x82\x80\x80\x80\xff", "\xff\xff", "\x80\x80\xff", 0, ""},
		{"not a rune", 6, 0, "ab\xe2zz\x82\x82\x82", "ab\xe2", "\x82\x82\x82", 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := Buffer{Limit: c.limit, MaxLines: c.lines}
			n, err := io.WriteString(&b, c.in)
			assert.NilError(t, err)
			assert.Equal(t, n, len(c.in))
			assert.Equal(t, string(b.Head()), c.head)
			assert.Equal(t, string(b.Tail()), c.tail)
			assert.Equal(t, string(b.Bytes()), c.head+c.tail)
			assert.Equal(t, b.Total(), int64(len(c.in)))
			assert.Equal(t, b.Dropped(), int64(len(c.in)-len(c.head)-len(c.tail)))
			assert.Equal(t, b.DroppedLines(), c.droppedLines)
			if c.text != "" || c.in == "" {
				assert.Equal(t, b.String(), c.text)
			}
		})
	}
}

// naive is what a Buffer keeps, read off its documentation.
func naive(s string, limit, maxLines int) (head, tail string, dropped bool) {
	limit = max(0, limit)
	lines := strings.SplitAfter(s, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	if len(s) <= limit && (maxLines <= 0 || len(lines) <= maxLines) {
		return s, "", false
	}
	// The cuts of the head and of the tail, by bytes.
	i, j := min(limit/2, len(s)), max(0, len(s)-(limit-limit/2))
	for at := 0; at < len(s); {
		_, n := utf8.DecodeRuneInString(s[at:])
		// Decoding from the beginning meets the same runes as looking around the cut,
		// since no rune begins inside one.
		if at < limit/2 && limit/2 < at+n {
			i = at
		}
		if cut := len(s) - (limit - limit/2); at < cut && cut < at+n {
			j = at + n
		}
		at += n
	}
	if maxLines > 0 {
		i = min(i, len(strings.Join(lines[:min(len(lines), maxLines/2)], "")))
		j = max(j, len(strings.Join(lines[:max(0, len(lines)-(maxLines-maxLines/2))], "")))
	}
	return s[:i], s[j:], true
}

func naiveText(s string, limit, maxLines int) string {
	head, tail, dropped := naive(s, limit, maxLines)
	if !dropped {
		return s
	}
	gone := s[len(head) : len(s)-len(tail)]
	// Of the lines that the gone part touches, those that begin in it and end in it.
	lines := strings.Count(gone, "\n")
	inHead := head != "" && !strings.HasSuffix(head, "\n")
	endsInTail := tail != "" && !strings.HasSuffix(gone, "\n")
	if !endsInTail && !strings.HasSuffix(gone, "\n") {
		lines++
	}
	if inHead && lines > 0 {
		lines--
	}
	notice := fmt.Sprintf("... %d bytes (%d lines) dropped ...\n", len(gone), lines)
	notice = strings.ReplaceAll(notice, " 1 bytes", " 1 byte")
	notice = strings.ReplaceAll(notice, "(1 lines)", "(1 line)")
	notice = strings.ReplaceAll(notice, " (0 lines)", "")
	if inHead {
		notice = "\n" + notice
	}
	return head + notice + tail
}

func FuzzBuffer(f *testing.F) {
	f.Add("0123456789", 5, 0, uint64(1))
	f.Add("a\nb\nc\nd\n", 100, 2, uint64(2))
	f.Add("a€😀\xff\xe2\x82\n\n\xf0\x9f\x98\x80", 7, 3, uint64(3))
	f.Add(strings.Repeat("0123456789\n", 200), 64, 9, uint64(4))
	f.Fuzz(func(t *testing.T, s string, limit, maxLines int, seed uint64) {
		limit %= 1 << 12
		var out bytes.Buffer
		c := Copier{Buffer: Buffer{Limit: limit, MaxLines: maxLines}, W: &out}
		b := Buffer{Limit: limit, MaxLines: maxLines}
		for _, piece := range chunks(s, seed) {
			for _, w := range []io.Writer{&b, &c} {
				n, err := io.WriteString(w, piece)
				assert.NilError(t, err)
				assert.Equal(t, n, len(piece))
			}
			assert.Assert(t, strings.HasPrefix(s, out.String()), "%q passed on early", out.String())
		}
		head, tail, _ := naive(s, limit, maxLines)
		assert.Equal(t, string(b.Head()), head)
		assert.Equal(t, string(b.Tail()), tail)
		assert.Equal(t, string(b.Bytes()), head+tail)
		assert.Equal(t, b.Total(), int64(len(s)))
		assert.Equal(t, b.Dropped(), int64(len(s)-len(head)-len(tail)))
		lines := strings.Count(s, "\n")
		if s != "" && !strings.HasSuffix(s, "\n") {
			lines++
		}
		assert.Equal(t, b.Lines(), int64(lines))
		assert.Equal(t, b.String(), naiveText(s, limit, maxLines))
		assert.Assert(t, len(head)+len(tail) <= max(0, limit))
		assert.Assert(t, cap(b.buf) <= 3*max(0, limit)/2+16, "%d bytes held for %d", cap(b.buf), limit)
		assert.NilError(t, c.Close())
		assert.Equal(t, out.String(), b.String())
	})
}

func TestBufferAtEveryLength(t *testing.T) {
	s := strings.Repeat("a€\n😀é\xff", 20)
	for limit := range 40 {
		for _, maxLines := range []int{0, 3} {
			b := Buffer{Limit: limit, MaxLines: maxLines}
			for i := range len(s) {
				io.WriteString(&b, s[i:i+1])
				assert.Equal(t, b.String(), naiveText(s[:i+1], limit, maxLines))
			}
		}
	}
}

func TestBufferGrowsWithItsContent(t *testing.T) {
	b := Buffer{Limit: 1 << 30}
	io.WriteString(&b, "small")
	assert.Assert(t, cap(b.buf) <= 1024, "%d bytes held", cap(b.buf))

	b = Buffer{Limit: 1000}
	for range 100 {
		b.Write(sample(64 << 10))
	}
	assert.Assert(t, cap(b.buf) <= 1512, "%d bytes held", cap(b.buf))
}

func TestBufferTakesLittleMoreThanItKeeps(t *testing.T) {
	takesLittleMore(t, func(p []byte, limit int) {
		b := Buffer{Limit: limit}
		for range 2 * limit / len(p) {
			b.Write(p)
		}
	})
}

func TestBufferAllocatesNothing(t *testing.T) {
	for _, size := range []int{1, 80, 4 << 10, 1 << 20} {
		p := sample(size)
		for _, b := range []*Buffer{{}, {Limit: 64 << 10}, {Limit: 64 << 10, MaxLines: 100}} {
			for range 4 {
				b.Write(sample(64 << 10))
			}
			noAllocs(t, func() { b.Write(p) })
		}
	}
}

func BenchmarkBuffer(b *testing.B) {
	for _, size := range []int{80, 64 << 10, 64 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			p := sample(size)
			buf := Buffer{Limit: 256 << 10, MaxLines: 100}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				buf.Write(p)
			}
		})
	}
}
