package limits

import (
	"strconv"
	"strings"
)

// everywhere is a limit that every host allows.
const everywhere = 4096

// countsOutside reports whether a kernel of that release counts, for a process in a user
// namespace, also those that its user has outside of it. Linux did before 5.14.
func countsOutside(release string) bool {
	first, rest, _ := strings.Cut(release, ".")
	second, _, _ := strings.Cut(rest, ".")
	major, err := strconv.Atoi(first)
	if err != nil {
		return false
	}
	minor, err := strconv.Atoi(second)
	return err == nil && (major < 5 || major == 5 && minor < 14)
}
