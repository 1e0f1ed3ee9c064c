package execpolicy

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

// sweepTimeout is how long Sweep takes for one container, or half the time that is left,
// so that one which hangs does not cost the others theirs. Docker gives a removal up
// after 12 s.
const sweepTimeout = 30 * time.Second

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
	names, err := e.PS(ctx, map[string]string{labelName: ""}) // any value
	if err != nil {
		return nil, err
	}
	var errs []error
	for i, name := range names {
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("%d containers were not looked at: %w", len(names)-i, context.Cause(ctx)))
			break
		}
		ok, err := sweep(ctx, e, name)
		if ok {
			removed = append(removed, name)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("container %s: %w", name, err))
		}
	}
	return removed, errors.Join(errs...)
}

// sweep removes one container if nobody can be using it.
func sweep(ctx context.Context, e *dockercli.Engine, name string) (removed bool, err error) {
	timeout := sweepTimeout
	if end, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(end)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found, err := e.Inspect(ctx, name)
	if errors.Is(err, dockercli.ErrNoContainer) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !abandoned(found, time.Now()) {
		return false, nil
	}
	// The name may be another's by now; the ID never is.
	c := &container{engine: e, name: found.ID, ownPIDs: found.OwnPIDs}
	if found.Running && found.OwnPIDs && !e.Remote {
		first := findFirst(found.Name, 0)
		c.first.Store(&first)
	}
	// What may run inside is ended before the engine is asked to remove it.
	c.answered.Store(found.Running)
	switch found.Labels[labelKeep] {
	case "true":
		c.keep = true
		if !found.Running {
			return false, nil
		}
	case "false":
	default:
		return false, nil
	}
	kill := sync.OnceValue(func() <-chan struct{} { return c.killAll(ctx) })
	defer c.help(ctx, kill).Stop()
	if err := c.end(ctx, kill); err != nil {
		return false, fmt.Errorf("%w: %w", ErrStillThere, err)
	}
	return !c.keep, nil
}

// abandoned reports whether a container's labels prove that nobody can be using it.
func abandoned(c *dockercli.Container, now time.Time) bool {
	if c.Labels[labelName] != c.Name {
		return false
	}
	expires, err := strconv.ParseUint(c.Labels[labelExpires], 10, 63)
	return err == nil && now.Unix() > int64(expires) || ownerGone(c.Labels)
}

// ownerGone reports whether labels prove that the program which started a container has
// ended.
func ownerGone(labels map[string]string) bool {
	me := owner()
	for _, key := range []string{labelHost, labelBoot, labelPIDNS} {
		if me[key] == "" || labels[key] != me[key] {
			return false
		}
	}
	// A start time that is told in another time namespace can't be compared.
	if labels[labelTimeNS] != me[labelTimeNS] {
		return false
	}
	// The kernel would cut longer numbers short, and take negative ones for groups.
	pid, err := strconv.ParseUint(labels[labelPID], 10, 31)
	if err != nil {
		return false
	}
	start, err := strconv.ParseUint(labels[labelPIDStart], 10, 64)
	return err == nil && ended(int(pid), start)
}
