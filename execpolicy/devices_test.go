package execpolicy_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

func TestDevices(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		policy := p.policy()
		policy.Devices = []dockercli.Device{{Source: "/dev/zero", Target: "/dev/another"}}
		s := open(t, policy, p.spec())
		assert.Equal(t, s.ok("head -c 3 /dev/another | wc -c"), "3")
		assert.NilError(t, s.Close())
	})
}

// Whatever may give the host away is refused, all of it at once, and before anything is
// started.
func TestDevicesAreChecked(t *testing.T) {
	for _, remote := range []bool{false, true} {
		policy := execpolicy.DockerPolicy{Engine: &dockercli.Engine{Path: "true", Remote: remote},
			Devices: []dockercli.Device{{Source: "/dev/console"}, {Source: "/dev/tty"}, {Source: "/dev/null"},
				{Source: "/dev/null", Target: "/.cofferdam/x"}, {Source: "/dev/full", Permissions: "x"},
				{Source: "/dev/null", Target: "/dev/mount/x"}},
			Mounts:             []dockercli.Mount{{Source: t.TempDir(), Target: "/dev/mount"}},
			AllowUnsafeDevices: []string{"console"}}
		err := policy.Check(t.Context(), execpolicy.Spec{})
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		for _, words := range []string{`the device "/dev/console"`, `add "/dev/tty" to AllowUnsafeDevices`,
			`"/.cofferdam/x": /.cofferdam is the library's own`, `permissions are "x"`,
			`in the mount on "/dev/mount"`,
			`"console" in AllowUnsafeDevices has to be an absolute path`} {
			assert.ErrorContains(t, err, words)
		}
		assert.Assert(t, !strings.Contains(err.Error(), `the device "/dev/null": its`), "%v", err)
		policy.Devices = policy.Devices[1:3]
		policy.AllowUnsafeDevices = []string{"/dev/tty"}
		assert.NilError(t, policy.Check(t.Context(), execpolicy.Spec{}))
	}
}
