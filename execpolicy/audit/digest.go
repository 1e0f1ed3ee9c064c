package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/seed-64a260eb/cofferdam/internal/fifo"
)

// drawn are the flags whose values are another with each container, and say nothing of
// how it is isolated.
var drawn = func() []string {
	flags := []string{"--name="}
	for _, label := range []string{"name", "host", "boot", "pidns", "pid", "timens", "pid-start", "created", "expires"} {
		flags = append(flags, "--label=cofferdam."+label+"=")
	}
	return flags
}()

// isDrawn reports whether a word is one of those flags, or mounts the FIFOs of one
// container.
func isDrawn(word string) bool {
	return strings.HasPrefix(word, "--mount=type=bind,source=") && strings.HasSuffix(word, ",target="+fifo.Target+",readonly") ||
		slices.ContainsFunc(drawn, func(flag string) bool { return strings.HasPrefix(word, flag) })
}

// digest returns the digest of a command line.
func digest(argv []string) string {
	h := sha256.New()
	operands := false
	for _, word := range argv {
		operands = operands || word == "--"
		if operands || !isDrawn(word) {
			// No argument holds a NUL byte.
			h.Write([]byte(word + "\x00"))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
