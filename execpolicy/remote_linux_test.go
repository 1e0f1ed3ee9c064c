package execpolicy_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	const unnegotiated = "client version 1.50 is too new. Maximum supported API version is 1.41"
	remote := dockercli.Engine{Remote: true}
	known := dockercli.Engine{Remote: true, ServerVersion: "20.10"}
	for _, c := range []struct {
		words  string
		engine dockercli.Engine
		runs   int
	}{
		{unnegotiated, known, 3},
		{unnegotiated, remote, 1},
		{unnegotiated, dockercli.Engine{ServerVersion: "20.10"}, 1},
		{docker, remote, 3},
		{"kex_exchange_identification: read: Connection reset by peer", remote, 3},
		{podman, remote, 3},
		{"ssh: handshake failed: read tcp 192.0.2.1:4->192.0.2.2:22: read: connection reset by peer", remote, 3},
		{docker, dockercli.Engine{}, 1},
		{"it does not want to", remote, 1},
		{"ssh: handshake failed: knownhosts: key mismatch", remote, 1},
		{"ssh: handshake failed: ssh: unable to authenticate, attempted methods [none publickey]", remote, 1},
	} {
		dir := t.TempDir()
		client := filepath.Join(dir, "docker")
		script := "#!/bin/sh\ncase $* in run*) echo >>'" + dir + "/runs'; echo 'docker: error during connect: " + c.words +
			".' >&2; exit 125 ;; esac\necho 'Error: No such container: name' >&2\nexit 1\n"
		assert.NilError(t, os.WriteFile(client, []byte(script), 0o700))
		c.engine.Path, c.engine.MissingLimits = client, []string{}
		policy := execpolicy.DockerPolicy{Limits: hostLimits, Engine: &c.engine}
		_, err := execpolicy.Start(t.Context(), policy, execpolicy.Spec{})
		assert.ErrorIs(t, err, execpolicy.ErrStart)
		assert.ErrorContains(t, err, c.words)
		runs, err := os.ReadFile(filepath.Join(dir, "runs"))
		assert.NilError(t, err)
		assert.Equal(t, len(runs), c.runs, c.words)
	}
}

// startRemote opens a session on a fake engine that is said to be elsewhere.
func startRemote(t *testing.T) (*execpolicy.Session, *fakeengine.Engine) {
	t.Helper()
	fakeengine.NeedIsolation(t)
	fake := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{})
	e := *fake.Engine
	e.Remote = true
	s, err := execpolicy.Start(t.Context(), execpolicy.DockerPolicy{Engine: &e}, execpolicy.Spec{})
	assert.NilError(t, err)
	return s, fake
}

// A job's start that an sshd turns away is tried again as a session's is. Nothing has
// come into being by it.
func TestJobTurnedAwayBySSH(t *testing.T) {
	s, fake := startRemote(t)
	defer s.Close()
	for _, c := range []struct {
		words       string
		times, runs int
	}{
		{"kex_exchange_identification: Connection closed by remote host", 2, 3},
		{"client version 1.50 is too new. Maximum supported API version is 1.41", 1, 2},
		{"kex_exchange_identification: read: Connection reset by peer", 3, 3},
		{"Error response from daemon: it does not want to", 1, 1},
	} {
		fake.Set(fakeengine.Faults{Fail: map[string]fakeengine.Failure{"exec": {Exit: 1, Stderr: c.words, Times: c.times}}})
		before := len(fake.Calls())
		var out bytes.Buffer
		j, err := s.StartJob(t.Context(), execpolicy.Command{Script: "cat", Stdin: strings.NewReader("once"), Stdout: &out})
		if c.runs > c.times {
			assert.NilError(t, err)
			_, err = j.Wait(t.Context())
			assert.NilError(t, err)
			assert.Equal(t, out.String(), "once")
		} else {
			assert.ErrorIs(t, err, execpolicy.ErrStart)
			assert.ErrorContains(t, err, c.words)
		}
		runs := slices.DeleteFunc(fake.Calls()[before:], func(call []string) bool { return call[0] != "exec" })
		assert.Equal(t, len(runs), c.runs, "%q", runs)
		assert.Equal(t, execpolicy.Connecting(), 0)
	}
}

// Jobs by the client take turns with sessions to reach an engine elsewhere, and give the
// turn back when they have begun.
func TestRemoteJobsTakeTurns(t *testing.T) {
	s, _ := startRemote(t)
	defer s.Close()
	for range 6 { // more than there are turns
		j, err := s.StartJob(t.Context(), execpolicy.Command{Script: "cat"})
		assert.NilError(t, err)
		defer j.Kill(t.Context())
	}
	assert.Equal(t, execpolicy.Connecting(), 0)
}
