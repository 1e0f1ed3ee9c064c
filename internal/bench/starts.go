package main

import (
	"context"
	"errors"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

const startRounds = 60

// starts holds the start of a session, until Start returns and a command could run,
// against two runs without the library: one with the same flags, until the first byte
// that the same shell prints has come, which is the earliest that anything could be used;
// and the plainest run that there is, from its start to its end. How a container is
// cleared up counts for none but the last.
func starts(ctx context.Context, p execpolicy.DockerPolicy, t *table) error {
	session := func(shell string) (time.Duration, error) {
		start := time.Now()
		s, err := execpolicy.Start(ctx, p, execpolicy.Spec{Command: []string{shell}})
		if err != nil {
			return 0, err
		}
		taken := time.Since(start)
		return taken, s.Close()
	}
	firstByte := func(shell string) (time.Duration, error) {
		argv, err := runArgs(ctx, p, shell, "-c", "echo; read x || exit 0")
		if err != nil {
			return 0, err
		}
		start := time.Now()
		c, err := startClient(p, argv)
		if err != nil {
			return 0, err
		}
		err = c.discard(1)
		taken := time.Since(start)
		return taken, errors.Join(err, c.close())
	}
	plain := append(append([]string{p.Engine.Path}, p.Engine.Global...), "run", "--rm", p.Image, "true")
	total := func() (time.Duration, error) {
		start := time.Now()
		c, err := startClient(p, plain)
		if err != nil {
			return 0, err
		}
		err = c.close()
		return time.Since(start), err
	}
	shells, err := shellsOf(ctx, p)
	if err != nil {
		return err
	}
	subjects := []func() (time.Duration, error){total}
	for _, shell := range shells {
		subjects = append(subjects,
			func() (time.Duration, error) { return session(shell) },
			func() (time.Duration, error) { return firstByte(shell) })
	}
	if _, err := takeTurns(1, subjects...); err != nil {
		return err
	}
	all, err := takeTurns(startRounds, subjects...)
	if err != nil {
		return err
	}
	for i, shell := range shells {
		ours, first := all[1+2*i], all[2+2*i]
		t.atMost("session start, "+shell, ours.String(), first.String()+", run -i to its first byte", 1.1, ours.over(first))
		t.atMost("session start, "+shell+", to a whole run", ours.String(), all[0].String()+", run --rm IMAGE true",
			1.1, ours.over(all[0]))
	}
	return nil
}
