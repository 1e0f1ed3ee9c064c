package execpolicy

import (
	"fmt"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/mountguard"
)

// mountGuard returns what judges the mounts of an engine's containers.
func (p *DockerPolicy) mountGuard(e *dockercli.Engine) *mountguard.Guard {
	return &mountguard.Guard{
		Remote:    e.Remote,
		Socket:    e.Socket,
		Protected: p.ProtectedPaths,
		Allowed:   p.AllowUnsafeMounts,
	}
}

// CheckWorkspace returns why a directory of this machine is not to be shown to a session,
// whether mounted or copied, or nil. Its error wraps [ErrInvalid]: the directory can't be
// used, or it is one that Mounts says is refused and AllowUnsafeMounts does not name. An
// empty name is no directory, and so is fine. Whoever copies a directory of their own
// accord asks here first; Spawn asks for itself.
func (p DockerPolicy) CheckWorkspace(dir string) error {
	path, err := mountguard.Workspace(dir)
	if path != "" {
		// A copy is of this machine, wherever the engine is.
		e := dockercli.Engine{}
		if p.Engine != nil {
			e.Socket = p.Engine.Socket
		}
		_, _, err = p.mountGuard(&e).Check("the workspace", path)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// SavesWorkspace reports whether what a session makes of a copied workspace may be saved:
// not with WorkspaceReadOnly.
func (p DockerPolicy) SavesWorkspace() bool { return !p.WorkspaceReadOnly }
