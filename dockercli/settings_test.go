package dockercli_test

import (
	"testing"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"gotest.tools/v3/assert"
)

func TestParseSettings(t *testing.T) {
	s, err := dockercli.ParseSettings(`image "sha256:0"
user "65534:65534"
apparmor "docker-default"
selinux "system_u:system_r:container_t:s0:c1,c2"
mount "bind" "/srv/a b" "/in" false
mount "volume" "/var/lib/docker/volumes/x/_data" "/data" true
privileged false
readonly true
network "none"
pid ""
ipc "private"
userns ""
runtime "runc"
capadd "CHOWN"
capdrop "ALL"
security "no-new-privileges"
security "seccomp=unconfined"
device "/dev/kmsg"
tmpfs "/tmp" "size=1m,nosuid"
memory 536870912
memoryswap -1
shm 16777216
nanocpus 1000000000
quota 0
period 0
pids null
masked "/proc/kcore"

`)
	assert.NilError(t, err)
	assert.DeepEqual(t, s, &dockercli.Settings{
		ImageID: "sha256:0", User: "65534:65534", ReadOnly: true, Network: "none", IPC: "private", Runtime: "runc",
		Mounts: []dockercli.MountPoint{
			{Type: "bind", Source: "/srv/a b", Target: "/in"},
			{Type: "volume", Source: "/var/lib/docker/volumes/x/_data", Target: "/data", Writable: true},
		},
		AppArmor: "docker-default", SELinux: "system_u:system_r:container_t:s0:c1,c2",
		CapAdd: []string{"CHOWN"}, CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges", "seccomp=unconfined"},
		Devices: []string{"/dev/kmsg"}, Tmpfs: map[string]string{"/tmp": "size=1m,nosuid"},
		MaskedPaths: []string{"/proc/kcore"},
		Memory:      512 << 20, MemorySwap: -1, ShmSize: 16 << 20, NanoCPUs: 1e9,
	})
	for _, text := range []string{
		"", "image \"sha256:0\"\n", "memory lots\npids 1\n", "mount \"bind\"\npids 1\n", "tmpfs \"/tmp\"\npids 1\n",
		"surprise 1\npids 1\n",
	} {
		_, err := dockercli.ParseSettings(text)
		assert.ErrorContains(t, err, "unexpected answer", "%q", text)
	}
}

func FuzzParseSettings(f *testing.F) {
	f.Add("tmpfs \"/tmp\" \"size=1m\"\npids 5\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := dockercli.ParseSettings(text)
		assert.Equal(t, s == nil, err != nil)
	})
}

func TestParseComponents(t *testing.T) {
	docker, err := dockercli.ParseComponents(dockercli.Docker, `platform "Docker Desktop 4.43.2 (199162)"
component "Engine" "28.3.2"
component "containerd" "1.7.27"
component "runc" "1.2.5"
client "28.3.2"

`)
	assert.NilError(t, err)
	assert.DeepEqual(t, docker, []dockercli.Component{
		{Name: "docker client", Version: "28.3.2"}, {Name: "docker", Version: "28.3.2"},
		{Name: "containerd", Version: "1.7.27"},
		{Name: "runc", Version: "1.2.5"}, {Name: "docker desktop", Version: "4.43.2"},
	})

	// A docker client that talks to podman's service.
	service, err := dockercli.ParseComponents(dockercli.Docker, `component "Podman Engine" "4.3.1"
component "Conmon" "conmon version 2.1.6, commit: unknown"
component "OCI Runtime (crun)" "crun version 1.8.1\ncommit: f8a096be\n"
client "28.3.2"
`)
	assert.NilError(t, err)
	assert.DeepEqual(t, service, []dockercli.Component{
		{Name: "docker client", Version: "28.3.2"}, {Name: "podman", Version: "4.3.1"},
		{Name: "conmon", Version: "2.1.6"}, {Name: "crun", Version: "1.8.1"},
	})

	podman, err := dockercli.ParseComponents(dockercli.Podman, `component "podman" "4.3.1"
component "runc" "runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1+deb12u1\nspec: 1.0.2-dev"
component "conmon" "conmon version 2.1.6, commit: unknown"
`)
	assert.NilError(t, err)
	assert.DeepEqual(t, podman, []dockercli.Component{
		{Name: "podman", Version: "4.3.1"}, {Name: "runc", Version: "1.1.5+ds1"}, {Name: "conmon", Version: "2.1.6"},
	})

	_, err = dockercli.ParseComponents(dockercli.Docker, "component \"runc\"\n")
	assert.ErrorContains(t, err, "unexpected answer")
}

func FuzzParseComponents(f *testing.F) {
	f.Add("component \"OCI Runtime (runc)\" \"runc version 1\\n\"\nclient \"1\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman} {
			parts, err := dockercli.ParseComponents(kind, text)
			assert.Assert(t, err == nil || parts == nil)
		}
	})
}
