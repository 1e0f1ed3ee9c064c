package execpolicy

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

// A file of root's may be anything under another name. Others' files are theirs.
func TestHardLinksAreNotMounted(t *testing.T) {
	if os.Geteuid() != 0 {
		leftout.Skip(t, "only root has files of root's")
	}
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		if e.Remote {
			return // its files are not here
		}
		dir, err := filepath.EvalSymlinks(t.TempDir())
		assert.NilError(t, err)
		in := func(name string) string { return filepath.Join(dir, name) }
		for _, name := range []string{"shadow", "single", "theirs"} {
			assert.NilError(t, os.WriteFile(in(name), []byte("x"), 0o644))
		}
		assert.NilError(t, os.Chmod(dir, 0o755))
		assert.NilError(t, os.Link(in("shadow"), in("data")))
		assert.NilError(t, os.Link(in("theirs"), in("too")))
		assert.NilError(t, os.Chown(in("theirs"), enginetest.UID, enginetest.GID))
		assert.NilError(t, os.Mkdir(in("sub"), 0o755))
		p := DockerPolicy{Engine: e.Engine, Image: e.Image}
		p.Mounts = []dockercli.Mount{{Source: in("data"), Target: "/data"}}
		_, err = Start(t.Context(), p, Spec{Labels: e.Labels})
		assert.ErrorIs(t, err, ErrInvalid)
		assert.ErrorContains(t, err, "would show a file of root's that has another name")
		refuses(t, DockerPolicy{}, e.Engine, in("shadow"), "another name")
		for _, name := range []string{"single", "theirs", "too", "sub", "."} {
			mounts(t, DockerPolicy{}, e.Engine, in(name), in(name))
		}

		p.AllowUnsafeMounts = []string{in("data")}
		s, err := Start(t.Context(), p, Spec{Labels: e.Labels})
		assert.NilError(t, err)
		r, err := s.Run(t.Context(), Command{Script: "cat /data"})
		assert.NilError(t, err)
		assert.Equal(t, string(r.Stdout), "x")
		assert.NilError(t, s.Close())
	})
}
