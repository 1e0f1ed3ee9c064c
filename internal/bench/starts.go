package main

import (
	"context"
	"errors"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

const startRounds = 40

// starts holds the start of a session, until Start returns and a command could run, against two runs without the library: one with
// the same flags, until the first byte that its command prints has come, which is the earliest that anything could be used; and the
// plainest run that there is, from its start to its end. How a container is cleared up counts for none but the last.
func starts(ctx context.Context, p execpolicy.DockerPolicy, t *table) error {
	session := func() (time.Duration, error) {
		start := time.Now()
		s, err := execpolicy.Start(ctx, p, execpolicy.Spec{})
		if err != nil {
			return 0, err
		}
		taken := time.Since(start)
		return taken, s.Close()
	}
	firstByte := func() (time.Duration, error) {
		argv, err := runArgs(ctx, p, "sh", "-c", "echo; read x || exit 0")
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
	if _, err := takeTurns(1, session, firstByte, total); err != nil {
		return err
	}
	all, err := takeTurns(startRounds, session, firstByte, total)
	if err != nil {
		return err
	}
	t.atMost("session start", all[0].String(), all[1].String()+", run -i to its first byte", 1.1, all[0].over(all[1]))
	t.atMost("session start, against a whole run", all[0].String(), all[2].String()+", run --rm IMAGE true", 1.1, all[0].over(all[2]))
	return nil
}
