package doctor

import (
	"context"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

// ExamineMachine is [Examine] on another machine. release is the text of its os-release.
func ExamineMachine(ctx context.Context, o Options, goos, release string, root, systemd bool,
	try func(context.Context, *dockercli.Engine, string) ([]Step, error),
	transport func(context.Context, *dockercli.Engine) (name, why string),
) (*Report, error) {
	x := examiner{o, machine{goos, release, root, systemd}, try, transport}
	if x.Timeout == 0 {
		x.Timeout = defaultTimeout
	}
	return x.examine(ctx)
}

// Try and Transport are those of [Examine].
var (
	Try       = try
	Transport = transport
)

// Install returns the command that installs a package on a machine.
func Install(goos, release string) string {
	return machine{goos: goos, release: release}.install("podman")
}
