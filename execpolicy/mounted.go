package execpolicy

import (
	"context"
	"path"
	"runtime"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/mountproof"
	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/truncate"
)

// shows returns what a session's container is to show of this machine.
func (p *DockerPolicy) shows(e *dockercli.Engine, spec Spec) mountproof.Dir {
	dir, target := spec.Workspace, workspaceDir
	if p.compat {
		dir = compatWorkspace(spec)
		target = path.Clean(dir)
	}
	if dir == "" || len(spec.Supervisor) == 0 || e.Remote || runtime.GOOS != "linux" {
		return mountproof.Dir{}
	}
	return mountproof.At(dir, target)
}

// prove returns an error that wraps ErrNoMount unless the container shows the directory
// that it is to show.
func (c *conn) prove(ctx context.Context, d mountproof.Dir) error {
	deadline := bound.After(c.limits.StartupTimeout)
	return d.Prove(func(script string, limit int) (string, bool, error) {
		return c.inquire(ctx, deadline, script, limit)
	})
}

// inquire runs a script of the library's own, and returns what it prints, and whether it
// succeeds.
func (c *conn) inquire(ctx context.Context, deadline time.Time, script string, limit int) (answer string, ok bool, err error) {
	out := &shell.Sink{Kept: truncate.Buffer{Limit: limit}}
	r := c.Run(ctx, deadline, time.Time{}, shell.Unit(script), out, &shell.Sink{})
	c.escalated(r)
	switch {
	case r.Cause != nil:
		return "", false, r.Cause
	case r.Lost:
		return "", false, c.lost()
	}
	return string(out.Kept.Bytes()), r.Mark.Status == 0 && !r.Died, nil
}
