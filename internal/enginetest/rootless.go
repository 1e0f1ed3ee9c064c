package enginetest

import (
	"context"
	"slices"
	"testing"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/rootless"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/setup"
)

// Rootless returns a podman without root's rights for one test, under [Check]. Its
// containers can run as user 0 only. Where podman is no engine to test with, or can't run
// so, the test is skipped, or fails if podman is required.
func Rootless(t *testing.T) Engine {
	t.Helper()
	const name = "podman"
	if !slices.Contains(append(setup.Wanted(), setup.Required()...), name) {
		leftout.Skip(t, "podman is not asked for")
	}
	from := Engines(t)[0]
	beside(t, true)
	ctx, cancel := context.WithTimeout(t.Context(), setupTimeout)
	defer cancel()
	p, err := rootless.Start(ctx, from.Engine, from.Image)
	if err != nil {
		leaveOut(t, candidate{Engine{Name: name}, err})
	}
	// Before Check, which closes its own directory to others.
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	e := Engine{Engine: p.Engine(), Name: name, Image: from.Image, Labels: labels}
	Check(t, e)
	return e
}
