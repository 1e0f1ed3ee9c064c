package execpolicy_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// Of an image's settings its environment counts, and nothing else.
func TestSettingsOfTheImage(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		p := place{engine: e.Engine, labels: e.Labels}
		p.image = e.Derive(t, ":", "USER 1234:1234", "WORKDIR /opt/elsewhere", `ENTRYPOINT ["false"]`,
			"ENV GREETING=hello", "ENV HOME=/root")
		s := open(t, p.policy(), p.spec())
		const look = `while read -r key id rest; do case $key in Uid: | Gid:) echo "$id" ;; esac; done ` +
			`</proc/self/status; echo "$PWD $HOME $GREETING"`
		assert.Equal(t, s.ok(look), "65534\n65534\n/workspace /tmp hello")
		spec := p.spec()
		spec.Env = map[string]string{"HOME": "/workspace"}
		s = open(t, p.policy(), spec)
		assert.Equal(t, s.ok("echo $HOME"), "/workspace")
	})
}

// The engine's exec is a way into a session's container that goes past the session, but
// not past the container's limits.
func TestExecOfTheEngine(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		spec := p.spec()
		spec.Env = map[string]string{"OURS": "set"}
		asked := 0
		spec.Audit = func(e execpolicy.Event) error {
			if e.Kind == execpolicy.EventCommand {
				asked++
			}
			return nil
		}
		s := open(t, p.policy(), spec)
		const look = `echo "$PWD ${OURS-unset}"; while read -r key value rest; do case $key in Uid: | NoNewPrivs: ` +
			`| Seccomp:) echo "$value" ;; esac; done </proc/self/status; ! (: >/file) 2>/dev/null`
		status, out, err := p.engine.Exec(t.Context(),
			dockercli.ExecOptions{Container: s.Name(), Command: []string{"sh", "-c", look}})
		assert.NilError(t, err)
		assert.Equal(t, status, 0)
		assert.Equal(t, strings.TrimSpace(string(out)), "/ unset\n65534\n1\n2")
		assert.NilError(t, s.Close())
		assert.Equal(t, asked, 0)
	})
}

// What a policy needs is there before its sessions are, on any engine, and one pull is
// enough for all who want it.
func TestEnsureImage(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		image, err := p.policy().EnsureImage(t.Context(), dockercli.PullMissing)
		assert.NilError(t, err)
		policy := p.policy()
		policy.Platform = image.Platform
		s := open(t, policy, p.spec())
		id := p.cli(t, "container", "inspect", "--format={{.Image}}", s.Name())
		assert.Equal(t, strings.TrimSpace(id), image.ID)
		assert.NilError(t, s.Close())

		policy.Platform, policy.PullTimeout = "linux/s390x", -1
		_, err = policy.EnsureImage(t.Context(), dockercli.PullAlways)
		assert.ErrorIs(t, err, dockercli.ErrImageMissing)
		assert.ErrorContains(t, err, "the engine is "+p.engine.String())
	})
	t.Run("pull", func(t *testing.T) {
		fakeengine.NeedIsolation(t)
		enginetest.Check(t)
		e := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{ImageMissing: true})
		p := execpolicy.DockerPolicy{Engine: e.Engine, Image: "image:1", PullTimeout: -1}
		_, err := p.EnsureImage(t.Context(), dockercli.PullMissing)
		assert.ErrorIs(t, err, dockercli.ErrImageMissing)
		var progress strings.Builder
		p.PullTimeout, p.PullProgress = 0, &progress
		_, err = p.EnsureImage(t.Context(), dockercli.PullMissing)
		assert.NilError(t, err)
		assert.Assert(t, progress.Len() > 0)
		s := open(t, p, execpolicy.Spec{})
		assert.NilError(t, s.Close())
	})
}

func TestPlatformIsChecked(t *testing.T) {
	for _, platform := range []string{"arm64", "linux/", "/arm64", "linux/arm 64", "linux//v8", "linux/arm64\n"} {
		p := execpolicy.DockerPolicy{Engine: &dockercli.Engine{Path: "true"}, Platform: platform}
		assert.ErrorContains(t, p.Check(t.Context(), execpolicy.Spec{}), "Platform is", platform)
	}
	p := execpolicy.DockerPolicy{Engine: &dockercli.Engine{Path: "true"}, Platform: "linux/arm/v7"}
	assert.NilError(t, p.Check(t.Context(), execpolicy.Spec{}))
}
