package main

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/truncate"
)

const (
	truncateRounds = 20
	// truncateBytes go through in a round.
	truncateBytes = 256 << 20
)

// truncates holds writes into a full buffer, as big as a session's, against a copy of the
// same bytes.
func truncates(_ context.Context, _ execpolicy.DockerPolicy, t *table) error {
	for _, size := range []int{4 << 10, 128 << 10, 4 << 20} {
		data := bytes.Repeat([]byte("a line of output, as long as they often are in a terminal\n"), size/58+1)[:size]
		b := &truncate.Buffer{Limit: keptBytes}
		// Past twice its limit a buffer has all the memory that it will ever have.
		for b.Total() < 4*keptBytes {
			b.Write(data)
		}
		allocs := testing.AllocsPerRun(1000, func() { b.Write(data) })
		// A copy to the same place again and again would stay in the processor's fastest
		// memory.
		to := make([]byte, 2*max(size, keptBytes))
		free := to
		all, err := takeTurns(truncateRounds,
			repeated(truncateBytes/size, func() { b.Write(data) }),
			repeated(truncateBytes/size, func() {
				if len(free) < size {
					free = to
				}
				free = free[copy(free, data):]
			}))
		if err != nil {
			return err
		}
		rate := func(taken times) string { return fmt.Sprintf("%.1f GB/s", truncateBytes/1e9/taken.median().Seconds()) }
		t.line(fmt.Sprintf("truncate, writes of %d KiB", size>>10),
			fmt.Sprintf("%s, %.0f allocs/op", rate(all[0]), allocs), rate(all[1])+", copy",
			"no allocation", allocs == 0, all[1].over(all[0]))
	}
	return nil
}

// repeated returns a subject whose time is that of n calls of f.
func repeated(n int, f func()) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		start := time.Now()
		for range n {
			f()
		}
		return time.Since(start), nil
	}
}
