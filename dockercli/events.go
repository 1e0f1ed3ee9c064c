package dockercli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// OOMKilled reports whether the engine has seen a process of the container killed for
// want of memory since then, and has not sent it a signal after that, also after the
// container was removed. The zero time means ever. Docker remembers the last 256 events
// or so of all its containers; it is asked for those before now, and both times are by
// the clock of this machine. Podman remembers none, nor does its service: the error then
// matches [errors.ErrUnsupported].
func (e *Engine) OOMKilled(ctx context.Context, container string, since time.Time) (bool, error) {
	argv, err := e.oomArgs(container, since, time.Now())
	if err != nil {
		return false, err
	}
	out, err := e.do(ctx, call{verb: "events", argv: argv})
	if err != nil {
		return false, err
	}
	// They come in their order.
	return strings.HasSuffix(strings.TrimSpace(string(out)), "oom"), nil
}

func (e *Engine) oomArgs(container string, since, until time.Time) ([]string, error) {
	if !e.Kind.dialect().oomEvent || e.PodmanService {
		return nil, fmt.Errorf("events: %s has none for a container that is out of memory: %w", Podman, errors.ErrUnsupported)
	}
	var c checker
	c.container(container)
	stamp := func(t time.Time) string { return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()) }
	begin := "0"
	if !since.IsZero() {
		begin = stamp(since)
	}
	// Without an end the client would wait for events to come. Its own word for now, 0s,
	// is cut to whole seconds.
	return e.argv("events", "--since="+begin, "--until="+stamp(until), "--filter=type=container", "--filter=container="+container,
		"--filter=event=oom", "--filter=event=kill",
		"--format={{.Action}}"), c.err()
}
