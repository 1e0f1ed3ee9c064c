package container

import (
	"strings"
	"unicode"

	"github.com/seed-64a260eb/cofferdam/internal/problems"
)

// CheckCapabilities reports words that can't be names of capabilities. The engine decides
// which names exist.
func CheckCapabilities(names []string) problems.List {
	var found problems.List
	for _, name := range names {
		if name == "" || strings.ContainsFunc(name, NotPrinted) {
			found.Add("AddCapabilities has %q: it has to be like \"NET_BIND_SERVICE\"", name)
		}
	}
	return found
}

// NotPrinted reports whether a rune shows as nothing, such as a space: no name that an
// engine takes has one.
func NotPrinted(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }
