// Package render lays out what a command printed, and how it ended, as one text within
// bounds.
package render

import (
	"bytes"
	"cmp"
	"strings"
	"unicode/utf8"

	"github.com/seed-64a260eb/cofferdam/truncate"
)

const heading = "[stderr]\n"

// Text returns stdout; then stderr below a heading; and last, below an empty line, end,
// which has no newline at its end. What is empty is left out; if that is all, the text is
// "<no output>". It has at most that many bytes and lines: end comes first, and of the
// room that it leaves each stream has half, with what the other does not need.
func Text(stdout, stderr truncate.Excerpt, end string, limit, lines int) string {
	if stdout.Empty() && stderr.Empty() {
		return clamp(cmp.Or(end, "<no output>"), limit, lines)
	}
	room, roomLines := limit, lines
	if end != "" {
		// It stands below the last newline and an empty line.
		room -= len("\n\n") + len(end)
		roomLines -= 2 + strings.Count(end, "\n")
	}
	text := output(stdout, stderr, room, roomLines)
	switch {
	case end == "":
		return clamp(text, limit, lines)
	case text == "":
		return clamp(end, limit, lines)
	}
	return clamp(withNewline(text)+"\n"+end, limit, lines)
}

// output returns what of both streams there is room for.
func output(stdout, stderr truncate.Excerpt, limit, lines int) string {
	if !stderr.Empty() {
		limit -= len("\n" + heading)
		lines--
	}
	first := stdout.Text(max(limit/2, limit-bytesOf(stderr)), max(lines/2, lines-linesOf(stderr)))
	second := stderr.Text(limit-len(first), lines-strings.Count(withNewline(first), "\n"))
	if second == "" {
		return first
	}
	return withNewline(first) + heading + second
}

// noticeRoom is more than the line takes that stands in place of what was dropped.
const noticeRoom = 80

// bytesOf returns how many bytes show all of an excerpt.
func bytesOf(e truncate.Excerpt) int {
	n := len(e.Head) + len(e.Tail)
	if e.Dropped > 0 {
		n += noticeRoom
	}
	return n
}

// linesOf returns how many lines show all of an excerpt.
func linesOf(e truncate.Excerpt) int {
	if e.Empty() {
		return 0
	}
	n := bytes.Count(e.Head, []byte("\n")) + bytes.Count(e.Tail, []byte("\n")) + 1
	if e.Dropped > 0 {
		n += 2
	}
	return n
}

// withNewline returns text with a newline at its end, if there is any.
func withNewline(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// clamp returns as much of the beginning of a text as the bounds allow.
func clamp(text string, limit, lines int) string {
	if len(text) > limit {
		for limit > 0 && !utf8.RuneStart(text[limit]) {
			limit--
		}
		text = text[:limit]
	}
	end := 0
	for rest := range strings.Lines(text) {
		if lines--; lines < 0 {
			break
		}
		end += len(rest)
	}
	return text[:end]
}
