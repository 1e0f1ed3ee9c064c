//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
)

// unsure are the outcomes of a command whose engine goes away.
var unsure = []execpolicy.Outcome{execpolicy.OutcomeTimedOut, execpolicy.OutcomeCanceled, execpolicy.OutcomeSessionLost}

// dockerEndings are those of an engine of the suite's own.
var dockerEndings = []*ending{
	{name: "engine stopped", do: (*round).stopEngine, alone: true, loses: true, away: true, outcomes: unsure},
	{name: "engine killed", do: (*round).killEngine, alone: true, loses: true, away: true, outcomes: unsure},
	{name: "engine restarted", do: (*round).restartEngine, alone: true, loses: true, away: true, outcomes: unsure},
}

// awayTermination is the TerminationTimeout of a session whose engine goes away.
const awayTermination = 3 * time.Second

func (r *round) stopEngine(ctx context.Context) {
	r.withoutEngine(ctx, r.suite.private.Pause, r.suite.private.Resume)
}

func (r *round) killEngine(ctx context.Context) {
	r.withoutEngine(ctx, r.suite.private.Kill, func() error { return r.suite.private.Start(ctx) })
}

func (r *round) restartEngine(ctx context.Context) {
	r.withoutEngine(ctx, func() error { return r.suite.private.Stop(ctx) },
		func() error { return r.suite.private.Start(ctx) })
}

// withoutEngine takes the engine away while the command runs. It comes back while the
// session is closed, or only when the command has returned: then the session is closed
// afterwards.
func (r *round) withoutEngine(ctx context.Context, away, back func() error) {
	d := r.suite.private
	policy := r.suite.enginePolicy(r.settings)
	policy.Engine, policy.Image, policy.TerminationTimeout = d.Engine(), d.Image(), awayTermination
	var err error
	r.suite.call(r.plan, "Start", shellTimeout+awayTermination, func() {
		r.session, err = execpolicy.Start(ctx, policy, r.suite.spec(r.settings))
	})
	if err != nil {
		r.wrong("%v", err)
		return
	}
	var ids []string
	r.suite.call(r.plan, "the ID of the container", shellTimeout, func() {
		c, err := d.Engine().Inspect(ctx, r.session.Name())
		if err != nil {
			r.wrong("the ID of the container: %v", err)
			return
		}
		ids = append(ids, c.ID)
	})
	r.strike(os.Getpid(), true)
	step := func(what string, f func() error) {
		if err := f(); err != nil {
			r.wrong("%s: %v", what, err)
		}
	}
	closeSession := func() {
		r.suite.call(r.plan, "Close", awayTermination, func() {
			step("Close", func() error {
				err := r.session.Close()
				if errors.Is(err, execpolicy.ErrStillThere) {
					return nil // it is not known, which is what it says
				}
				if err == nil {
					err = r.suite.allDead("Close", ids...)
				}
				return err
			})
		})
	}
	ran, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ran)
		r.run(ctx, execpolicy.Command{Timeout: r.after + 300*time.Millisecond})
		for _, id := range ids {
			r.believe(id)
		}
	}()
	time.Sleep(r.after)
	go func() {
		defer close(gone)
		step("taking the engine away", away)
	}()
	if r.early {
		time.Sleep(100 * time.Millisecond)
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			closeSession()
		}()
		<-gone
		step("bringing the engine back", back)
		<-closed
		<-ran
	} else {
		<-ran
		<-gone
		step("bringing the engine back", back)
		closeSession()
	}
	var left []string
	private := leftover.Engine{Engine: d.Engine(), Labels: r.suite.labeled.Labels}
	began := time.Now()
	if !leftover.Patient.Until(func() bool {
		left = private.Containers()
		others, err := d.Others()
		if err != nil {
			others = append(others, err.Error())
		}
		left = append(left, others...)
		return len(left) == 0
	}) {
		r.suite.stats.survivors += len(left)
		r.wrong("left behind by the engine that is back:\n\t\t%s", strings.Join(left, "\n\t\t"))
	}
	r.suite.stats.back.add(time.Since(began))
}
