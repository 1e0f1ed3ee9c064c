package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

const (
	commandSets   = 6
	commandRounds = 4
	commandBurst  = 40
	execRounds    = 20
)

// A way is a transport, and a shell as the worker, with the bounds of its commands by
// their lengths in bytes. What is not there is not measured.
type way struct {
	transport execpolicy.Transport
	shell     string
	most      map[int]limit
}

// A limit is what a command may cost, and what it is to cost.
type limit struct{ most, aim float64 }

// commandLengths are those of commands that do nothing: the shortest one, one as agents
// send most, and a long one.
var commandLengths = []int{1, 500, 4 << 10}

// What commands may cost, by their lengths, over the time of the byte. Two shells have to
// wake, and mark two streams. Over FIFOs a longer text costs what they take to parse it:
// process 1 once, the worker twice. Over the client process 1 reads it a byte at a time.
var (
	fifoMost = map[string]map[int]limit{
		"sh":   {1: {1.2, 1}, 500: {1.4, 1}, 4 << 10: {2, 1}},
		"bash": {1: {1.7, 1.5}, 500: {1.8, 1.5}, 4 << 10: {2.6, 1.5}},
	}
	// Podman's pipe is short, and so the byte takes less time.
	podmanMost = map[string]map[int]limit{
		"sh":   {1: {3, 3}, 500: {3.5, 3}, 4 << 10: {5, 3}},
		"bash": {1: {4.5, 4.5}, 500: {4.8, 4.5}, 4 << 10: {6.5, 4.5}},
	}
	attachMost = map[string]map[int]limit{
		"sh":   {1: {2.6, 2}, 500: {4, 2.5}},
		"bash": {1: {3.2, 2.3}, 500: {4.7, 3}},
	}
)

// What a command may take of this program's memory.
const (
	maxAllocs    = 10
	maxAllocsEnd = 13      // by a context that can end
	maxAllocated = 2 << 10 // bytes
	allocRounds  = 500
)

// commands holds a session's command that does nothing against a byte that goes through
// cat in a container of its own, and against a process that the engine adds to a
// container.
func commands(ctx context.Context, p execpolicy.DockerPolicy, t *table) error {
	shells, err := shellsOf(ctx, p)
	if err != nil {
		return err
	}
	got, _, err := p.FindTransport(ctx)
	if err != nil {
		return err
	}
	fifos := fifoMost
	if p.Engine.Kind == dockercli.Podman {
		fifos = podmanMost
	}
	var ways []way
	for _, shell := range shells {
		if got == execpolicy.TransportFIFO {
			ways = append(ways, way{execpolicy.TransportFIFO, shell, fifos[shell]})
		}
		ways = append(ways, way{execpolicy.TransportAttach, shell, attachMost[shell]})
	}
	all, err := anew(commandSets, times.median, func() ([]times, error) { return commandSet(ctx, p, ways) })
	if err != nil {
		return err
	}
	execs, err := execTimes(ctx, p)
	if err != nil {
		return err
	}
	raw, rest := all[0], all[1:]
	for _, w := range ways {
		for _, length := range commandLengths {
			most, bound := w.most[length]
			if !bound {
				continue
			}
			var ours times
			ours, rest = rest[0], rest[1:]
			name := fmt.Sprintf("%d bytes of command, %s, %v", length, w.shell, w.transport)
			t.aims(name, ours.String(), raw.String()+", a byte through run -i cat", most.aim, most.most, ours.over(raw))
			if length == 1 {
				t.atLeast(name+", times faster", ours.String(), execs.String()+", exec true", 50, execs.over(ours))
			}
		}
	}
	return allocations(ctx, p, t)
}

// allocations counts what a command takes of this program's memory.
func allocations(ctx context.Context, p execpolicy.DockerPolicy, t *table) (err error) {
	s, err := execpolicy.Start(ctx, p, execpolicy.Spec{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, kind := range []struct {
		name string
		ctx  context.Context
		most float64
	}{
		// The values of any other context may allocate themselves.
		{"allocations of a command", context.Background(), maxAllocs},
		{"allocations of a command whose context can end", ctx, maxAllocsEnd},
	} {
		var before, after runtime.MemStats
		for range 2 { // once for what is made only once
			runtime.ReadMemStats(&before)
			for range allocRounds {
				if err := colon(kind.ctx, s); err != nil {
					return err
				}
			}
			runtime.ReadMemStats(&after)
		}
		// What is made for a tick now and then is less than one a command.
		count := math.Round(float64(after.Mallocs-before.Mallocs) / allocRounds)
		size := float64(after.TotalAlloc-before.TotalAlloc) / allocRounds
		t.aims(kind.name, fmt.Sprint(count), "", maxAllocs, kind.most, ratio{value: count})
		t.atMost("bytes of them", fmt.Sprintf("%.0f", size), "", maxAllocated, ratio{value: size})
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

// commandSet starts a container for the byte and a session for each way, and returns
// their times in that order, those of a way by length.
func commandSet(ctx context.Context, p execpolicy.DockerPolicy, ways []way) (set []times, err error) {
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
	for _, w := range ways {
		p.Transport = w.transport
		s, startErr := execpolicy.Start(ctx, p, execpolicy.Spec{Command: []string{w.shell}})
		if startErr != nil {
			return nil, startErr
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		for _, length := range commandLengths {
			if _, bound := w.most[length]; bound {
				script := ":" + strings.Repeat(" ", length-1)
				subjects = append(subjects, burst(commandBurst, func() error { return nothing(ctx, s, script) }))
			}
		}
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
func colon(ctx context.Context, s *execpolicy.Session) error { return nothing(ctx, s, ":") }

// nothing runs a script that does nothing.
func nothing(ctx context.Context, s *execpolicy.Session, script string) error {
	r, err := s.Run(ctx, execpolicy.Command{Script: script})
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
