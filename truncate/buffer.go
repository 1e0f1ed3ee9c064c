package truncate

import (
	"bytes"
	"fmt"
	"math"
	"slices"
)

// A Buffer is an [io.Writer] that keeps the head and the tail of what is written to it,
// and counts the rest.
//
// A Buffer keeps everything until one of its limits is passed. After that it keeps a
// head, which is within the first Limit/2 bytes and the first MaxLines/2 lines, and a
// tail, which is within the last Limit-Limit/2 bytes and the last MaxLines-MaxLines/2
// lines. A cut by bytes that would fall inside a UTF-8 encoded rune drops the whole rune.
// Bytes that are not UTF-8 are kept as they are.
//
// A Buffer takes memory as the output grows, up to Limit and a few bytes more. The fields
// must not be changed after the first Write. A Buffer is not safe for concurrent use.
// That includes the methods that only read.
type Buffer struct {
	// Limit is the number of bytes kept. If zero or negative, nothing is kept and
	// everything is counted.
	Limit int

	// MaxLines is the number of lines kept. A line that is kept in part counts as one, on
	// each side of the cut. If zero or negative, lines are not limited.
	MaxLines int

	total    int64
	newlines int64
	open     bool // the last byte was not a newline

	// buf is the whole output until that no longer fits; from then on its first fixed()
	// bytes stay, and what follows them is the end of the output, as a ring whose oldest
	// byte is not the first until somebody looks.
	buf    []byte
	oldest int
}

// runeContext is the number of bytes on either side of a cut that tell whether it falls
// inside a rune.
const runeContext = 3

func (b *Buffer) headLimit() int { return b.Limit / 2 }
func (b *Buffer) tailLimit() int { return b.Limit - b.Limit/2 }
func (b *Buffer) fixed() int     { return b.headLimit() + runeContext }

// Write takes all of p. It always returns len(p) and nil.
func (b *Buffer) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	b.total += int64(len(p))
	b.newlines += int64(bytes.Count(p, newline))
	b.open = p[len(p)-1] != '\n'
	if b.Limit > 0 {
		b.keep(p)
	}
	return len(p), nil
}

func (b *Buffer) keep(p []byte) {
	fixed, window := b.fixed(), b.tailLimit()+runeContext
	bound := fixed + window
	if bound < 0 {
		bound = math.MaxInt
	}
	n := min(len(p), bound-len(b.buf))
	b.buf = append(room(b.buf, n, bound), p[:n]...)
	if p = p[n:]; len(p) == 0 {
		return
	}
	ring := b.buf[fixed:]
	if len(p) >= window {
		copy(ring, p[len(p)-window:])
		b.oldest = 0
		return
	}
	n = copy(ring[b.oldest:], p)
	b.oldest += n
	if b.oldest == window {
		b.oldest = copy(ring, p[n:])
	}
}

// straighten puts the oldest byte of the end first.
func (b *Buffer) straighten() {
	if b.oldest == 0 {
		return
	}
	ring := b.buf[b.fixed():]
	slices.Reverse(ring[:b.oldest])
	slices.Reverse(ring[b.oldest:])
	slices.Reverse(ring)
	b.oldest = 0
}

// room returns b with room for n more bytes, in four times its memory where that is not
// enough, but never beyond bound. Fresh memory costs more than what is written to it: on
// the way to the bound less than half of that is taken.
func room(b []byte, n, bound int) []byte {
	need := len(b) + n
	if need <= cap(b) {
		return b
	}
	size := max(need, 4*cap(b))
	if size > bound/3 {
		size = bound
	}
	grown := make([]byte, len(b), size)
	copy(grown, b)
	return grown
}

// Total returns the number of bytes written.
func (b *Buffer) Total() int64 { return b.total }

// Lines returns the number of lines written. A last line without a newline counts.
func (b *Buffer) Lines() int64 {
	if b.open {
		return b.newlines + 1
	}
	return b.newlines
}

// Dropped returns the number of bytes written that are not kept, including those dropped
// to keep runes and lines whole.
func (b *Buffer) Dropped() int64 {
	head, tail := b.cut()
	return b.dropped(head, tail)
}

// DroppedLines returns the number of lines of which nothing is kept.
func (b *Buffer) DroppedLines() int64 {
	head, tail := b.cut()
	return b.droppedLines(head, tail)
}

// Head returns the bytes kept before the cut: everything, if nothing was dropped. They
// are valid until the next Write.
func (b *Buffer) Head() []byte {
	head, _ := b.cut()
	return head
}

// Tail returns the bytes kept after the cut: none, if nothing was dropped. They are valid
// until the next Write.
func (b *Buffer) Tail() []byte {
	_, tail := b.cut()
	return tail
}

// Bytes returns a copy of the head and the tail, with nothing between them.
func (b *Buffer) Bytes() []byte {
	head, tail := b.cut()
	kept := make([]byte, 0, len(head)+len(tail))
	return append(append(kept, head...), tail...)
}

// String returns the head and the tail. If anything was dropped, a line of its own stands
// between them, like "... 123 bytes (4 lines) dropped ...". It does not mention lines if
// a part of every line is kept.
func (b *Buffer) String() string {
	head, tail := b.cut()
	return string(head) + b.notice(head, tail) + string(tail)
}

func (b *Buffer) dropped(head, tail []byte) int64 {
	return b.total - int64(len(head)) - int64(len(tail))
}

func (b *Buffer) droppedLines(head, tail []byte) int64 {
	// A line that is cut in its middle, with nothing else dropped, is in the head and in
	// the tail.
	return max(0, b.Lines()-countLines(head)-countLines(tail))
}

func (b *Buffer) notice(head, tail []byte) string {
	n := b.dropped(head, tail)
	if n == 0 {
		return ""
	}
	start := ""
	if len(head) > 0 && head[len(head)-1] != '\n' {
		start = "\n"
	}
	return start + notice(n, b.droppedLines(head, tail))
}

// notice returns the line that stands in place of what was dropped.
func notice(bytes, lines int64) string {
	of := ""
	if lines > 0 {
		of = " (" + quantity(lines, "line") + ")"
	}
	return "... " + quantity(bytes, "byte") + of + " dropped ...\n"
}

func quantity(n int64, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

// whole reports whether everything is kept.
func (b *Buffer) whole() bool {
	return b.total <= int64(max(0, b.Limit)) && (b.MaxLines <= 0 || b.Lines() <= int64(b.MaxLines))
}

// cut returns what is kept before and after the cut. They never overlap: past Limit
// because of their bytes, past MaxLines because of their lines.
func (b *Buffer) cut() (head, tail []byte) {
	if b.whole() {
		return b.buf, nil
	}
	if b.Limit <= 0 {
		return nil, nil
	}
	b.straighten()
	start, _ := runeAround(b.buf, min(b.headLimit(), len(b.buf)))
	_, end := runeAround(b.buf, max(0, len(b.buf)-b.tailLimit()))
	head, tail = b.buf[:start], b.buf[end:]
	if b.MaxLines > 0 {
		head = firstLines(head, b.MaxLines/2)
		tail = lastLines(tail, b.MaxLines-b.MaxLines/2)
	}
	return head, tail
}
