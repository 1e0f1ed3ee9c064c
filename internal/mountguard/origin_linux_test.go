package mountguard

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestOriginOfADirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b")
	assert.NilError(t, os.Mkdir(dir, 0o000))
	origin := Origin(dir)
	assert.Assert(t, strings.HasSuffix(origin, "/a b"), origin)
	assert.Equal(t, filepath.Dir(origin), Origin(filepath.Dir(dir)))
	assert.Assert(t, Origin("/proc") != Origin("/"))
	assert.Equal(t, Origin(filepath.Join(dir, "none")), "")
	assert.Equal(t, Origin("/proc/version"), "")
}
