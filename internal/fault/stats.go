//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

const (
	// obeyingBound and othersBound are on the time from a command's end, its deadline or
	// its cancel, to the return of Run. The first is for programs that end at a SIGTERM.
	obeyingBound = 50 * time.Millisecond
	// othersBound is the stated grace: 250 ms for SIGTERM and as much for SIGKILL.
	othersBound = 500 * time.Millisecond
	// goneBound is on the time from a SIGKILL of the host's program, or from a Close,
	// until all of it is gone. It holds for most rounds: package execpolicy says what
	// takes longer.
	goneBound = 2 * time.Second
	// memoryBound is on the suite's own memory.
	memoryBound = 64 << 20
)

// stats are the numbers of all rounds.
type stats struct {
	rounds, bad, survivors, hangs int
	ended, unseen                 int // commands
	guards                        map[fate]int
	obeying, others               durations
	closes, gone, killed, back    durations
	slowest                       uint64 // the seed of the worst in killed
}

// see counts a result of a command that was ended, and whether nobody saw that nothing
// was left of it.
func (s *stats) see(ended, unseen bool) {
	if ended {
		s.ended++
	}
	if unseen {
		s.unseen++
	}
}

type durations []time.Duration

func (d *durations) add(t time.Duration) { *d = append(*d, t) }

func (d durations) median() time.Duration {
	if len(d) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(d))[len(d)/2]
}

func (d durations) worst() time.Duration {
	if len(d) == 0 {
		return 0
	}
	return slices.Max(d)
}

func (d durations) String() string {
	return fmt.Sprintf("median %d ms, worst %d ms, of %d", d.median().Milliseconds(), d.worst().Milliseconds(), len(d))
}

// print prints the numbers and returns what of them is out of its bounds, of which one is
// the TerminationTimeout.
func (s *stats) print(w io.Writer, peak int64, termination time.Duration) error {
	fmt.Fprintf(w, "%d rounds, %d survivors, %d hangs, %d rounds that were not as they should be\n", s.rounds,
		s.survivors, s.hangs, s.bad)
	fmt.Fprintf(w, "%d commands were ended, of %d of them it was said not to be known whether anything was left\n",
		s.ended, s.unseen)
	fmt.Fprintf(w, "past the deadline or the cancel, programs that obey SIGTERM: %v; others: %v\n", s.obeying, s.others)
	fmt.Fprintf(w, "close in mid-command: %v; all gone after a close: %v; after a SIGKILL of the host's program: %v\n",
		s.closes, s.gone, s.killed)
	if len(s.killed) > 0 {
		fmt.Fprintf(w, "the worst of the last was the round with seed %d\n", s.slowest)
	}
	if len(s.back) > 0 {
		fmt.Fprintf(w, "all gone after an engine was back: %v\n", s.back)
	}
	fmt.Fprintf(w, "the guard was killed in %d rounds and stopped in %d\n", s.guards[killed], s.guards[stopped])
	fmt.Fprintf(w, "peak memory %.1f MiB\n", float64(peak)/(1<<20))
	var errs []error
	// The median of a few says nothing.
	const enough, few, seldom = 5, 3, 2
	if len(s.obeying) >= enough && s.obeying.median() > obeyingBound {
		errs = append(errs, fmt.Errorf("half of the programs that obey took more than %v", obeyingBound))
	}
	if len(s.others) >= enough && s.others.median() > othersBound {
		errs = append(errs, fmt.Errorf("half of the others took more than %v", othersBound))
	}
	// How long a pod takes to be deleted is the cluster's affair.
	if termination == terminationTimeout && len(s.killed) >= few && s.killed.median() > goneBound {
		errs = append(errs, fmt.Errorf("half of what a killed program left took more than %v to go", goneBound))
	}
	if termination == terminationTimeout && len(s.gone) >= few && s.gone.median() > goneBound {
		errs = append(errs, fmt.Errorf("half of what a Close left took more than %v to go", goneBound))
	}
	if s.unseen > seldom && s.unseen*20 > s.ended {
		errs = append(errs, errors.New("more than a twentieth of the commands that were ended were not seen to be gone"))
	}
	if max(s.obeying.worst(), s.others.worst(), s.closes.worst()) > termination {
		errs = append(errs, fmt.Errorf("one took more than %v", termination))
	}
	if peak > memoryBound {
		errs = append(errs, fmt.Errorf("the suite took more than %d MiB", memoryBound>>20))
	}
	if s.bad > 0 || s.survivors > 0 || s.hangs > 0 {
		errs = append(errs, errors.New("there were rounds that were not as they should be"))
	}
	return errors.Join(errs...)
}
