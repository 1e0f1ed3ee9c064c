package shares_test

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/account"
	"github.com/seed-64a260eb/cofferdam/internal/mountguard"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/shares"
)

// A source is where its links lead, and is seen. A volume is nothing of the host's.
func TestMounts(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	assert.NilError(t, err)
	link := filepath.Join(t.TempDir(), "link")
	assert.NilError(t, os.Symlink(dir, link))
	var o dockercli.RunOptions
	var seen account.Case
	found := shares.SetMounts(&o, &seen, &mountguard.Guard{}, false, []dockercli.Mount{
		{Source: link, Target: "/data", Writable: true}, {Volume: "cofferdam-layer-x", Target: "/deps"},
	})
	assert.NilError(t, problems.Join(found...))
	assert.DeepEqual(t, o.Mounts, []dockercli.Mount{
		{Source: dir, Target: "/data", Writable: true}, {Volume: "cofferdam-layer-x", Target: "/deps"},
	})
	assert.Equal(t, len(seen.Mounts), 1)
	assert.Equal(t, seen.Mounts[0].Source, dir)
	assert.Assert(t, seen.Mounts[0].Writable && seen.Mounts[0].Info.IsDir())
}

// What is refused is not seen, and all of it is reported.
func TestMountsAreRefused(t *testing.T) {
	wanted := []dockercli.Mount{
		{Source: "/etc", Target: "/data"}, {Source: "/usr", Target: "/usr2", Relabel: "shared"}, {Volume: "data", Target: "/v"},
	}
	var o dockercli.RunOptions
	var seen account.Case
	found := shares.SetMounts(&o, &seen, &mountguard.Guard{}, false, wanted)
	assert.Equal(t, len(o.Mounts), 3)
	assert.Equal(t, o.Mounts[0].Source, "/")
	assert.Equal(t, len(seen.Mounts), 1) // what is only not to be relabelled
	err := problems.Join(found...)
	for _, words := range []string{"would show /etc", "relabel", `"data"`} {
		assert.ErrorContains(t, err, words)
	}
	found = shares.SetMounts(&o, &seen, &mountguard.Guard{}, true, []dockercli.Mount{{Volume: "cofferdam-layer-x", Target: "/v"}})
	assert.ErrorContains(t, problems.Join(found...), "podman's service would make it")
}

// A device appears where nothing of the host is: engines would make it there.
func TestDevicesStayInDev(t *testing.T) {
	o := dockercli.RunOptions{Mounts: []dockercli.Mount{{Source: t.TempDir(), Target: "/dev/mount/"}}}
	for target, want := range map[string]string{
		"/dev/another": "", "/dev/deep/er": "", "/dev/mounted": "",
		"/workspace/x": "outside /dev", "/dev/../workspace/x": "outside /dev", "/devil": "outside /dev", "/tmp/x": "outside /dev",
		"/dev/mount": `in the mount on "/dev/mount/"`, "/dev/mount/x": `in the mount on "/dev/mount/"`,
	} {
		found := shares.SetDevices(&o, &mountguard.Guard{}, []dockercli.Device{{Source: "/dev/null", Target: target}})
		err := problems.Join(found...)
		if want == "" {
			assert.Check(t, err, target)
			continue
		}
		assert.ErrorContains(t, err, want, target)
	}
}

// A device without a Target has the name that it has here.
func TestDevices(t *testing.T) {
	var o dockercli.RunOptions
	found := shares.SetDevices(&o, &mountguard.Guard{}, []dockercli.Device{{Source: "/dev/null"}, {Source: "/dev/console"}})
	assert.DeepEqual(t, o.Devices[0], dockercli.Device{Source: "/dev/null", Target: "/dev/null"})
	assert.ErrorContains(t, problems.Join(found...), `the device "/dev/console"`)
}

func TestSameTargets(t *testing.T) {
	o := dockercli.RunOptions{
		Tmpfs:  []dockercli.Tmpfs{{Target: "/tmp"}, {Target: "/cache"}},
		Mounts: []dockercli.Mount{{Target: "/tmp/"}, {Target: "/tmp/below"}, {Target: "/cache/../data"}, {Target: "/data"}},
	}
	found := shares.SameTargets(&o)
	assert.Equal(t, len(found), 2, "%v", found)
	assert.ErrorContains(t, found[0], `"/tmp/"`)
	assert.ErrorContains(t, found[1], `"/data"`)
}
