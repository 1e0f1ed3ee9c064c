package container

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/policyerr"
)

// sweepTimeout is how long Sweep takes for one container, or half the time that is left,
// so that one which hangs does not cost the others theirs. Docker gives a removal up
// after 12 s.
const sweepTimeout = 30 * time.Second

// Sweep removes the engine's containers of this library whose labels prove that nobody
// can be using them any more, and returns their names. It goes on after an error. ctx
// bounds the whole, and no container gets more than 30 s of it.
func Sweep(ctx context.Context, e *dockercli.Engine) (removed []string, err error) {
	names, err := e.PS(ctx, map[string]string{LabelName: ""}) // any value
	if err != nil {
		return nil, err
	}
	now := Earlier(ctx, e)
	var errs []error
	for i, name := range names {
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("%d containers were not looked at: %w", len(names)-i, context.Cause(ctx)))
			break
		}
		ok, err := sweep(ctx, e, name, now)
		if ok {
			removed = append(removed, name)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("container %s: %w", name, err))
		}
	}
	return removed, errors.Join(errs...)
}

// Earlier returns the time by this machine's clock or, if that is behind, by the
// engine's: what labels tell is another machine's, and both have to be past it.
func Earlier(ctx context.Context, e *dockercli.Engine) time.Time {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	now := time.Now()
	if its, err := e.Time(ctx); err == nil && its.Before(now) {
		now = its
	}
	return now
}

// sweep removes one container if nobody can be using it.
func sweep(ctx context.Context, e *dockercli.Engine, name string, now time.Time) (removed bool, err error) {
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
	if !Abandoned(found.Name, found.Labels, now) {
		return false, nil
	}
	var first FirstProcess
	if found.Running && found.OwnPIDs && !e.Remote {
		first = FindFirst(found.Name, 0)
		// Code inside may have moved it into a group of its own making.
		if above, below, ok := strings.Cut(first.Freezer, found.ID); ok {
			rest, _, _ := strings.Cut(below, "/")
			first.Freezer = above + found.ID + rest
		}
		if !strings.Contains(filepath.Base(first.Quota), found.ID) {
			first.Quota = ""
		}
	}
	// The name may be another's by now; the ID never is.
	c := &Container{Engine: e, Name: found.ID, OwnPIDs: found.OwnPIDs}
	c.Adopt(nil, found.Running, first)
	switch found.Labels[labelKeep] {
	case "true":
		c.Keep = true
		if !found.Running {
			return false, nil
		}
	case "false":
	default:
		return false, nil
	}
	kill, help := c.killLater(ctx)
	defer help.Stop()
	if err := c.end(ctx, kill); err != nil {
		return false, fmt.Errorf("%w: %w", policyerr.ErrStillThere, err)
	}
	return !c.Keep, nil
}
