package dockercli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// OOMKilled reports whether the engine has seen a process of the container killed for want of memory, also after the container
// was removed. Docker remembers the last 256 events or so of all its containers; it is asked for those before now, by the clock
// of this machine. Podman remembers none: the error then matches [errors.ErrUnsupported].
func (e *Engine) OOMKilled(ctx context.Context, container string) (bool, error) {
	argv, err := e.oomArgs(container, time.Now())
	if err != nil {
		return false, err
	}
	out, err := e.do(ctx, call{verb: "events", argv: argv})
	if err != nil {
		return false, err
	}
	return strings.Contains(string(out), "oom"), nil
}

func (e *Engine) oomArgs(container string, until time.Time) ([]string, error) {
	if !e.Kind.dialect().oomEvent {
		return nil, fmt.Errorf("events: %s has none for a container that is out of memory: %w", e.Kind, errors.ErrUnsupported)
	}
	var c checker
	c.container(container)
	// Without an end the client would wait for events to come. Its own word for now, 0s, is cut to whole seconds.
	end := fmt.Sprintf("--until=%d.%09d", until.Unix(), until.Nanosecond())
	return e.argv("events", "--since=0", end, "--filter=type=container", "--filter=container="+container, "--filter=event=oom",
		"--format={{.Action}}"), c.err()
}
