package shellquote_test

import (
	"os/exec"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
)

// A shell reads a quoted word as what it was.
func FuzzQuote(f *testing.F) {
	f.Add("a'b\n\\ $x `y` \"")
	f.Fuzz(func(t *testing.T, s string) {
		if strings.Contains(s, "\x00") || len(s) > 1<<16 {
			return // no argument of a program
		}
		out, err := exec.Command("/bin/sh", "-c", "printf %s "+shellquote.Quote(s)).Output()
		assert.NilError(t, err)
		assert.Equal(t, string(out), s)
	})
}

func TestIsName(t *testing.T) {
	for name, want := range map[string]bool{"a": true, "_A1": true, "": false, "1a": false, "a-b": false, "é": false, "a\n": false} {
		assert.Equal(t, shellquote.IsName(name), want, "%q", name)
	}
}
