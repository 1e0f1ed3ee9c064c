package execpolicy

import (
	"context"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/container"
)

// Sweep removes the containers of this library that nobody can be using any more, and
// returns their names. If e is nil, it is the engine that a [DockerPolicy] without one
// finds. Most programs need no Sweep: a container ends with the program that started it.
// One that runs code as root with added capabilities, that drives an engine over a
// network, or that is killed with all of its cgroup may leave some, and may call Sweep
// when it starts.
//
// A container is removed only if its labels prove one of two things. The program that
// started it has ended: it ran on this machine since its last boot, in this program's
// process namespace, and its process is gone. That can be told on Linux only. Or its
// session's [Limits.Lifetime] is long over, by this machine's clock, wherever it was
// started. Every other container is left alone, whatever its name, also if its owner
// can't be looked at. One that is to be kept ([DockerPolicy.KeepContainer]) is killed if
// it still runs, left, and not among the names.
//
// Sweep goes on after an error. Errors name the containers that could not be looked at or
// removed; those that could not be removed wrap [ErrStillThere]. A container that
// somebody else removes at the same time is no error. ctx bounds the whole, and no
// container gets more than 30 s of it.
func Sweep(ctx context.Context, e *dockercli.Engine) (removed []string, err error) {
	if e, err = (&DockerPolicy{Engine: e}).engine(ctx); err != nil {
		return nil, err
	}
	return container.Sweep(ctx, e)
}
