package dockercli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// OOMKilled reports whether the engine has seen the kernel kill a process of the
// container for memory since a time, and has not sent the container a signal after that.
// The zero time means ever. It also works after the container was removed. Docker
// remembers about the last 256 events of all its containers. since is a time of the
// engine's clock, which [Engine.Time] tells. Podman, its service and nerdctl remember no
// such events: the error then matches [errors.ErrUnsupported].
func (e *Engine) OOMKilled(ctx context.Context, container string, since time.Time) (bool, error) {
	argv, err := e.oomArgs(container, since, e.until(ctx))
	if err != nil {
		return false, err
	}
	out, err := e.do(ctx, call{verb: "events", argv: argv})
	if err != nil {
		return false, err
	}
	// The events come in their order.
	return strings.HasSuffix(strings.TrimSpace(string(out)), "oom"), nil
}

// until returns the time up to which events have happened.
func (e *Engine) until(ctx context.Context) time.Time {
	if now, err := e.Time(ctx); err == nil {
		return now
	}
	return time.Now() // of a client that tells no time, or whose events won't come either
}

func (e *Engine) oomArgs(container string, since, until time.Time) ([]string, error) {
	if !e.Kind.dialect().oomEvent || e.PodmanService {
		name := e.Kind
		if e.PodmanService {
			name = Podman
		}
		return nil, fmt.Errorf("events: %s does not report that a container is out of memory: %w", name, errors.ErrUnsupported)
	}
	return e.eventArgs(container, since, until, "{{.Action}}", "oom", "kill")
}

// ExitCode returns the exit status of a container that has ended since a time, or -1 if
// the engine does not know of an end yet. The zero time means ever. It also works after
// the container was removed. What [Engine.OOMKilled] says of docker's events and clock
// holds here too. Podman tells only if its configuration has it keep events. Podman's
// service and nerdctl don't tell: the error then matches [errors.ErrUnsupported].
func (e *Engine) ExitCode(ctx context.Context, container string, since time.Time) (int, error) {
	argv, err := e.exitArgs(container, since, e.until(ctx))
	if err != nil {
		return -1, err
	}
	out, err := e.do(ctx, call{verb: "events", argv: argv})
	if err != nil {
		return -1, err
	}
	lines := strings.Fields(string(out))
	if len(lines) == 0 {
		return -1, nil
	}
	code, err := strconv.Atoi(lines[len(lines)-1])
	if err != nil || code < 0 || code > 255 {
		return -1, fmt.Errorf("events: unexpected answer %.200q", out)
	}
	return code, nil
}

func (e *Engine) exitArgs(container string, since, until time.Time) ([]string, error) {
	if e.PodmanService {
		return nil, fmt.Errorf("events: podman's service tells docker's client of no exit status: %w", errors.ErrUnsupported)
	}
	d := e.Kind.dialect()
	if d.exitEvent == "" {
		return nil, fmt.Errorf("events: %s tells no exit status: %w", e.Kind, errors.ErrUnsupported)
	}
	return e.eventArgs(container, since, until, d.exitFormat, d.exitEvent)
}

// eventArgs asks for events of a container that have happened.
func (e *Engine) eventArgs(container string, since, until time.Time, format string, events ...string) ([]string, error) {
	var c checker
	c.container(container)
	stamp := func(t time.Time) string { return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()) }
	begin := "0"
	if !since.IsZero() {
		begin = stamp(since)
	}
	// Without an end docker's client would wait for events to come. Its own word for now,
	// 0s, is cut to whole seconds. Podman's shows none if it is given one.
	end := "--until=" + stamp(until)
	if e.Kind.dialect().eventsWithoutEnd {
		end = "--stream=false"
	}
	argv := e.argv("events", "--since="+begin, end, "--filter=type=container", "--filter=container="+container)
	for _, event := range events {
		argv = append(argv, "--filter=event="+event)
	}
	return append(argv, "--format="+format), c.err()
}
