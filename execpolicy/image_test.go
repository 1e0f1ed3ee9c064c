package execpolicy_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
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
