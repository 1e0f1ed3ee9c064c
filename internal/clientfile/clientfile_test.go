package clientfile

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"gotest.tools/v3/assert"
)

// A client that ends before it has read all lets nobody wait, also if something that it
// has started keeps the reading end.
func TestFillEndsWithTheClient(t *testing.T) {
	r, w, err := os.Pipe()
	assert.NilError(t, err)
	defer r.Close()
	done := make(chan struct{})
	close(done)
	fill(w, strings.Repeat("x", 1<<20), done)
	_, err = io.Copy(io.Discard, r)
	assert.NilError(t, err)
}

// A shell gives its command the text, whatever is in it.
func FuzzHereDocument(f *testing.F) {
	profile, err := os.ReadFile("../../execpolicy/seccomp.json")
	assert.NilError(f, err)
	for _, seed := range []string{string(profile), "", "\n", "EOF", "a\nEOF\nb\nEOF_", "$x `y` \\ 'z'",
		"a\r\n\n", "é漢”\x01\u0094"} {
		f.Add(seed)
	}
	_, noShell := exec.LookPath("sh")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsRune(text, 0) || !utf8.ValidString(text) || noShell != nil {
			return // it is no JSON, or no argument
		}
		if strings.Contains("\n"+text, "\nE") &&
			strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) {
			return // dash loses such a byte after the delimiter's first letters, with which no line of JSON begins
		}
		out, err := exec.Command("sh", "-c", "cat /dev/fd/3"+HereDocument(text)).Output()
		assert.NilError(t, err)
		assert.Equal(t, string(out), strings.TrimSuffix(text, "\n")+"\n")
	})
}
