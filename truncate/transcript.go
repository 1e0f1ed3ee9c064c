package truncate

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"unicode"
)

// The defaults of a [Transcript].
const (
	DefaultMaxLines = 100     // LangChain's max_output_lines
	DefaultCap      = 1 << 20 // bytes
)

// A Transcript keeps the first lines of a command's two streams, in the order in which
// the lines end, and renders them as LangChain's shell tool does, to the byte.
//
// The streams are read as Python's text mode reads them. They are UTF-8, with U+FFFD in
// place of invalid bytes. A line ends with "\n", "\r\n" or "\r", and each of these
// becomes "\n". A line is kept whole or not at all. It is dropped if MaxLines lines came
// before it, or if all lines up to its end have more than MaxBytes bytes together. So
// everything after the first dropped line is dropped too. Dropped lines are counted.
//
// Each of the two unfinished lines takes no more memory than the byte limit. Nor does the
// kept text, not counting the marks of standard error, which are nine bytes a line; its
// slice grows as append's do, and may have more room than that. A Transcript is safe for
// concurrent use, but must not be copied, and its fields must not be changed after the
// first Write.
type Transcript struct {
	// MaxLines is the number of lines kept of both streams together. If zero, it is
	// [DefaultMaxLines]; if negative, lines are not limited.
	MaxLines int

	// MaxBytes is the number of bytes kept of both streams together, as UTF-8 and without
	// the marks of standard error. If zero or negative, only Cap limits them.
	MaxBytes int

	// Cap is the limit in bytes if MaxBytes sets none, because memory must be bounded. A
	// Transcript that reaches it says so in the words for MaxBytes. If zero or negative,
	// it is [DefaultCap].
	Cap int

	mu       sync.Mutex
	out, err stream
	kept     []byte
	lines    int64
	bytes    int64
	byLines  bool
	byBytes  bool
}

// Stdout returns the writer for standard output. Write takes all of its argument and
// Close ends a last line without a newline; neither ever fails. What is written after
// Close begins a new line.
func (t *Transcript) Stdout() io.WriteCloser { return t.writer(&t.out) }

// Stderr returns the writer for standard error, which is like that of Stdout.
func (t *Transcript) Stderr() io.WriteCloser { return t.writer(&t.err) }

func (t *Transcript) writer(s *stream) io.WriteCloser {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.t != t { // another writer of the stream may be in use
		s.t = t
	}
	return s
}

// Close ends the last line of each stream, that of standard output first. It always
// returns nil. The other methods see a line only once it has ended.
func (t *Transcript) Close() error {
	t.Stdout().Close()
	t.Stderr().Close()
	return nil
}

// TotalLines returns the number of lines of both streams, including those dropped.
func (t *Transcript) TotalLines() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lines
}

// TotalBytes returns the number of bytes of all lines as text: each "\r\n" is one byte,
// each U+FFFD three.
func (t *Transcript) TotalBytes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes
}

// TruncatedByLines reports whether a line was dropped because of MaxLines.
func (t *Transcript) TruncatedByLines() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byLines
}

// TruncatedByBytes reports whether a line that MaxLines allows was dropped because of
// MaxBytes or Cap.
func (t *Transcript) TruncatedByBytes() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byBytes
}

// Output returns the kept lines. Those of standard error begin with "[stderr] ".
func (t *Transcript) Output() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}

// Text closes the transcript and returns the text for a model: the output, or "<no
// output>", then the notices of what was dropped, then the exit code unless it is 0 or
// not known.
func (t *Transcript) Text(exit int, known bool) string {
	t.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	text := string(t.kept)
	if text == "" {
		text = "<no output>"
	}
	if t.byLines {
		text = paragraph(text, fmt.Sprintf("... Output truncated at %d lines (observed %d).", t.maxLines(), t.lines))
	}
	if t.byBytes {
		text = paragraph(text, fmt.Sprintf("... Output truncated at %d bytes (observed %d).", t.maxBytes(), t.bytes))
	}
	if known && exit != 0 {
		text = paragraph(text, fmt.Sprintf("Exit code: %d", exit))
	}
	return text
}

func paragraph(text, next string) string {
	// Python's rstrip takes the four ASCII separators for space too.
	return strings.TrimRightFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f
	}) + "\n\n" + next
}

func (t *Transcript) maxLines() int64 {
	switch {
	case t.MaxLines > 0:
		return int64(t.MaxLines)
	case t.MaxLines < 0:
		return math.MaxInt64
	}
	return DefaultMaxLines
}

func (t *Transcript) maxBytes() int64 {
	switch {
	case t.MaxBytes > 0:
		return int64(t.MaxBytes)
	case t.Cap > 0:
		return int64(t.Cap)
	}
	return DefaultCap
}

// full reports whether no further line can be kept.
func (t *Transcript) full() bool {
	return t.lines >= t.maxLines() || t.bytes > t.maxBytes()
}

// A line is the unfinished line of a stream.
type line struct {
	size int64  // of all its text so far
	text []byte // unless lost
	lost bool   // it is too long or too late to be kept
}

// add adds text, which has no line end in it, to l.
func (t *Transcript) add(l *line, text []byte) {
	l.size += int64(len(text))
	// No total ever shrinks, so what can't be kept now can't be kept later.
	if l.lost = l.lost || t.full() || l.size > t.maxBytes()-t.bytes; l.lost {
		l.text = nil
		return
	}
	l.text = append(room(l.text, len(text), int(t.maxBytes())), text...)
}

// finish counts l, keeps it if the limits allow, and begins the next. A line at the end
// of a stream may lack its end.
func (t *Transcript) finish(l *line, mark, end string) {
	t.lines++
	t.bytes += l.size + int64(len(end))
	switch {
	case t.lines > t.maxLines():
		t.byLines = true
	case t.bytes > t.maxBytes():
		t.byBytes = true
	default:
		t.kept = append(t.kept, mark...)
		t.kept = append(t.kept, l.text...)
		t.kept = append(t.kept, end...)
	}
	*l = line{text: l.text[:0]}
}

// addLines adds text, in which only newlines end a line, to l and what follows it.
func (t *Transcript) addLines(l *line, mark string, text []byte) {
	for !t.full() {
		i := bytes.IndexByte(text, '\n')
		if i < 0 {
			break
		}
		t.add(l, text[:i])
		t.finish(l, mark, "\n")
		text = text[i+1:]
	}
	if t.full() {
		// Nothing is left to do but count, many lines at a time. The flag for bytes was
		// set when they ran over.
		if last := bytes.LastIndexByte(text, '\n'); last >= 0 {
			t.lines += int64(bytes.Count(text, newline))
			t.bytes += l.size + int64(last) + 1
			t.byLines = t.byLines || t.lines > t.maxLines()
			*l = line{}
			text = text[last+1:]
		}
	}
	if len(text) > 0 {
		t.add(l, text)
	}
}
