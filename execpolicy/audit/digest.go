package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
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

// digest returns the digest of a command line.
func digest(argv []string) string {
	h := sha256.New()
	operands := false
	for _, word := range argv {
		operands = operands || word == "--"
		if operands || !slices.ContainsFunc(drawn, func(flag string) bool { return strings.HasPrefix(word, flag) }) {
			// No argument holds a NUL byte.
			h.Write([]byte(word + "\x00"))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
