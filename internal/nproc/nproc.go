// Package nproc tells how many processes of one user podman may be asked to allow.
package nproc

import (
	"strconv"
	"strings"
)

// Everywhere is a limit that every host allows.
const Everywhere = 4096

// CountsOutside reports whether a kernel of that release counts, for a process in a user
// namespace, also those that its user has outside of it. Linux did before 5.14.
func CountsOutside(release string) bool {
	first, rest, _ := strings.Cut(release, ".")
	second, _, _ := strings.Cut(rest, ".")
	major, err := strconv.Atoi(first)
	if err != nil {
		return false
	}
	minor, err := strconv.Atoi(second)
	return err == nil && (major < 5 || major == 5 && minor < 14)
}
