package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

const (
	// startTimeout is for a machine under load, and less than an engine's whole time.
	startTimeout = 30 * time.Second
	// deadline is that of the command that is to run into it.
	deadline = time.Second
	// goneTimeout is for one look at a container, even when the engine's time is over.
	goneTimeout = 5 * time.Second
	// works is what a command prints.
	works = "it works"
)

// try does what a session needs of an engine, and returns the steps. The error is that of
// those that have failed.
func try(ctx context.Context, e *dockercli.Engine, image string) (steps []Step, err error) {
	done := func(name StepName, start time.Time, failed error) bool {
		steps = append(steps, newStep(name, start, failed))
		err = errors.Join(err, failed)
		return failed == nil
	}
	start := time.Now()
	s, failed := execpolicy.Start(ctx, execpolicy.DockerPolicy{
		Engine: e, Image: image, Pull: dockercli.PullNever,
		// Podman's service takes no other filter, whichever client asks it.
		EngineSeccomp: e.PodmanService || e.Kind == dockercli.Podman && e.Remote,
		Limits:        execpolicy.Limits{StartupTimeout: startTimeout},
	}, execpolicy.Spec{})
	if !done(StepStart, start, failed) {
		return steps, err
	}
	name := s.Name()

	start = time.Now()
	r, failed := s.Run(ctx, execpolicy.Command{Script: "echo " + works})
	if failed == nil && (r.Outcome != execpolicy.OutcomeExited || r.ExitCode != 0 || strings.TrimSpace(string(r.Stdout)) != works) {
		failed = fmt.Errorf("the command ended as %v, with exit code %d and the output %.200q", r.Outcome, r.ExitCode, r.Stdout)
	}
	if done(StepCommand, start, failed) {
		start = time.Now()
		// It takes no program of the image.
		r, failed = s.Run(ctx, execpolicy.Command{Script: "while :; do :; done", Timeout: deadline})
		if failed == nil && r.Outcome != execpolicy.OutcomeTimedOut {
			failed = fmt.Errorf("the command that should run into its deadline ended as %v", r.Outcome)
		}
		done(StepDeadline, start, failed)
	}

	start = time.Now()
	failed = s.Close()
	if failed == nil {
		failed = gone(ctx, e, name)
	}
	if failed != nil {
		failed = fmt.Errorf("container %s: %w", name, failed)
	}
	done(StepRemoval, start, failed)
	return steps, err
}

// gone returns an error if a container is still there.
func gone(ctx context.Context, e *dockercli.Engine, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goneTimeout)
	defer cancel()
	_, err := e.Inspect(ctx, name)
	if err == nil {
		return execpolicy.ErrStillThere
	}
	if errors.Is(err, dockercli.ErrNoContainer) {
		return nil
	}
	return fmt.Errorf("whether it is gone is not known: %w", err)
}
