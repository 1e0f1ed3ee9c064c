package setup

import (
	"io"
	"os"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestBar(t *testing.T) {
	var drawn strings.Builder
	_, err := io.WriteString(bar(&drawn), "1: Pulling from test\n0123456789ab: Pulling fs layer\n"+
		"123456789abc: Pulling fs layer\n0123456789ab: Pull complete\n123456789abc: Pull complete\nStatus: done\n")
	assert.NilError(t, err)
	empty, half, full := strings.Repeat(".", 30), strings.Repeat("#", 15)+strings.Repeat(".", 15), strings.Repeat("#", 30)
	assert.Equal(t, drawn.String(), "\r["+empty+"] 0 of 1 layers\x1b[K"+"\r["+empty+"] 0 of 2 layers\x1b[K"+
		"\r["+half+"] 1 of 2 layers\x1b[K"+"\r["+full+"] 2 of 2 layers\x1b[K")
}

func TestIsTerminal(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	assert.NilError(t, err)
	defer null.Close()
	file, err := os.Create(t.TempDir() + "/file")
	assert.NilError(t, err)
	defer file.Close()
	for _, w := range []io.Writer{null, file, io.Discard} {
		assert.Assert(t, !isTerminal(w))
	}
	// Without a terminal of its own, this is one that belongs to nobody.
	if ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0); err == nil {
		defer ptmx.Close()
		assert.Assert(t, isTerminal(ptmx))
	}
}
