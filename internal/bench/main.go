// Command bench measures the library beside the bare engine in one run, and says which of its promises hold.
//
// Everything runs on a real engine: the first of docker and podman that answers, or the one that the environment's ENGINE names.
// Where two things are compared they take turns in short rounds, so that whatever else the machine does slows both, and a ratio is
// that of the medians of all rounds. Every container gets the same flags, those of the zero [execpolicy.DockerPolicy], unless the
// line says otherwise. The exit status is 1 if a bound is broken or something could not be measured.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/setup"
)

func main() {
	ctx := context.Background()
	p, err := policy(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	fmt.Printf("%s %s, image %s\n\n", p.Engine.Kind, p.Engine.ServerVersion, p.Image)
	t := table{w: os.Stdout}
	t.header()
	failed := false
	for _, measure := range []func(context.Context, execpolicy.DockerPolicy, *table) error{commands, starts, captures, truncates, sizes} {
		if err := measure(ctx, p, &t); err != nil {
			failed = true
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}
	if t.broken > 0 {
		fmt.Printf("\n%d of the bounds do not hold\n", t.broken)
	}
	if failed || t.broken > 0 {
		os.Exit(1)
	}
}

// policy returns the zero policy, on an engine that has run a container of the image.
func policy(ctx context.Context) (p execpolicy.DockerPolicy, err error) {
	var errs []error
	for _, name := range setup.Wanted() {
		p.Engine, err = dockercli.Lookup(ctx, name)
		if err == nil {
			p.Image, err = setup.Ready(ctx, p.Engine, os.Stderr)
		}
		if err == nil {
			return p, nil
		}
		errs = append(errs, err)
	}
	return p, errors.Join(errs...)
}
