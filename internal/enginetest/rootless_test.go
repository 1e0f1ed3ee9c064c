package enginetest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
)

// Of a podman without root's rights nothing is left: no file, no mount, and not the
// process that it keeps between its runs.
func TestRootlessLeavesNothing(t *testing.T) {
	locks := func() []string {
		files, _ := filepath.Glob("/dev/shm/libpod*")
		return files
	}
	candidates() // which may make podman's usual ones
	before := locks()
	var dir string
	// having returns the processes that have the directory among their arguments or in
	// their environment.
	having := func() (found []string) {
		files, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, environ := range files {
			env, _ := os.ReadFile(environ)
			args, _ := os.ReadFile(filepath.Join(filepath.Dir(environ), "cmdline"))
			if strings.Contains(string(env)+string(args), dir) {
				found = append(found, strings.ReplaceAll(string(args), "\x00", " "))
			}
		}
		return found
	}
	t.Run("it runs", func(t *testing.T) {
		e := Rootless(t)
		assert.Assert(t, e.Engine.Rootless)
		dir = filepath.Dir(e.Path)
		assert.DeepEqual(t, e.labeled().List("run", "--rm", "--network=none", "--user=0:0", "--", e.Image, "id", "-u"),
			[]string{"0"})
		assert.Assert(t, len(having()) > 0, "the process that podman keeps")

		// Tests of the machine's own podman, which run at the same time, don't take its
		// helpers for lost ones.
		args := []string{"run", "--detach", "--network=none", "--user=0:0", "--name=cofferdam-rootless-test"}
		for k, v := range e.Labels {
			args = append(args, "--label="+k+"="+v)
		}
		e.labeled().List(append(args, "--", e.Image, "sleep", "4793")...)
		assert.DeepEqual(t, e.labeled().Containers(), []string{"cofferdam-rootless-test"})
		for _, c := range candidates() {
			if c.err == nil {
				for what, text := range leftover.Look(t.TempDir(), c.labeled()) {
					assert.Check(t, !strings.HasPrefix(text, "helper ") || !strings.Contains(text, dir), "%s: %s", what, text)
				}
			}
		}
		e.labeled().Remove()
	})
	if dir == "" {
		return // it was left out
	}
	_, err := os.Stat(dir)
	assert.Assert(t, errors.Is(err, fs.ErrNotExist), err)
	assert.Equal(t, len(having()), 0, "%q", having())
	assert.DeepEqual(t, locks(), before)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	assert.NilError(t, err)
	assert.Assert(t, !strings.Contains(string(mounts), dir))
}
