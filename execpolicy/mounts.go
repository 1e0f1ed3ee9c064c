package execpolicy

import (
	"errors"
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

// CheckWorkspace returns why a directory of this machine must not be shown to a session,
// whether mounted or copied, or nil. Its error wraps [ErrInvalid]: the directory can't be
// used, or the comment of Mounts says that it is refused, and AllowUnsafeMounts does not
// allow it. The directory for temporary files may be copied, though it is not mounted. An
// empty name is fine, because it names no directory. Call it before you copy a directory
// into a session yourself. Spawn judges the workspace that it mounts in the same way.
func (p DockerPolicy) CheckWorkspace(dir string) error {
	path, err := mountguard.Workspace(dir)
	if path != "" {
		// A copy is of this machine, wherever the engine is.
		e := dockercli.Engine{}
		if p.Engine != nil {
			e.Socket = p.Engine.Socket
		}
		guard := p.mountGuard(&e)
		guard.Copied = true
		_, _, err = guard.Check("the workspace", path)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// SavesWorkspace reports whether the changes to a copied workspace may be saved. They may
// not with WorkspaceReadOnly.
func (p DockerPolicy) SavesWorkspace() bool { return !p.WorkspaceReadOnly }

// errElsewhere is why a remote engine mounts no workspace.
var errElsewhere = errors.New("the engine may run on another machine, to which this path means nothing")
