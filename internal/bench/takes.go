package main

import (
	"context"
	"errors"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/warm"
)

const (
	takeRounds = 100
	takeSize   = 4
	// maxTake and maxSlowTake are the longest that most takes of a warm session may take,
	// and that 99 of 100 may.
	maxTake     = 5 * time.Millisecond
	maxSlowTake = 20 * time.Millisecond
)

// takes holds the taking of a session that was started ahead against the start of one,
// each until a first command could run. The pool is full at each, and no start is under
// way.
func takes(ctx context.Context, p execpolicy.DockerPolicy, t *table) (err error) {
	pool, err := warm.New(p, execpolicy.Spec{}, warm.Options{Size: takeSize})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	env := map[string]string{"USER": "ann"}
	use := func(s *execpolicy.Session, err error, start time.Time) (time.Duration, error) {
		taken := time.Since(start)
		if err != nil {
			return 0, err
		}
		return taken, errors.Join(colon(ctx, s), s.Close())
	}
	full := func() {
		for s := pool.Stats(); s.Idle < takeSize && s.StartError == nil; s = pool.Stats() {
			time.Sleep(5 * time.Millisecond)
		}
	}
	all, err := takeTurns(takeRounds,
		func() (time.Duration, error) {
			full()
			start := time.Now()
			s, err := pool.Take(ctx, execpolicy.Spec{Env: env})
			return use(s, err, start)
		},
		func() (time.Duration, error) {
			full()
			start := time.Now()
			s, err := execpolicy.Start(ctx, p, execpolicy.Spec{Env: env})
			return use(s, err, start)
		})
	if err != nil {
		return err
	}
	ours, cold := all[0], all[1]
	theirs := cold.String() + ", a session's start"
	t.within("warm take", theirs, maxTake, times.median, ours)
	t.atLeast("warm take, times faster", ours.String(), theirs, 20, cold.over(ours))
	if short {
		return nil // of fewer takes than a hundred the slowest is no 99th
	}
	slow := func(t times) time.Duration { return t.percentile(99) }
	t.within("warm take, 99th of 100", theirs, maxSlowTake, slow, ours)
	t.atLeast("warm take, 99th of 100, times faster", times{slow(ours)}.String(), theirs, 5,
		ratioOf(times.median, slow, cold, ours))
	return nil
}
