package main

import "strings"

// matches reports whether s is the pattern, in which "*" stands for any text.
func matches(pattern, s string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	s, ok := strings.CutPrefix(s, head)
	if !ok || !star {
		return ok && s == ""
	}
	for ; !matches(rest, s); s = s[1:] {
		if s == "" {
			return false
		}
	}
	return true
}

// shorten cuts out the middle of a text that would not fit on a line.
func shorten(s string) string {
	const head, tail = 70, 60
	if len(s) <= head+tail {
		return s
	}
	return strings.ToValidUTF8(s[:head], "") + " … " + strings.ToValidUTF8(s[len(s)-tail:], "")
}
