package execpolicy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// An sshd takes ten clients at once that have not come in yet, and refuses others at
// random.
func TestRemoteStartsAtOnce(t *testing.T) {
	enginetest.Check(t)
	dir := t.TempDir()
	client := filepath.Join(dir, "docker")
	script := `#!/bin/sh
case $* in run*)
	echo >"` + dir + `/client-$$"
	set -- "` + dir + `"/client-*
	echo >"` + dir + `/at-once-$#"
	until [ -e "` + dir + `/go" ]; do sleep 0.05; done
	rm "` + dir + `/client-$$"
	echo 'docker: Error response from daemon: it does not want to.' >&2
	exit 125 ;;
esac
echo 'Error: No such container: name' >&2
exit 1
`
	assert.NilError(t, os.WriteFile(client, []byte(script), 0o700))
	there := func(pattern string) bool {
		found, _ := filepath.Glob(filepath.Join(dir, pattern))
		return len(found) > 0
	}
	policy := execpolicy.DockerPolicy{Engine: &dockercli.Engine{Path: client, Remote: true, MissingLimits: []string{}},
		Limits: hostLimits}
	var all sync.WaitGroup
	for range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			_, err := execpolicy.Start(t.Context(), policy, execpolicy.Spec{})
			assert.Check(t, cmp.ErrorContains(err, "it does not want to"))
		}()
	}
	wait(t, func() bool { return there("at-once-[4-8]") }, "there are fewer than four clients")
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	all.Wait()
	for n := 5; n <= 8; n++ {
		assert.Check(t, !there(fmt.Sprintf("at-once-%d", n)), "%d clients at once", n)
	}
}

// A start that an sshd turns away, because others knock at the same time, is tried again.
func TestTurnedAwayBySSH(t *testing.T) {
	enginetest.Check(t)
	const docker, podman = "kex_exchange_identification: Connection closed by remote host", "ssh: handshake failed: EOF"
	for _, c := range []struct {
		words  string
		remote bool
		runs   int
	}{
		{docker, true, 3},
		{"kex_exchange_identification: read: Connection reset by peer", true, 3},
		{podman, true, 3},
		{"ssh: handshake failed: read tcp 192.0.2.1:4->192.0.2.2:22: read: connection reset by peer", true, 3},
		{docker, false, 1},
		{"it does not want to", true, 1},
		{"ssh: handshake failed: knownhosts: key mismatch", true, 1},
		{"ssh: handshake failed: ssh: unable to authenticate, attempted methods [none publickey]", true, 1},
	} {
		dir := t.TempDir()
		client := filepath.Join(dir, "docker")
		script := "#!/bin/sh\ncase $* in run*) echo >>'" + dir + "/runs'; echo 'docker: error during connect: " + c.words +
			".' >&2; exit 125 ;; esac\necho 'Error: No such container: name' >&2\nexit 1\n"
		assert.NilError(t, os.WriteFile(client, []byte(script), 0o700))
		policy := execpolicy.DockerPolicy{Limits: hostLimits,
			Engine: &dockercli.Engine{Path: client, Remote: c.remote, MissingLimits: []string{}}}
		_, err := execpolicy.Start(t.Context(), policy, execpolicy.Spec{})
		assert.ErrorIs(t, err, execpolicy.ErrStart)
		assert.ErrorContains(t, err, c.words)
		runs, err := os.ReadFile(filepath.Join(dir, "runs"))
		assert.NilError(t, err)
		assert.Equal(t, len(runs), c.runs, c.words)
	}
}

// Jobs by the client take turns with sessions to reach an engine elsewhere, and give the turn
// back when they have begun.
func TestRemoteJobsTakeTurns(t *testing.T) {
	fakeengine.NeedIsolation(t)
	fake := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{})
	e := *fake.Engine
	e.Remote = true
	s, err := execpolicy.Start(t.Context(), execpolicy.DockerPolicy{Engine: &e}, execpolicy.Spec{})
	assert.NilError(t, err)
	defer s.Close()
	for range 6 { // more than there are turns
		j, err := s.StartJob(t.Context(), execpolicy.Command{Script: "cat"})
		assert.NilError(t, err)
		defer j.Kill(t.Context())
	}
	assert.Equal(t, execpolicy.Connecting(), 0)
}
