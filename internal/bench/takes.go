package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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
	// takeBurst is how many users come at once.
	takeBurst = 50
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
	failed := burstOfTakes(ctx, pool)
	t.line(fmt.Sprintf("%d takes at once", takeBurst), fmt.Sprintf("%d failed", failed), "", "none fails", failed == 0,
		ratio{value: float64(failed)})
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

// burstOfTakes has many users take a session at once, and returns how many got none that
// works.
func burstOfTakes(ctx context.Context, pool *warm.Pool) int {
	var failed atomic.Int32
	var all sync.WaitGroup
	for range takeBurst {
		all.Go(func() {
			s, err := pool.Take(ctx, execpolicy.Spec{})
			if err == nil {
				err = errors.Join(colon(ctx, s), s.Close())
			}
			if err != nil {
				failed.Add(1)
			}
		})
	}
	all.Wait()
	return int(failed.Load())
}
