package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/setup"
)

// label is the container label by which the tour finds its own containers.
const label = "cofferdam-tour"

// A host is what the steps work on.
type host struct {
	spec    string // by which the engine is looked up
	engine  *dockercli.Engine
	image   string
	id      string // the value of the label
	secret  string
	limits  error               // says what limits the engine does not set
	session *execpolicy.Session // nil before the first step
	// stateLost says that the last command has cost the session its shell.
	stateLost bool
}

// policy returns the policy of a session: the zero one, with the tour's engine and image.
func (h *host) policy() execpolicy.DockerPolicy {
	return execpolicy.DockerPolicy{Engine: h.engine, Image: h.image}
}

func (h *host) close() {
	if h.session == nil {
		return
	}
	if err := h.session.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// environ returns the environment of the engine's client.
func (h *host) environ() []string {
	if h.engine.Env == nil {
		return os.Environ()
	}
	return slices.Clone(h.engine.Env)
}

// inspect returns all that the engine tells of a container.
func (h *host) inspect(ctx context.Context, name string) (string, error) {
	cmd := exec.CommandContext(ctx, h.engine.Path, slices.Concat(h.engine.Global, []string{"inspect", name})...)
	cmd.Env = h.environ()
	out, err := cmd.Output()
	return string(out), err
}

// findHost returns the first wanted engine that runs containers, and installs one where
// there is none and it may.
func findHost(ctx context.Context, progress io.Writer) (*host, error) {
	h, err := tryEngines(ctx, setup.Wanted(), progress)
	if err == nil || ctx.Err() != nil {
		return h, err
	}
	fmt.Fprintf(progress, "No container engine works here.\n%v\n", err)
	command, err := installCommand()
	if err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 || os.Getenv("NO_INSTALL") != "" {
		return nil, fmt.Errorf("to install one, run:\n\t%s", asRoot(command))
	}
	fmt.Fprintf(progress, "Installing one:\n\t%s\n", command)
	// Ctrl-C reaches the package manager from the terminal. It has to end in its own way.
	install := exec.Command("sh", "-c", command)
	install.Stdout, install.Stderr = progress, progress
	if err := install.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	return tryEngines(ctx, []string{"podman"}, progress)
}

// tryEngines returns the first engine that runs containers, or the reasons why none does.
func tryEngines(ctx context.Context, specs []string, progress io.Writer) (*host, error) {
	var reasons []error
	for _, spec := range specs {
		e, err := setup.Lookup(ctx, spec)
		if err != nil {
			reasons = append(reasons, err)
			continue
		}
		image, err := setup.Ready(ctx, e, progress)
		if err != nil {
			reasons = append(reasons, fmt.Errorf("%s: %w", spec, err))
			continue
		}
		limits := setup.Limits(ctx, e)
		return &host{spec: spec, engine: e, image: image, limits: limits, id: strings.ToLower(rand.Text()),
			secret: rand.Text()}, nil
	}
	return nil, errors.Join(reasons...)
}
