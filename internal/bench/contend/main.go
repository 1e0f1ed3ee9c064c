// Command contend takes part in the scoreboard with what needs no other module: this
// library, and the ways to run a command by the engine's program.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/bench/contest"
)

func main() {
	contest.Serve(map[string]contest.Contender{
		"cofferdam": &session{},
		"exec":      &execs{},
		"run":       &runs{},
		"langchain": &langchain{},
	})
}

// A session is one of this library.
type session struct {
	*execpolicy.Session
	engine *dockercli.Engine // found once
}

func (s *session) Start(ctx context.Context, c contest.Container) (err error) {
	if s.engine == nil {
		if s.engine, err = dockercli.Lookup(ctx, strings.Join(c.Engine, " ")); err != nil {
			return err
		}
	}
	p := execpolicy.DockerPolicy{Engine: s.engine, Image: c.Image}
	p.CommandTimeout = -1
	s.Session, err = execpolicy.Start(ctx, p, execpolicy.Spec{Labels: c.Labels})
	return err
}

func (s *session) Run(ctx context.Context, script string) (int, error) {
	r, err := s.Session.Run(ctx, execpolicy.Command{Script: script})
	if err != nil {
		return 0, err
	}
	if r.Outcome != execpolicy.OutcomeExited || r.ExitCode != 0 {
		err = fmt.Errorf("%v, exit code %d", r.Outcome, r.ExitCode)
	}
	return len(r.Stdout), err
}

// A container is one that the engine's client runs.
type container struct {
	contest.Container
	name string
}

// client returns the engine's client. It is killed when ctx ends, as it is everywhere.
func (c *container) client(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, c.Engine[0], slices.Concat(c.Engine[1:], args)...)
}

// output runs a client that runs a command, and returns the length of its output.
func (c *container) output(ctx context.Context, args ...string) (int, error) {
	out, err := c.client(ctx, args...).Output()
	return len(out), err
}

// run returns the arguments of the engine's run.
func (c *container) run(flags ...string) []string {
	args := append([]string{"run"}, flags...)
	for key, value := range c.Labels {
		args = append(args, "--label", key+"="+value)
	}
	return args
}

// An execs runs each command by the engine's exec.
type execs struct{ container }

func (e *execs) Start(ctx context.Context, c contest.Container) error {
	e.Container = c
	args := append(e.run("--detach"), c.Flags...)
	start := e.client(ctx, append(args, c.Image, "sleep", "7200")...)
	var stderr bytes.Buffer
	start.Stderr = &stderr
	out, err := start.Output()
	if err != nil {
		return fmt.Errorf("%w: %s", err, &stderr)
	}
	e.name = string(bytes.TrimSpace(out))
	return nil
}

func (e *execs) Run(ctx context.Context, script string) (int, error) {
	return e.output(ctx, "exec", e.name, "sh", "-c", script)
}

func (e *execs) Close() error {
	return e.client(context.Background(), "rm", "--force", e.name).Run()
}

// A runs runs a container for each command.
type runs struct{ container }

func (r *runs) Start(_ context.Context, c contest.Container) error {
	r.Container = c
	return nil
}

func (r *runs) Run(ctx context.Context, script string) (int, error) {
	args := append(r.run("--rm"), r.Flags...)
	return r.output(ctx, append(args, r.Image, "sh", "-c", script)...)
}

func (r *runs) Close() error { return nil }
