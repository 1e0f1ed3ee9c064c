package execpolicy

import (
	"context"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/container"
)

// Sweep removes the containers of this library that nobody can be using any more, and
// returns their names. If e is nil, it uses the engine that a [DockerPolicy] without one
// finds.
//
// Most programs need no Sweep, because a container ends with the program that started it.
// But a program may leave containers behind if it runs code as root with added
// capabilities, drives an engine over a network, or is killed with all of its cgroup.
// Such a program can call Sweep when it starts.
//
// Sweep removes a container only if its labels prove one of these:
//
//   - The program that started it has ended: it ran on this machine since the last boot,
//     in the PID namespace of this program, and its process is gone. Only Linux can tell.
//     Machines that were restored from one snapshot with their memory can't be told
//     apart by this. If they share an engine, Sweep on one can remove what another uses:
//     call it on none of them.
//   - The time that its policy gave it ended more than an hour ago, by this machine's
//     clock and, if the engine tells its time, by the engine's too. That time is
//     StartupTimeout, Lifetime and TerminationTimeout of [Limits] together. A shorter
//     Lifetime in [Spec.Limits] does not count. A container with a negative Lifetime, or
//     of a Spawn without a session, has no such time. It does not matter where the
//     container was started.
//     Clocks count the time in which a machine sleeps, and a Lifetime on Linux does not:
//     the container of a program that lives can be removed if its machine has slept for
//     more than that hour, or if these clocks were set forward by more.
//
// Sweep leaves every other container alone, whatever its name, even if it can't find out
// about its owner. A container that is to be kept ([DockerPolicy.KeepContainer]) is
// killed if it still runs, and is not removed. Its name is not returned.
//
// Sweep goes on after an error. Its error names the containers that could not be looked
// at or removed. If one could not be removed, the error wraps [ErrStillThere]. It is not
// an error if somebody else removes a container at the same time. If there is no engine,
// or it does not list its containers, Sweep removes nothing, and the error is that of
// [DockerPolicy.FindEngine] or of the engine's client. ctx bounds the whole, and each
// container gets at most 30 s.
func Sweep(ctx context.Context, e *dockercli.Engine) (removed []string, err error) {
	if e, err = (&DockerPolicy{Engine: e}).engine(ctx); err != nil {
		return nil, err
	}
	return container.Sweep(ctx, e)
}
