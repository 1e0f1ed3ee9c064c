// Package shellquote writes words for POSIX shells.
package shellquote

import "strings"

// Quote returns s as one word of a POSIX shell.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// IsName reports whether s is a name as POSIX shells have them: letters, digits and "_",
// not beginning with a digit.
func IsName(s string) bool {
	for i, r := range s {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}
