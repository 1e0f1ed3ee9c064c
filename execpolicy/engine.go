package execpolicy

import (
	"context"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/shared"
)

// found is the engine of policies that name none. It takes a tenth of a second to find.
var found = shared.New("an engine", dockercli.Find)

// FindEngine returns the engine that Spawn drives. That is Engine or, if it is nil, what
// [dockercli.Find] returns, which is remembered for the program's life. Its error is that
// of Find or wraps the cause of ctx.
func (p DockerPolicy) FindEngine(ctx context.Context) (*dockercli.Engine, error) {
	return p.engine(ctx)
}

// engine returns the engine to drive.
func (p *DockerPolicy) engine(ctx context.Context) (*dockercli.Engine, error) {
	if p.Engine != nil {
		return p.Engine.Resolve()
	}
	return found.Get(ctx)
}
