package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

const (
	commandRounds = 40
	commandBurst  = 40
	execRounds    = 20
)

// commands holds a session's shortest command against a byte that goes through cat in a container of its own, and against a process
// that the engine adds to a container.
func commands(ctx context.Context, p execpolicy.DockerPolicy, t *table) (err error) {
	argv, err := runArgs(ctx, p, "cat")
	if err != nil {
		return err
	}
	raw, err := startClient(p, argv)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, raw.close()) }()

	session := func(shell string) (*execpolicy.Session, error) {
		return execpolicy.Start(ctx, p, execpolicy.Spec{Command: []string{shell}})
	}
	sh, err := session("sh")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sh.Close()) }()

	exec := func() error {
		_, _, err := p.Engine.Exec(ctx, dockercli.ExecOptions{Container: sh.Name(), Command: []string{"true"}})
		return err
	}
	subjects := []func() (time.Duration, error){
		burst(commandBurst, raw.echo),
		burst(commandBurst, func() error { return colon(ctx, sh) }),
	}
	shells := []string{"sh"}
	// An image without bash has one line less.
	if r, err := sh.Run(ctx, execpolicy.Command{Script: "command -v bash"}); err != nil {
		return err
	} else if r.ExitCode == 0 {
		bash, err := session("bash")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, bash.Close()) }()
		subjects = append(subjects, burst(commandBurst, func() error { return colon(ctx, bash) }))
		shells = append(shells, "bash")
	}
	// The first of each warms up what comes after it.
	if _, err := takeTurns(2, subjects...); err != nil {
		return err
	}
	all, err := takeTurns(commandRounds, subjects...)
	if err != nil {
		return err
	}
	// It takes no turns with the others: what the engine does for it slows down whoever comes next.
	execs, err := takeTurns(execRounds, burst(1, exec))
	if err != nil {
		return err
	}
	rawTimes, execTimes := all[0], execs[0]
	for i, shell := range shells {
		ours, bound := all[1+i], map[string]float64{"sh": 3, "bash": 4}[shell]
		t.atMost("session command, "+shell, ours.String(), rawTimes.String()+", a byte through run -i cat", bound, ours.over(rawTimes))
		t.atLeast("session command, "+shell+", times faster", ours.String(), execTimes.String()+", exec true", 50, execTimes.over(ours))
	}
	return nil
}

// echo sends a byte and waits for it to come back.
func (c *client) echo() error {
	if _, err := c.stdin.Write([]byte{'\n'}); err != nil {
		return err
	}
	return c.discard(1)
}

// colon runs the command that does nothing.
func colon(ctx context.Context, s *execpolicy.Session) error {
	r, err := s.Run(ctx, execpolicy.Command{Script: ":"})
	if err != nil {
		return err
	}
	return succeeded(r)
}

func succeeded(r *execpolicy.Result) error {
	if r.Outcome != execpolicy.Exited || r.ExitCode != 0 {
		return fmt.Errorf("a command that should succeed: %v, exit code %d, %s", r.Outcome, r.ExitCode, r.Stderr)
	}
	return nil
}
