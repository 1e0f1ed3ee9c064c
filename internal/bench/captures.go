package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

const (
	captureRounds = 3
	captureBytes  = 1 << 30
	// pipeBytes is what a pipe holds: writes of that size make the engine the slowest part.
	pipeBytes = 64 << 10
	// keptBytes is what a session keeps of each stream by default.
	keptBytes = 1 << 20
	// memorySlack is what a session may take besides what it keeps of both streams.
	memorySlack = 8 << 20
)

// captures holds the time in which a session counts and bounds an output against that in which the engine's client writes the same
// into a pipe whose reader drops it. Both containers run before the clock does.
func captures(ctx context.Context, p execpolicy.DockerPolicy, t *table) error {
	for _, output := range []struct{ name, script string }{
		{"1 GiB of zeros", fmt.Sprintf("dd if=/dev/zero bs=%d count=%d 2>/dev/null", pipeBytes, captureBytes/pipeBytes)},
		{"1 GiB of lines", fmt.Sprintf("{ yes 'a line of output' | dd bs=%d count=%d iflag=fullblock; } 2>/dev/null", pipeBytes, captureBytes/pipeBytes)},
	} {
		if err := capture(ctx, p, t, output.name, output.script); err != nil {
			return fmt.Errorf("%s: %w", output.name, err)
		}
	}
	return nil
}

func capture(ctx context.Context, p execpolicy.DockerPolicy, t *table, name, script string) (err error) {
	argv, err := runArgs(ctx, p, "sh", "-c", "while read x; do "+script+"; done; exit 0")
	if err != nil {
		return err
	}
	raw, err := startClient(p, argv)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, raw.close()) }()
	s, err := execpolicy.Start(ctx, p, execpolicy.Spec{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()

	discarded := func() error {
		if _, err := raw.stdin.Write([]byte{'\n'}); err != nil {
			return err
		}
		return raw.discard(captureBytes)
	}
	var idle, peak int64
	captured := func() (time.Duration, error) {
		before, err := resetPeak()
		if err != nil {
			return 0, err
		}
		start := time.Now()
		r, err := s.Run(ctx, execpolicy.Command{Script: script, Timeout: patience})
		taken := time.Since(start)
		if err != nil {
			return 0, err
		}
		after, err := peakMemory()
		if err != nil {
			return 0, err
		}
		if after-before >= peak-idle {
			idle, peak = before, after
		}
		if r.StdoutInfo.Bytes != captureBytes || len(r.Stdout) != keptBytes {
			return 0, fmt.Errorf("%d bytes were counted and %d kept", r.StdoutInfo.Bytes, len(r.Stdout))
		}
		return taken, succeeded(r)
	}
	all, err := takeTurns(captureRounds, burst(1, discarded), captured)
	if err != nil {
		return err
	}
	rate := func(taken times) string { return fmt.Sprintf("%.0f MB/s", captureBytes/1e6/taken.median().Seconds()) }
	t.atLeast(name, rate(all[1]), rate(all[0])+", client into a discarding pipe", 0.95, all[0].over(all[1]))

	const limit = 2*keptBytes + memorySlack
	t.line(name+", peak memory", mib(peak)+" ("+mib(peak-idle)+" more)", mib(idle)+", idle", "at most "+mib(limit)+" more", peak-idle <= limit,
		float64(peak)/float64(idle))
	return nil
}

func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
