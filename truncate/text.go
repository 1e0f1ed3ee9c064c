package truncate

import (
	"bytes"
	"unicode/utf8"
)

var newline = []byte{'\n'}

// runeAround returns the bounds of the UTF-8 encoded rune of p that i lies strictly
// inside of, or i twice.
func runeAround(p []byte, i int) (start, end int) {
	for start := i - 1; start >= max(0, i-runeContext); start-- {
		if utf8.RuneStart(p[start]) {
			if _, n := utf8.DecodeRune(p[start:]); start+n > i {
				return start, start + n
			}
			break
		}
	}
	return i, i
}

// countLines counts a last line without a newline too.
func countLines(p []byte) int64 {
	n := int64(bytes.Count(p, newline))
	if len(p) > 0 && p[len(p)-1] != '\n' {
		n++
	}
	return n
}

func firstLines(p []byte, n int) []byte {
	end := 0
	for ; n > 0; n-- {
		i := bytes.IndexByte(p[end:], '\n')
		if i < 0 {
			return p
		}
		end += i + 1
	}
	return p[:end]
}

func lastLines(p []byte, n int) []byte {
	if len(p) == 0 {
		return p
	}
	// The newline that ends the last line separates nothing.
	start := len(p) - 1
	for ; n > 0; n-- {
		start = bytes.LastIndexByte(p[:start], '\n')
		if start < 0 {
			return p
		}
	}
	return p[start+1:]
}
