package setup

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

// A cache in which nothing can be made, as with the home of another user, is not used.
func TestCacheIsWhereFilesCanBeMade(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	got, err := cacheDir()
	assert.NilError(t, err)
	assert.Equal(t, got, filepath.Join(dir, "cache", "cofferdam"))
	entries, err := os.ReadDir(got)
	assert.NilError(t, err)
	assert.Equal(t, len(entries), 0)

	// Not even root can make a file there.
	assert.NilError(t, os.Remove(got))
	assert.NilError(t, os.Symlink("/proc", got))
	got, err = cacheDir()
	assert.NilError(t, err)
	assert.Equal(t, filepath.Dir(got), dir)
	assert.Assert(t, takesFiles(got))
}
