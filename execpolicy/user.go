package execpolicy

import (
	"runtime"
	"slices"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/account"
)

// caseOf returns what decides as whom the command runs, but for what the container sees
// of the host.
func (p *DockerPolicy) caseOf(e *dockercli.Engine) account.Case {
	return account.Case{
		User:     p.User,
		Rootless: e.Rootless,
		// Without root's rights docker and nerdctl have this program's user as root, and
		// others have other numbers.
		OwnersToo:    e.Rootless && e.Kind != dockercli.Podman,
		Unjudged:     p.unjudged(e),
		RootUnjudged: len(p.AddCapabilities) > 0,
	}
}

// unjudged reports whether the modes of files do not tell what an account may do inside.
// They don't on another machine, on systems where the engine has a virtual machine, for a
// number that a rootless engine maps to another, and where extra arguments say who is
// who.
func (p *DockerPolicy) unjudged(e *dockercli.Engine) bool {
	return e.Remote || runtime.GOOS != "linux" || p.User != "" && e.Rootless || slices.ContainsFunc(
		[]string{"user", "userns", "uidmap", "gidmap", "group-add", "cap-add", "privileged"},
		func(flag string) bool { return p.extra(e, flag) })
}
