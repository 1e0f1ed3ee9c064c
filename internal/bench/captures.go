package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

const (
	captureBytes = 1 << 30
	partBytes    = captureBytes / 16
	// Each side has 128 parts, 8 GiB.
	captureSets   = 32
	captureRounds = 4
	// pipeBytes is what a pipe holds: with writes of that size the engine is the slowest
	// part.
	pipeBytes = 64 << 10
	// keptBytes is what a session keeps of each stream by default.
	keptBytes = 1 << 20
	// memorySlack is what a session may take besides what it keeps of both streams.
	memorySlack = 8 << 20
)

// captures holds the time in which a session counts and bounds an output of 1 GiB against
// that in which the engine's client writes the same into a pipe whose reader drops it,
// and the memory that this process takes for an output of 1 GiB against what it has when
// idle. All containers run before the clock does. It comes in parts, and the time of all
// of them counts.
func captures(ctx context.Context, p execpolicy.DockerPolicy, t *table) error {
	for _, output := range []struct{ name, script string }{
		{"zeros", "dd if=/dev/zero bs=%d count=%d 2>/dev/null"},
		{"lines", "{ yes 'a line of output' | dd bs=%d count=%d iflag=fullblock; } 2>/dev/null"},
	} {
		if err := capture(ctx, p, t, "1 GiB of "+output.name, output.script); err != nil {
			return fmt.Errorf("1 GiB of %s: %w", output.name, err)
		}
	}
	return nil
}

func capture(ctx context.Context, p execpolicy.DockerPolicy, t *table, name, format string) error {
	script := func(size int) string { return fmt.Sprintf(format, pipeBytes, size/pipeBytes) }
	all, err := anew(captureSets, times.mean, func() ([]times, error) { return captureSet(ctx, p, script(partBytes)) })
	if err != nil {
		return err
	}
	// Parts take between half as long and three times as long as most do, through the
	// bare client too: four programs pass them on, and share the processors. Of any one
	// rank of theirs more is luck than of all together.
	ours, theirs := all[1].mean(), all[0].mean()
	rate := func(taken time.Duration) string {
		return fmt.Sprintf("%.0f MB/s", partBytes/1e6/taken.Seconds())
	}
	t.atLeast(name, rate(ours), rate(theirs)+", client into a discarding pipe", 0.95, all[0].meanOver(all[1]))
	return captureMemory(ctx, p, t, name, script(captureBytes))
}

// captureSet returns the times of the script's output, which is a part, through the
// client and through a session.
func captureSet(ctx context.Context, p execpolicy.DockerPolicy, script string) (set []times, err error) {
	argv, err := runArgs(ctx, p, "sh", "-c", "while read x; do "+script+"; done; exit 0")
	if err != nil {
		return nil, err
	}
	raw, err := startClient(p, argv)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, raw.close()) }()
	// FIFOs have lines of their own.
	p.Transport = execpolicy.TransportAttach
	// The shell is the client's.
	s, err := execpolicy.Start(ctx, p, execpolicy.Spec{Command: []string{"sh"}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	discarded := func() error {
		if _, err := raw.stdin.Write([]byte{'\n'}); err != nil {
			return err
		}
		return raw.discard(partBytes)
	}
	return takeTurns(captureRounds, burst(1, discarded),
		burst(1, func() error { return captured(ctx, s, script, partBytes) }))
}

// captureMemory runs the script, whose output is 1 GiB, and says what memory it took.
func captureMemory(ctx context.Context, p execpolicy.DockerPolicy, t *table, name, script string) (err error) {
	s, err := execpolicy.Start(ctx, p, execpolicy.Spec{Command: []string{"sh"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	idle, err := resetPeak()
	if err != nil {
		return err
	}
	if err := captured(ctx, s, script, captureBytes); err != nil {
		return err
	}
	peak, err := peakMemory()
	if err != nil {
		return err
	}
	const limit = 2*keptBytes + memorySlack
	t.line(name+", peak memory", mib(peak)+" ("+mib(peak-idle)+" more)", mib(idle)+", idle",
		"at most "+mib(limit)+" more", peak-idle <= limit,
		ratio{value: float64(peak) / float64(idle)})
	return nil
}

// captured runs the script, and checks the count of what it prints.
func captured(ctx context.Context, s *execpolicy.Session, script string, size int64) error {
	r, err := s.Run(ctx, execpolicy.Command{Script: script, Timeout: patience})
	if err != nil {
		return err
	}
	if r.StdoutInfo.Bytes != size || len(r.Stdout) != keptBytes {
		return fmt.Errorf("%d bytes were counted and %d kept", r.StdoutInfo.Bytes, len(r.Stdout))
	}
	return succeeded(r)
}

func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
