package truncate

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"gotest.tools/v3/assert"
)

// A written is one piece of output; err says of which stream.
type written struct {
	err  bool
	text string
}

func out(s string) written  { return written{false, s} }
func errs(s string) written { return written{true, s} }

func (w written) to(t *Transcript) {
	stream := t.Stdout()
	if w.err {
		stream = t.Stderr()
	}
	io.WriteString(stream, w.text)
}

// observed is all that a Transcript tells.
type observed struct {
	Output           string
	Lines, Bytes     int64
	ByLines, ByBytes bool
}

func observe(t *Transcript) observed {
	return observed{t.Output(), t.TotalLines(), t.TotalBytes(), t.TruncatedByLines(), t.TruncatedByBytes()}
}

func numbers(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

func TestTranscript(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits limits
		in     []written
		want   observed
		exit   int
		text   string
	}{
		{name: "nothing",
			text: "<no output>"},
		{name: "nothing, failed", exit: 1,
			text: "<no output>\n\nExit code: 1"},
		{name: "plain", in: []written{out("hello\n")},
			want: observed{"hello\n", 1, 6, false, false},
			text: "hello\n"},
		{name: "no newline at the end", in: []written{out("hello")},
			want: observed{"hello", 1, 5, false, false},
			text: "hello"},
		{name: "failed", in: []written{out("hello \n\n")}, exit: 3,
			want: observed{"hello \n\n", 2, 8, false, false},
			text: "hello\n\nExit code: 3"},
		{name: "only space, failed", in: []written{out("\x1c\u00a0\u2028\n")}, exit: -1,
			want: observed{"\x1c\u00a0\u2028\n", 1, 7, false, false},
			text: "\n\nExit code: -1"},
		{name: "a zero-width space is not space", in: []written{out("a\u200b\n")}, exit: 1,
			want: observed{"a\u200b\n", 1, 5, false, false},
			text: "a\u200b\n\nExit code: 1"},

		{name: "carriage returns", in: []written{out("a\rb\rc\n")},
			want: observed{"a\nb\nc\n", 3, 6, false, false},
			text: "a\nb\nc\n"},
		{name: "invalid UTF-8", in: []written{out("\377\376ab\n")},
			want: observed{"\ufffd\ufffdab\n", 1, 9, false, false},
			text: "\ufffd\ufffdab\n"},

		{name: "twenty lines, five allowed", limits: limits{MaxLines: 5}, in: []written{out(numbers(1, 20))},
			want: observed{"1\n2\n3\n4\n5\n", 20, 51, true, false},
			text: "1\n2\n3\n4\n5\n\n... Output truncated at 5 lines (observed 20)."},
		{name: "lines, failed", limits: limits{MaxLines: 1}, in: []written{out("a\nb\n")}, exit: 2,
			want: observed{"a\n", 2, 4, true, false},
			text: "a\n\n... Output truncated at 1 lines (observed 2).\n\nExit code: 2"},
		{name: "lines equal", limits: limits{MaxLines: 5}, in: []written{out(numbers(1, 5))},
			want: observed{"1\n2\n3\n4\n5\n", 5, 10, false, false},
			text: "1\n2\n3\n4\n5\n"},
		{name: "an unfinished line is one too many", limits: limits{MaxLines: 2}, in: []written{out("1\n2\n3")},
			want: observed{"1\n2\n", 3, 5, true, false},
			text: "1\n2\n\n... Output truncated at 2 lines (observed 3)."},
		{name: "a hundred by default", in: []written{out(numbers(1, 101))},
			want: observed{numbers(1, 100), 101, 296, true, false},
			text: numbers(1, 100) + "\n... Output truncated at 100 lines (observed 101)."},
		{name: "lines without limit", limits: limits{MaxLines: -1}, in: []written{out(numbers(1, 200))},
			want: observed{numbers(1, 200), 200, 692, false, false},
			text: numbers(1, 200)},

		{name: "long first line", limits: limits{MaxBytes: 50}, in: []written{out(strings.Repeat("x", 100) + "\n")},
			want: observed{"", 1, 101, false, true},
			text: "<no output>\n\n... Output truncated at 50 bytes (observed 101)."},
		{name: "bytes equal", limits: limits{MaxBytes: 6}, in: []written{out("abc\nd\n")},
			want: observed{"abc\nd\n", 2, 6, false, false},
			text: "abc\nd\n"},
		{name: "newline over", limits: limits{MaxBytes: 5}, in: []written{out("abc\nd\n")},
			want: observed{"abc\n", 2, 6, false, true},
			text: "abc\n\n... Output truncated at 5 bytes (observed 6)."},
		{name: "no newline, not over", limits: limits{MaxBytes: 5}, in: []written{out("abc\nd")},
			want: observed{"abc\nd", 2, 5, false, false},
			text: "abc\nd"},
		{name: "short lines after a long one are dropped", limits: limits{MaxBytes: 5}, in: []written{out("abcdef\ng\n")},
			want: observed{"", 2, 9, false, true},
			text: "<no output>\n\n... Output truncated at 5 bytes (observed 9)."},
		{name: "replacements count", limits: limits{MaxBytes: 8}, in: []written{out("\377\376ab\n")},
			want: observed{"", 1, 9, false, true},
			text: "<no output>\n\n... Output truncated at 8 bytes (observed 9)."},
		{name: "a line over both limits is over lines", limits: limits{MaxLines: 1, MaxBytes: 3},
			in:   []written{out("a\nbcd\n")},
			want: observed{"a\n", 2, 6, true, false},
			text: "a\n\n... Output truncated at 1 lines (observed 2)."},
		{name: "bytes, then lines", limits: limits{MaxLines: 2, MaxBytes: 3}, in: []written{out("a\nbcd\ne\n")},
			want: observed{"a\n", 3, 8, true, true},
			text: "a\n\n... Output truncated at 2 lines (observed 3).\n\n... Output truncated at 3 bytes (observed 8)."},
		{name: "cap", limits: limits{Cap: 3}, in: []written{out("a\nbcd\n")},
			want: observed{"a\n", 2, 6, false, true},
			text: "a\n\n... Output truncated at 3 bytes (observed 6)."},
		{name: "bytes without cap", limits: limits{MaxBytes: 6, Cap: 3}, in: []written{out("a\nbcd\n")},
			want: observed{"a\nbcd\n", 2, 6, false, false},
			text: "a\nbcd\n"},
		{name: "default cap", in: []written{out(strings.Repeat("x", 3<<20))},
			want: observed{"", 1, 3 << 20, false, true},
			text: "<no output>\n\n... Output truncated at 1048576 bytes (observed 3145728)."},

		{name: "standard error", in: []written{errs("error\n")},
			want: observed{"[stderr] error\n", 1, 6, false, false},
			text: "[stderr] error\n"},
		{name: "standard error without newline", in: []written{errs("error")},
			want: observed{"[stderr] error", 1, 5, false, false},
			text: "[stderr] error"},
		{name: "standard error, empty lines", in: []written{errs("\n\r\na\n")},
			want: observed{"[stderr] \n[stderr] \n[stderr] a\n", 3, 4, false, false},
			text: "[stderr] \n[stderr] \n[stderr] a\n"},
		{name: "the mark is not counted", limits: limits{MaxBytes: 2}, in: []written{errs("a\n")},
			want: observed{"[stderr] a\n", 1, 2, false, false},
			text: "[stderr] a\n"},
		{name: "both streams share the limits", limits: limits{MaxLines: 2},
			in:   []written{out("a\n"), errs("b\n"), out("c\n")},
			want: observed{"a\n[stderr] b\n", 3, 6, true, false},
			text: "a\n[stderr] b\n\n... Output truncated at 2 lines (observed 3)."},
		{name: "in the order in which lines end", in: []written{out("a"), errs("b\n"), out("c\n")},
			want: observed{"[stderr] b\nac\n", 2, 5, false, false},
			text: "[stderr] b\nac\n"},
		{name: "a line ends after what follows its carriage return", in: []written{out("a\r"), errs("b\n"), out("\nc\n")},
			want: observed{"[stderr] b\na\nc\n", 3, 6, false, false},
			text: "[stderr] b\na\nc\n"},
		{name: "unfinished lines in order", in: []written{errs("b"), out("a")},
			want: observed{"a[stderr] b", 2, 2, false, false},
			text: "a[stderr] b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.limits.check(t, c.in, c.want)
			transcript := c.limits.transcript()
			for _, w := range c.in {
				w.to(transcript)
			}
			assert.Equal(t, transcript.Text(c.exit, true), c.text)
			assert.Equal(t, transcript.Text(c.exit, true), c.text)
		})
	}
}

// limits are the fields of a Transcript.
type limits struct{ MaxLines, MaxBytes, Cap int }

func (l limits) transcript() *Transcript {
	return &Transcript{MaxLines: l.MaxLines, MaxBytes: l.MaxBytes, Cap: l.Cap}
}

// check checks what a Transcript with the limits l tells of in, however that is cut.
func (l limits) check(t *testing.T, in []written, want observed) {
	t.Helper()
	for seed := range uint64(4) {
		transcript := l.transcript()
		for _, w := range in {
			for _, piece := range chunks(w.text, seed) {
				written{w.err, piece}.to(transcript)
			}
		}
		assert.NilError(t, transcript.Close())
		assert.DeepEqual(t, observe(transcript), want)
	}
}

func TestTranscriptExitUnknown(t *testing.T) {
	var transcript Transcript
	out("hello\n").to(&transcript)
	assert.Equal(t, transcript.Text(1, false), "hello\n")
}

func TestTranscriptTextModeIsPythons(t *testing.T) {
	golden, err := os.ReadFile("testdata/textmode.golden")
	assert.NilError(t, err)
	unhex := func(s string) string {
		b, err := hex.DecodeString(strings.TrimPrefix(s, "-"))
		assert.NilError(t, err)
		return string(b)
	}
	for line := range strings.Lines(string(golden)) {
		var in, text string
		var lines int64
		_, err := fmt.Sscan(line, &in, &lines, &text)
		assert.NilError(t, err)
		text = unhex(text)
		limits{MaxLines: -1}.check(t, []written{out(unhex(in))}, observed{text, lines, int64(len(text)), false, false})
	}
}

func TestTranscriptOfConcurrentStreams(t *testing.T) {
	transcript := Transcript{MaxLines: 1000}
	var writers sync.WaitGroup
	for _, stream := range []io.WriteCloser{transcript.Stdout(), transcript.Stderr()} {
		writers.Go(func() {
			for range 100 {
				io.WriteString(stream, "on")
				io.WriteString(stream, "e\ntwo\r")
			}
			stream.Close()
		})
	}
	writers.Wait()
	assert.Equal(t, transcript.TotalLines(), int64(400))
	assert.Equal(t, transcript.TotalBytes(), int64(1600))
	for line := range strings.Lines(transcript.Output()) {
		line = strings.TrimPrefix(line, "[stderr] ")
		assert.Assert(t, line == "one\n" || line == "two\n", "%q", line)
	}
}

func TestTranscriptMemoryIsBounded(t *testing.T) {
	const limit = 10_000
	for _, p := range [][]byte{
		sample(64 << 10),
		[]byte(strings.Repeat("x", 64<<10)),
		[]byte(strings.Repeat("\xff", 64<<10)),
		[]byte(strings.Repeat("\r", 64<<10)),
	} {
		transcript := Transcript{MaxLines: -1, MaxBytes: limit}
		for range 10 {
			for _, stream := range []io.Writer{transcript.Stderr(), transcript.Stdout()} {
				stream.Write(p)
			}
		}
		held := cap(transcript.out.text) + cap(transcript.err.text) + cap(transcript.kept)
		assert.Assert(t, held <= 12*limit*5/4, "%d bytes held", held)
		assert.Assert(t, len(transcript.Output()) <= limit*10)
	}
}

// pythonText is what Python's text mode makes of s: of all of it, or of the beginning of
// more.
func pythonText(s string, final bool) string {
	var text strings.Builder
	for len(s) > 0 {
		lead, more, low, high := s[0], 0, byte(0x80), byte(0xbf)
		switch {
		case lead < 0x80:
		case lead < 0xc2 || lead > 0xf4:
			more = -1
		case lead < 0xe0:
			more = 1
		case lead < 0xf0:
			more = 2
		default:
			more = 3
		}
		switch lead {
		case 0xe0:
			low = 0xa0
		case 0xed:
			high = 0x9f
		case 0xf0:
			low = 0x90
		case 0xf4:
			high = 0x8f
		}
		n := 1
		for n <= more && n < len(s) && low <= s[n] && s[n] <= high {
			low, high = 0x80, 0xbf
			n++
		}
		if n == more+1 {
			text.WriteString(s[:n])
		} else if n == len(s) && more > 0 && !final {
			break
		} else {
			text.WriteRune(utf8.RuneError)
		}
		s = s[n:]
	}
	decoded := text.String()
	if !final {
		decoded = strings.TrimSuffix(decoded, "\r")
	}
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(decoded)
}

// shellTool is LangChain's loop over the lines of both streams, as they end.
func shellTool(in []written, maxLines, maxBytes int64) observed {
	var o observed
	line := func(err bool, line string) {
		o.Lines++
		o.Bytes += int64(len(line))
		if o.Lines > maxLines {
			o.ByLines = true
		} else if o.Bytes > maxBytes {
			o.ByBytes = true
		} else if err {
			o.Output += "[stderr] " + line
		} else {
			o.Output += line
		}
	}
	var read [2]string
	var seen [2]int
	step := func(err, final bool) {
		i := 0
		if err {
			i = 1
		}
		text := pythonText(read[i], final)
		for n := strings.IndexByte(text[seen[i]:], '\n'); n >= 0; n = strings.IndexByte(text[seen[i]:], '\n') {
			line(err, text[seen[i]:][:n+1])
			seen[i] += n + 1
		}
		if final && seen[i] < len(text) {
			line(err, text[seen[i]:])
		}
	}
	for _, w := range in {
		for j := range len(w.text) {
			if w.err {
				read[1] += w.text[j : j+1]
			} else {
				read[0] += w.text[j : j+1]
			}
			step(w.err, false)
		}
	}
	step(false, true)
	step(true, true)
	return o
}

func FuzzTranscript(f *testing.F) {
	f.Add("a\nb\r\nc\rd", "err\nor", uint64(1), 100, 50)
	f.Add("\377\376ab\n\xe2\x82", "\r\n\xed\xa0\x80\n", uint64(2), 3, 0)
	f.Add(numbers(1, 20), "x\ny\n", uint64(3), 5, 0)
	f.Add(strings.Repeat("x", 100)+"\n", "€😀\xf0\x9f\r", uint64(4), -1, 50)
	f.Fuzz(func(t *testing.T, stdout, stderr string, seed uint64, maxLines, maxBytes int) {
		// The model is quadratic.
		stdout, stderr = stdout[:min(len(stdout), 250)], stderr[:min(len(stderr), 250)]
		maxLines, maxBytes = maxLines%200, maxBytes%600
		l := limits{MaxLines: maxLines, MaxBytes: maxBytes}
		var in []written
		outs, errors := chunks(stdout, seed), chunks(stderr, seed+1)
		for len(outs)+len(errors) > 0 {
			if seed = seed*6364136223846793005 + 1; len(errors) == 0 || len(outs) > 0 && seed>>63 == 0 {
				in, outs = append(in, out(outs[0])), outs[1:]
			} else {
				in, errors = append(in, errs(errors[0])), errors[1:]
			}
		}
		l.check(t, in, shellTool(in, l.transcript().maxLines(), l.transcript().maxBytes()))
	})
}

func TestTranscriptTakesLittleMoreThanALongLine(t *testing.T) {
	takesLittleMore(t, func(p []byte, limit int) {
		tr := Transcript{MaxBytes: limit}
		w := tr.Stdout()
		for range 2 * limit / len(p) {
			w.Write(p)
		}
	})
}

func TestTranscriptGivesItsLinesBack(t *testing.T) {
	var tr Transcript
	tr.Stdout().Write(bytes.Repeat([]byte("x"), 1<<19))
	tr.Close()
	assert.Equal(t, len(tr.Output()), 1<<19)
	assert.Assert(t, tr.out.text == nil)
}

func TestTranscriptAllocatesNothing(t *testing.T) {
	for _, p := range [][]byte{
		sample(1), sample(80), sample(64 << 10), []byte("a\rb\r\n"), []byte("\xff\xe2\x82"), []byte("é€\n"),
	} {
		var transcript Transcript
		for _, stream := range []io.Writer{transcript.Stdout(), transcript.Stderr()} {
			for range 4 {
				stream.Write(sample(1 << 20))
			}
			noAllocs(t, func() { stream.Write(p) })
		}
	}
}

func BenchmarkTranscript(b *testing.B) {
	kinds := map[string]func(int) []byte{
		"ascii":  sample,
		"crlf":   func(n int) []byte { return []byte(strings.ReplaceAll(string(sample(n)), "x\n", "\r\n")) },
		"utf8":   func(n int) []byte { return []byte(strings.Repeat("naïve café €\n", n/17+1)[:n]) },
		"binary": func(n int) []byte { return []byte(strings.Repeat("\x00\xff\xfe\x7f\x80\n", n/6+1)[:n]) },
		"line":   func(n int) []byte { return []byte(strings.Repeat("x", n)) },
	}
	for _, kind := range []string{"ascii", "crlf", "utf8", "binary", "line"} {
		for _, size := range []int{80, 64 << 10, 64 << 20} {
			b.Run(fmt.Sprintf("%s/%d", kind, size), func(b *testing.B) {
				p := kinds[kind](size)
				var transcript Transcript
				stdout := transcript.Stdout()
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					stdout.Write(p)
				}
			})
		}
	}
}
