package dockercli

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// OOMKilled reports whether the engine has seen a process of the container killed for want of memory, also after the container was removed.
// Docker remembers the last 256 events or so of all its containers. Podman remembers none: the error then matches [errors.ErrUnsupported].
func (e *Engine) OOMKilled(ctx context.Context, container string) (bool, error) {
	argv, err := e.oomArgs(container)
	if err != nil {
		return false, err
	}
	out, err := e.do(ctx, call{verb: "events", argv: argv})
	if err != nil {
		return false, err
	}
	return strings.Contains(string(out), "oom"), nil
}

func (e *Engine) oomArgs(container string) ([]string, error) {
	if !e.Kind.dialect().oomEvent {
		return nil, fmt.Errorf("events: %s has none for a container that is out of memory: %w", e.Kind, errors.ErrUnsupported)
	}
	var c checker
	c.container(container)
	// Without an end the client would wait for events to come. 0s is now.
	return e.argv("events", "--since=0", "--until=0s", "--filter=type=container", "--filter=container="+container, "--filter=event=oom",
		"--format={{.Action}}"), c.err()
}
