package execpolicy

import (
	"context"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/engines"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/shared"
)

// defaultEngine is the engine of policies that name none. It takes a tenth of a second to
// find.
var defaultEngine = shared.New("an engine", dockercli.Find)

// FindEngine returns the engine that Spawn drives. If Engine is set, that is a copy of it
// with an absolute Path, and the error is that of [dockercli.Engine.Resolve]. Otherwise
// it is the engine that [dockercli.Find] returned first in this program, and the error is
// that of Find or wraps the cause of ctx.
func (p DockerPolicy) FindEngine(ctx context.Context) (*dockercli.Engine, error) {
	return p.engine(ctx)
}

// checkRuntime returns why the engine can't start the policy's runtime, or nil. An engine
// that can't be asked fails to start anything, and says why itself.
func (p *DockerPolicy) checkRuntime(ctx context.Context, e *dockercli.Engine) error {
	if p.Runtime == "" || p.compat {
		return nil
	}
	var found problems.List
	if err := engines.CheckRuntime(ctx, e, p.Runtime); err != nil {
		found.Add("Runtime: %w", err)
	}
	return problems.Join(found...)
}

// engine returns the engine to drive.
func (p *DockerPolicy) engine(ctx context.Context) (*dockercli.Engine, error) {
	if p.Engine != nil {
		return p.Engine.Resolve()
	}
	return defaultEngine.Get(ctx)
}
