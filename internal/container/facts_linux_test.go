package container_test

import (
	"os"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/container"
)

func TestFacts(t *testing.T) {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	assert.NilError(t, err)
	local := dockercli.Engine{Kernel: strings.TrimSpace(string(release))}
	for _, c := range []struct {
		name           string
		change         func(e *dockercli.Engine)
		runtime        string
		fifos, listens string // why not
	}{
		{name: "local", change: func(*dockercli.Engine) {}},
		{name: "runc", change: func(*dockercli.Engine) {}, runtime: "runc"},
		{name: "crun", change: func(*dockercli.Engine) {}, runtime: "crun"},
		{"gVisor", func(*dockercli.Engine) {}, "runsc", `"runsc" may have a kernel`, `"runsc" may have a network`},
		{"remote", func(e *dockercli.Engine) { e.Remote = true }, "", "another machine", "another machine"},
		{"service", func(e *dockercli.Engine) { e.PodmanService = true }, "", "podman's service", "podman's service"},
		{"nerdctl", func(e *dockercli.Engine) { e.Kind = dockercli.Nerdctl }, "", "can't detach", ""},
		{"rootless", func(e *dockercli.Engine) { e.Rootless = true }, "", "", "user namespace"},
		{"unknown", func(e *dockercli.Engine) { e.Kernel = "" }, "", "not known which", "not known which"},
		{"another kernel", func(e *dockercli.Engine) { e.Kernel = "1.0" }, "", "kernel: 1.0", "kernel: 1.0"},
	} {
		e := local
		c.change(&e)
		fifos, listens := container.NoFIFOs(&e, c.runtime), container.NoListening(&e, c.runtime)
		assert.Check(t, strings.Contains(fifos, c.fifos) && (fifos == "") == (c.fifos == ""), "%s: %q", c.name, fifos)
		assert.Check(t, strings.Contains(listens, c.listens) && (listens == "") == (c.listens == ""), "%s: %q", c.name, listens)
	}
}
