package dockercli

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// removePoll is the pause between two looks at a container that somebody else is
// removing. That takes a tenth of a second or so.
const removePoll = 50 * time.Millisecond

// Remove kills the container, if it runs, and removes it and its anonymous volumes. It is
// not an error if there is no such container. If somebody else is removing it, Remove
// waits for that until ctx ends.
func (e *Engine) Remove(ctx context.Context, container string) error {
	argv, err := e.RemoveArgs(container)
	if err != nil {
		return err
	}
	_, err = e.do(ctx, call{verb: "rm", argv: argv})
	switch {
	case errors.Is(err, ErrNoContainer):
		return nil
	case errors.Is(err, errRemoving):
		return e.awaitRemoval(ctx, container)
	}
	return err
}

func (e *Engine) awaitRemoval(ctx context.Context, container string) error {
	tick := time.NewTicker(removePoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("rm: %w, and is still there: %w", errRemoving, context.Cause(ctx))
		case <-tick.C:
		}
		_, err := e.Inspect(ctx, container)
		if errors.Is(err, ErrNoContainer) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// RemoveArgs returns the argument vector that removes containers by force, the client's
// program included. Names of containers can be appended to it. Its error names everything
// that is wrong, and matches [ErrArgument].
func (e *Engine) RemoveArgs(containers ...string) ([]string, error) {
	var c checker
	for _, container := range containers {
		c.container(container)
	}
	argv := e.argv("rm", "--force", "--volumes")
	argv = append(argv, e.Kind.dialect().remove...)
	return append(append(argv, "--"), containers...), c.err()
}
