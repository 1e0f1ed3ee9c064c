package dockercli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// CheckRuntime returns nil if a run may name that runtime. Its error matches
// [ErrNoRuntime], and lists the runtimes that there are, if the engine does not have it.
// Any other error means that the client could not ask.
//
// With docker a runtime with a path, or with a name such as "io.containerd.kata.v2", is
// never refused, because it need not be among those that docker lists. Podman lists
// none: it is asked for the usual ones by their names. Nerdctl lists none either, and
// takes any name until it starts a container.
func (e *Engine) CheckRuntime(ctx context.Context, name string) error {
	switch e.Kind {
	case Nerdctl:
		return nil
	case Docker:
		info, err := e.Info(ctx)
		if err != nil || slices.Contains(info.Runtimes, name) || strings.Contains(name, "/") ||
			strings.HasPrefix(name, "io.containerd.") {
			return err
		}
		return noRuntime(name, info.Runtimes)
	}
	if e.Remote {
		return fmt.Errorf("%w: %q: podman's remote client can't name one", ErrNoRuntime, name)
	}
	err := e.tryRuntime(ctx, name)
	if !errors.Is(err, ErrArgument) && !errors.Is(err, ErrRuntime) {
		return err
	}
	info, err := e.Info(ctx)
	if err != nil {
		return err
	}
	has := []string{info.DefaultRuntime}
	for _, usual := range usualRuntimes {
		if usual != name && usual != info.DefaultRuntime && e.tryRuntime(ctx, usual) == nil {
			has = append(has, usual)
		}
	}
	slices.Sort(has)
	return noRuntime(name, has)
}

// usualRuntimes are those that podman's own configuration names.
var usualRuntimes = []string{"crun", "kata", "krun", "runc", "runsc", "youki"}

func noRuntime(name string, has []string) error {
	return fmt.Errorf("%w: %q; it has %q", ErrNoRuntime, name, has)
}

// tryRuntime has podman look for a runtime, and do nothing with it.
func (e *Engine) tryRuntime(ctx context.Context, name string) error {
	argv, err := e.tryRuntimeArgs(name)
	if err == nil {
		_, err = e.do(ctx, call{verb: "info", argv: argv})
	}
	return err
}

func (e *Engine) tryRuntimeArgs(name string) ([]string, error) {
	var c checker
	argv := e.argv("--runtime="+name, "info", "--format={{.Host.OCIRuntime.Name}}")
	c.words(argv)
	return argv, c.err()
}
