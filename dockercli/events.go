package dockercli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// OOMKilled reports whether the engine has seen the kernel kill a process of the
// container for memory since a time, and has not sent the container a signal after that.
// The zero time means ever. It also works after the container was removed. Docker
// remembers about the last 256 events of all its containers. It compares them with this
// machine's clock. Podman and its service remember none: the error then matches
// [errors.ErrUnsupported].
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
