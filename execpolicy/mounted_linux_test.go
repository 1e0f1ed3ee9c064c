package execpolicy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/workspace"
)

// elsewhere returns the place with a client whose engine sees another directory in place
// of one, or none, as an engine does whose socket was forwarded from another machine.
func (p place) elsewhere(t *testing.T, dir, other string) place {
	t.Helper()
	client := filepath.Join(t.TempDir(), p.engine.Kind.String())
	script := `#!/bin/bash
from='` + dir + `' to='` + other + `' args=()
for arg; do
	case $arg in --mount=* | --volume=*) arg=${arg//"$from"/$to} ;; esac
	args+=("$arg")
done
exec ` + p.engine.Path + ` "${args[@]}"
`
	assert.NilError(t, os.WriteFile(client, []byte(script), 0o755))
	e, err := dockercli.Lookup(t.Context(), client)
	assert.NilError(t, err)
	e.Env = p.engine.Env
	p.engine = e
	return p
}

// An engine that looks as if it were on this machine, and is not, mounts nothing in place
// of the workspace, of which nothing is left there.
func TestWorkspaceIsThatOfThisMachine(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		dir, other := newWorkspace(t, "here"), newWorkspace(t, "there")
		assert.NilError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("here"), 0o644))
		assert.NilError(t, os.WriteFile(filepath.Join(other, "file"), []byte("there"), 0o644))
		spec := p.spec()
		spec.Workspace = dir
		spec.Startup = []string{"touch started"}
		t.Run("another directory", func(t *testing.T) {
			p := p.elsewhere(t, dir, other)
			assert.Assert(t, !p.engine.Remote)
			_, err := execpolicy.Start(t.Context(), p.policy(), spec)
			assert.ErrorIs(t, err, execpolicy.ErrNoMount)
			assert.ErrorIs(t, err, execpolicy.ErrStart)
			s, err := workspace.Start(t.Context(), p.policy(), spec, workspace.Options{})
			assert.NilError(t, err)
			defer s.Close()
			assert.Equal(t, session{s.Session, t}.ok("cat file"), "here")
			assert.NilError(t, s.Close())
			left, err := os.ReadDir(other)
			assert.NilError(t, err)
			assert.Equal(t, len(left), 1, "%v", left)
		})
		t.Run("the same directory by a link", func(t *testing.T) {
			spec := spec
			spec.Workspace = filepath.Join(t.TempDir(), "link")
			assert.NilError(t, os.Symlink(dir, spec.Workspace))
			s := open(t, p.policy(), spec)
			assert.Equal(t, s.ok("cat file"), "here")
			names, err := os.ReadDir(dir)
			assert.NilError(t, err)
			for _, name := range names {
				assert.Assert(t, !strings.HasPrefix(name.Name(), "."), "%v", name)
			}
		})
	})
}
