package setup

import (
	"testing"

	"gotest.tools/v3/assert"
)

func TestPodmanIsCuredOfWhatItComplainsOfOnly(t *testing.T) {
	const limits = "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n"
	for complaint, want := range map[string]string{
		"runc create failed: error setting rlimit type 7: operation not permitted: OCI permission denied": limits,
		"crun: setrlimit `RLIMIT_NOFILE`: Operation not permitted: OCI permission denied":                 limits,
		"crun: cgroups in hybrid mode not supported, drop all controllers from cgroupv2": limits +
			"[engine]\nruntime = \"runc\"\n",
		"Error: short-name resolution enforced but cannot prompt without a TTY": "",
		"mount `proc` to `proc`: Operation not permitted":                       "",
	} {
		assert.Equal(t, containersConf(complaint), want, complaint)
	}
}

func TestEngineNamesTheOneThatIsWanted(t *testing.T) {
	t.Setenv("ENGINE", "")
	assert.DeepEqual(t, Wanted(), []string{"docker", "podman"})
	t.Setenv("ENGINE", "docker --context ci")
	assert.DeepEqual(t, Wanted(), []string{"docker --context ci"})
}
