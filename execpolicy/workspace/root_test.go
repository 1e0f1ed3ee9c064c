//go:build linux

package workspace_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/workspace"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

// With the zero policy a directory of root's is copied to an ordinary user, and what is
// changed comes back as root's, without anybody's rights.
func TestRootsWorkspaceIsCopied(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		if os.Geteuid() != 0 || p.Policy.Engine.Rootless {
			leftout.Skip(t, "only root has directories of root's")
		}
		p.Spec.Workspace = sample(t)
		start := func(mode workspace.Mode) (session, error) {
			s, err := workspace.Start(t.Context(), p.Policy, p.Spec, workspace.Options{Mode: mode})
			return session{s, t, p.Spec.Workspace}, err
		}
		_, err := start(workspace.Mounted)
		assert.ErrorIs(t, err, execpolicy.ErrNoMount)
		s, err := start(workspace.Auto)
		assert.NilError(t, err)
		assert.Assert(t, s.Copied())
		assert.Equal(t, s.ok("id -u; id -g; cat file"), "65534\n65534\nold")
		s.ok("echo new >file; cp /bin/sh shell; chmod 6755 shell; mkdir made; chmod 2777 made; echo x >made/x")
		assert.NilError(t, s.Close())
		assert.Equal(t, s.host("file"), "new\n")
		for name, mode := range map[string]fs.FileMode{"file": 0o644, "shell": 0o755, "made": fs.ModeDir | 0o777,
			"made/x": 0o644} {
			info, err := os.Lstat(filepath.Join(s.dir, name))
			assert.NilError(t, err)
			st := info.Sys().(*syscall.Stat_t)
			assert.Assert(t, st.Uid == 0 && st.Gid == 0, "%s is of %d:%d", name, st.Uid, st.Gid)
			assert.Equal(t, info.Mode(), mode, name)
		}

		// What can be mounted is.
		for _, change := range []func() error{
			func() error { p.Policy.WorkspaceReadOnly = true; return nil },
			func() error { p.Policy.WorkspaceReadOnly = false; return os.Chown(p.Spec.Workspace, 4711, 4712) },
		} {
			assert.NilError(t, change())
			s, err := start(workspace.Auto)
			assert.NilError(t, err)
			assert.Assert(t, !s.Copied())
			assert.Assert(t, s.ok("id -u") != "0")
			assert.NilError(t, s.Close())
		}
	})
}
