package render

import (
	"strings"
	"unicode"
)

// Line returns text that moves no cursor and ends no line: "?" takes the place of each
// character that can't be printed, and "…" that of what exceeds limit characters.
func Line(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > limit {
		text = string(runes[:limit]) + "…"
	}
	return text
}
