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
	commandSets   = 8
	commandRounds = 6
	commandBurst  = 40
	execRounds    = 20
)

// commands holds a session's shortest command against a byte that goes through cat in a
// container of its own, and against a process that the engine adds to a container.
func commands(ctx context.Context, p execpolicy.DockerPolicy, t *table) error {
	shells, err := shellsOf(ctx, p)
	if err != nil {
		return err
	}
	all, err := anew(commandSets, func() ([]times, error) { return commandSet(ctx, p, shells) })
	if err != nil {
		return err
	}
	execs, err := execTimes(ctx, p)
	if err != nil {
		return err
	}
	for i, shell := range shells {
		raw, ours, bound := all[0], all[1+i], map[string]float64{"sh": 3, "bash": 4}[shell]
		t.atMost("session command, "+shell, ours.String(), raw.String()+", a byte through run -i cat", bound, ours.over(raw))
		t.atLeast("session command, "+shell+", times faster", ours.String(), execs.String()+", exec true", 50,
			execs.over(ours))
	}
	return nil
}

// shellsOf returns sh and, if the image has it, bash. Without that there are fewer lines.
func shellsOf(ctx context.Context, p execpolicy.DockerPolicy) ([]string, error) {
	r, err := execpolicy.Run(ctx, p, execpolicy.Spec{Command: []string{"sh"}},
		execpolicy.Command{Script: "command -v bash"})
	if err != nil {
		return nil, err
	}
	if r.ExitCode == 0 {
		return []string{"sh", "bash"}, nil
	}
	return []string{"sh"}, nil
}

// commandSet starts a container for the byte and a session for each shell, and returns
// their times in that order.
func commandSet(ctx context.Context, p execpolicy.DockerPolicy, shells []string) (set []times, err error) {
	argv, err := runArgs(ctx, p, "cat")
	if err != nil {
		return nil, err
	}
	raw, err := startClient(p, argv)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, raw.close()) }()
	subjects := []func() (time.Duration, error){burst(commandBurst, raw.echo)}
	for _, shell := range shells {
		s, startErr := execpolicy.Start(ctx, p, execpolicy.Spec{Command: []string{shell}})
		if startErr != nil {
			return nil, startErr
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		subjects = append(subjects, burst(commandBurst, func() error { return colon(ctx, s) }))
	}
	// The first of each warms up what comes after it.
	if _, err := takeTurns(2, subjects...); err != nil {
		return nil, err
	}
	return takeTurns(commandRounds, subjects...)
}

// execTimes are those of the engine's exec. It takes no turns with the others: what the
// engine does for it slows down whoever comes next.
func execTimes(ctx context.Context, p execpolicy.DockerPolicy) (taken times, err error) {
	s, err := execpolicy.Start(ctx, p, execpolicy.Spec{Command: []string{"sh"}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	all, err := takeTurns(execRounds, burst(1, func() error {
		_, _, err := p.Engine.Exec(ctx, dockercli.ExecOptions{Container: s.Name(), Command: []string{"true"}})
		return err
	}))
	if err != nil {
		return nil, err
	}
	return all[0], nil
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
	if r.Outcome != execpolicy.OutcomeExited || r.ExitCode != 0 {
		return fmt.Errorf("a command that should succeed: %v, exit code %d, %s", r.Outcome, r.ExitCode, r.Stderr)
	}
	return nil
}
