//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
)

// An ending is a way in which a round's command comes to its end.
type ending struct {
	name string
	do   func(*round, context.Context)

	own   bool // nobody ends the command: what never ends runs in the background
	flood bool // the command prints without end
	timed bool // the time is taken from the ending to the return
	// outcomes are those that the ending brings about.
	outcomes []execpolicy.Outcome
	// loses says that the session is over, and that nobody can tell what ended the
	// command.
	loses bool
	// starts says that a session may be in the middle of its start.
	starts bool
	// alone says that it needs no session of this program.
	alone bool
	// away says that the engine does not answer, so that nobody knows what is there.
	away bool
	// client says that it needs a client that carries the session's streams.
	client bool
}

const (
	// ownTimeout is the deadline of a command that nobody ends, if it may come to that:
	// what nobody sees the end of does.
	ownTimeout = 1500 * time.Millisecond
	// farTimeout is the deadline of a command that is ended before, by somebody or by
	// itself. A bash that can't fork tries for 15 s.
	farTimeout = 20 * time.Second
	// outputLimit is more than a pipe holds.
	outputLimit = 200_000
)

var endings = []*ending{
	{name: "its own end", do: (*round).ownEnd, own: true},
	{name: "deadline", do: (*round).deadline, timed: true, outcomes: []execpolicy.Outcome{execpolicy.OutcomeTimedOut}},
	{name: "cancel", do: (*round).cancel, timed: true, outcomes: []execpolicy.Outcome{execpolicy.OutcomeCanceled}},
	{name: "output limit", do: (*round).outputLimit, flood: true,
		outcomes: []execpolicy.Outcome{execpolicy.OutcomeOutputLimit}},
	{name: "close", do: (*round).close, outcomes: []execpolicy.Outcome{execpolicy.OutcomeCanceled}},
	{name: "restart", do: (*round).restart,
		outcomes: []execpolicy.Outcome{execpolicy.OutcomeTimedOut, execpolicy.OutcomeCanceled}},
	{name: "host killed", do: (*round).killHost, alone: true},
	{name: "host killed at its start", do: (*round).killStartingHost, alone: true, starts: true},
	{name: "transfer", do: (*round).transfer, own: true},
	{name: "host killed in a transfer", do: (*round).killTransferringHost, own: true, alone: true},
	{name: "client killed", do: (*round).killClient, loses: true, client: true,
		outcomes: []execpolicy.Outcome{execpolicy.OutcomeSessionLost}},
}

// podmanEndings are those of an engine whose part is played by one process for each
// container.
var podmanEndings = []*ending{
	// The client does not notice, so that the command goes on to its deadline.
	{name: "monitor killed", do: (*round).killMonitor, loses: true,
		outcomes: []execpolicy.Outcome{execpolicy.OutcomeSessionLost, execpolicy.OutcomeTimedOut}},
}

// errCanceled is the cause of a cancel.
var errCanceled = errors.New("the suite has canceled it")

// ownTimeout returns the deadline of the programs if nobody ends them.
func (r *round) ownTimeout() time.Duration {
	if slices.Contains(r.own(), execpolicy.OutcomeTimedOut) {
		return ownTimeout
	}
	return farTimeout
}

func (r *round) ownEnd(ctx context.Context) {
	r.run(ctx, execpolicy.Command{Timeout: r.ownTimeout()})
	r.probe(ctx)
}

func (r *round) deadline(ctx context.Context) {
	end := time.Now().Add(r.after)
	r.run(ctx, execpolicy.Command{Timeout: r.after})
	if r.result != nil && r.result.Outcome == execpolicy.OutcomeTimedOut {
		r.late(time.Since(end))
	}
	r.probe(ctx)
}

func (r *round) cancel(ctx context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	var at atomic.Pointer[time.Time]
	timer := time.AfterFunc(r.after, func() {
		now := time.Now()
		at.Store(&now)
		cancel(errCanceled)
	})
	defer timer.Stop()
	r.run(ctx, execpolicy.Command{Timeout: farTimeout})
	if r.result != nil && at.Load() != nil {
		r.canceled(time.Since(*at.Load()))
	}
	r.probe(context.WithoutCancel(ctx))
}

// canceled judges a result that came so long after the cancel. The programs may have come
// to their ends before, but not to the deadline, which is far.
func (r *round) canceled(d time.Duration) {
	switch {
	case r.result.Outcome == execpolicy.OutcomeCanceled:
		r.late(d)
		if !errors.Is(r.err, errCanceled) {
			r.wrong("the error of a canceled command is %v", r.err)
		}
	case r.result.Outcome == execpolicy.OutcomeTimedOut, d > r.termination():
		r.wrong("%v came %v after the cancel", r.result.Outcome, d)
	}
}

func (r *round) outputLimit(ctx context.Context) {
	r.run(ctx, execpolicy.Command{Timeout: r.ownTimeout(), OutputLimit: outputLimit})
	r.probe(ctx)
}

// meanwhile runs the command, and does something else as its end should come.
func (r *round) meanwhile(ctx context.Context, timeout time.Duration, what string, bound time.Duration,
	do func() error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.run(ctx, execpolicy.Command{Timeout: timeout})
	}()
	time.Sleep(r.after)
	var err error
	r.suite.call(r.plan, what, bound, func() { err = do() })
	if err := r.honest(err); err != nil {
		r.wrong("%s: %v", what, err)
	}
	<-done
}

func (r *round) close(ctx context.Context) {
	s := r.session
	r.meanwhile(ctx, farTimeout, "Close", r.suite.termination(), func() error {
		began := time.Now()
		defer func() { r.suite.stats.closes.add(time.Since(began)) }()
		return s.Close()
	})
	if r.result != nil && r.result.Outcome == execpolicy.OutcomeCanceled && !errors.Is(r.err, execpolicy.ErrClosed) {
		r.wrong("the error of a command whose session was closed is %v", r.err)
	}
	if _, err := s.Run(ctx, execpolicy.Command{Script: "echo"}); !errors.Is(err, execpolicy.ErrClosed) {
		r.wrong("the error of a command in a closed session is %v", err)
	}
	r.discard()
}

// restart restarts the session, which may wait for the command's end.
func (r *round) restart(ctx context.Context) {
	timeout := r.after + 200*time.Millisecond
	var err error
	r.meanwhile(ctx, timeout, "Restart", timeout+2*r.suite.termination(), func() error {
		err = r.session.Restart(ctx)
		return err
	})
	if err != nil && r.honest(err) == nil {
		r.discard()
		return
	}
	r.see(ctx, r.session.Name(), &r.suite.open.ids)
	if out, err := r.echo(ctx, "restarted"); err != nil || out != "restarted\n" {
		r.wrong("after a restart: %q, %v", out, err)
	}
	r.discard()
}

func (r *round) killClient(ctx context.Context) {
	name := r.session.Name()
	r.killMeanwhile(ctx, farTimeout, "the client", func(p leftover.Process) bool {
		return p.Parent == syscall.Getpid() && (slices.Contains(p.Args, "--name="+name) ||
			slices.Contains(p.Args, "attach") && slices.Contains(p.Args, name))
	})
}

// killMonitor kills the process that podman keeps beside the container.
func (r *round) killMonitor(ctx context.Context) {
	id := r.suite.open.id()
	r.killMeanwhile(ctx, ownTimeout, "the monitor", func(p leftover.Process) bool {
		// Those of jobs have the name of the container, and one of their own.
		i := slices.Index(p.Args, "-u")
		return p.Name == "conmon" && i > 0 && i+1 < len(p.Args) && p.Args[i+1] == id
	})
}

// killMeanwhile kills the one process that fits while the command runs.
func (r *round) killMeanwhile(ctx context.Context, timeout time.Duration, what string,
	fits func(leftover.Process) bool) {
	s := r.session
	r.meanwhile(ctx, timeout, "the kill of "+what, r.suite.termination(), func() error {
		found := slices.DeleteFunc(leftover.Processes(), func(p leftover.Process) bool { return !fits(p) })
		if len(found) != 1 {
			// The programs may have ended the container before.
			if _, err := r.suite.containerID(ctx, s.Name()); errors.Is(err, dockercli.ErrNoContainer) {
				return nil
			}
			return fmt.Errorf("there are %d that fit", len(found))
		}
		now := time.Now()
		r.struck.Store(&now)
		return syscall.Kill(found[0].PID, syscall.SIGKILL)
	})
	r.suite.call(r.plan, "Close", r.suite.termination(), func() {
		if err := r.honest(s.Close()); err != nil {
			r.wrong("Close: %v", err)
		}
	})
	r.discard()
}
