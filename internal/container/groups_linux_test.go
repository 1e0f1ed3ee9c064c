package container

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// The bound on the use of processors is taken away in a container's own group, and
// nowhere else.
func TestLift(t *testing.T) {
	own := "docker-" + strings.Repeat("0a", 32) + ".scope"
	for _, c := range []struct {
		dir, file, text, want string
	}{
		{own, "cpu.cfs_quota_us", "100000", "-1"},
		{own, "cpu.max", "100000 100000", "max"},
		{"user.slice", "cpu.max", "100000 100000", "100000 100000"},
		{"user.slice/app.scope", "cpu.cfs_quota_us", "100000", "100000"},
	} {
		root := t.TempDir()
		assert.NilError(t, os.MkdirAll(filepath.Join(root, c.dir), 0o755))
		group, _, _ := strings.Cut(c.dir, "/")
		file := filepath.Join(root, group, c.file)
		assert.NilError(t, os.WriteFile(file, []byte(c.text), 0o644))
		FirstProcess{Quota: filepath.Join(root, c.dir)}.lift()
		text, err := os.ReadFile(file)
		assert.NilError(t, err)
		assert.Assert(t, strings.HasPrefix(string(text), c.want), "%s: %q", c.dir, text)
		entries, err := os.ReadDir(filepath.Join(root, group))
		assert.NilError(t, err)
		assert.Assert(t, len(entries) <= 2, "%v", entries)
	}
	FirstProcess{}.lift()
}
