package truncate

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// An Excerpt is the head and the tail that a [Buffer] has kept of an output.
type Excerpt struct {
	// Head and Tail are what was kept of the beginning and the end of the output. If
	// nothing was dropped, Head followed by Tail is the whole output.
	Head, Tail []byte
	// Dropped is how many bytes were between Head and Tail.
	Dropped int64
	// Lines is how many lines the whole output had. If nothing was dropped, it is
	// ignored.
	Lines int64
}

// Empty reports whether the output had nothing in it.
func (e Excerpt) Empty() bool { return len(e.Head)+len(e.Tail) == 0 && e.Dropped == 0 }

// Text returns the head and the tail within limit bytes and maxLines lines, neither of
// them cut inside a rune. Zero or less leaves no room. If that is not the whole output, a
// line of its own stands between them, like "... 123 bytes (4 lines) dropped ...", which
// counts everything that is left out. If there is no room for that line, Text returns
// nothing.
func (e Excerpt) Text(limit, maxLines int) string {
	head, tail := e.Head, e.Tail
	bytes, lines := int64(len(head)+len(tail))+e.Dropped, e.Lines
	if e.Dropped == 0 {
		text := append(head[:len(head):len(head)], tail...)
		if lines = countLines(text); len(text) <= limit && lines <= int64(max(0, maxLines)) {
			return string(text)
		}
		head, tail = text, text
	}
	limit, maxLines = limit-len("\n"+notice(bytes, lines)), maxLines-1
	if limit < 0 || maxLines < 0 {
		return ""
	}
	n := min(len(head), max(limit/2, limit-len(tail)))
	end, _ := runeAround(head, n)
	_, start := runeAround(tail, len(tail)-min(len(tail), limit-n))
	head, tail = head[:end], tail[start:]
	of := int(min(countLines(head), max(int64(maxLines/2), int64(maxLines)-countLines(tail))))
	head = firstLines(head, of)
	tail = lastLines(tail, maxLines-of)
	bytes -= int64(len(head) + len(tail))
	lines -= countLines(head) + countLines(tail)
	if len(head) > 0 && head[len(head)-1] != '\n' {
		return string(head) + "\n" + notice(bytes, max(0, lines)) + string(tail)
	}
	return string(head) + notice(bytes, max(0, lines)) + string(tail)
}

// Plain returns p as valid UTF-8 without escape sequences and control characters, except
// for newlines and tabs. If carriage returns overwrite a line, as those of a progress bar
// do, Plain returns only what follows the last of them. Every newline stays.
func Plain(p []byte) []byte {
	p = bytes.ToValidUTF8(p, []byte("\ufffd"))
	if bytes.IndexFunc(p, acted) < 0 {
		return p
	}
	text := make([]byte, 0, len(p))
	line := 0 // where the last line begins
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		switch {
		case r == '\x1b':
			n = escape(p)
		case r == '\r':
			n = len(p) - len(bytes.TrimLeft(p, "\r"))
			if n < len(p) && p[n] != '\n' {
				text = text[:line]
			}
		case !acted(r):
			text = append(text, p[:n]...)
		}
		if r == '\n' {
			line = len(text)
		}
		p = p[n:]
	}
	return text
}

// acted reports whether a terminal may do something else about r than show it.
func acted(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' || 0x7f <= r && r < 0xa0
}

// escape returns the length of the escape sequence that p begins with, as ECMA-48 has
// them. One that does not end, or is none, ends before the first byte that can't be part
// of it.
func escape(p []byte) int {
	within := func(i int, low, high byte) int {
		for i < len(p) && low <= p[i] && p[i] <= high {
			i++
		}
		return i
	}
	i := 1
	switch {
	case len(p) == 1:
		return 1
	case p[1] == '[':
		// Parameters, then intermediate bytes.
		i = within(within(2, '0', '?'), ' ', '/')
	case strings.IndexByte("]PX^_", p[1]) >= 0:
		// A string, up to its terminator. No terminal's goes on after the line.
		for i = 2; i < len(p) && p[i] != '\n'; i++ {
			if p[i] == '\a' {
				return i + 1
			}
			if p[i] == '\x1b' {
				if i+1 < len(p) && p[i+1] == '\\' {
					return i + 2
				}
				return i
			}
		}
		return i
	default:
		i = within(1, ' ', '/')
	}
	if i < len(p) && ' ' < p[i] && p[i] < 0x7f {
		return i + 1
	}
	return i
}
