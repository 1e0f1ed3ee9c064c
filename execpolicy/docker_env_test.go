package execpolicy_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// An image can ask podman's client for any variable that the client has.
func TestNoImageCanAskForTheHostsEnvironment(t *testing.T) {
	t.Setenv("COFFERDAM_LEAKED", "leaked")
	t.Setenv("HTTPS_PROXY", "http://user:leaked@192.0.2.1:3128")
	onPodman(t, func(t *testing.T, p place) {
		for _, entry := range p.engine.Env {
			if conf, ok := strings.CutPrefix(entry, "CONTAINERS_CONF="); ok {
				t.Setenv("CONTAINERS_CONF", conf)
			}
		}
		e := *p.engine
		e.Env = nil
		policy := p.attached()
		policy.Engine = &e
		s := open(t, policy, p.spec())
		client := p.client(t, s.Name())
		defer client.Release()
		env, err := os.ReadFile("/proc/" + strconv.Itoa(client.Pid) + "/environ")
		assert.NilError(t, err)
		assert.Assert(t, strings.Contains(string(env), "PATH="), "%q", env)
		assert.Assert(t, !strings.Contains(string(env), "leaked"), "%q", env)
	})
}
