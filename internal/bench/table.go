package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"
)

// A table prints a line for each measurement: its name, what was measured, what it is
// held against, the bound, whether it holds, and the ratio.
type table struct {
	w      io.Writer
	broken int
}

const layout = "%-36s %-27s %-46s %-22s %-7s %7s\n"

func (t *table) header() {
	fmt.Fprintf(t.w, layout, "what", "ours", "against", "bound", "", "ratio")
}

func (t *table) line(name, ours, theirs, bound string, holds bool, ratio float64) {
	mark := "ok"
	if !holds {
		mark = "BROKEN"
		t.broken++
	}
	fmt.Fprintf(t.w, layout, name, ours, theirs, bound, mark, fmt.Sprintf("%.2f", ratio))
}

func (t *table) atMost(name, ours, theirs string, bound, ratio float64) {
	t.line(name, ours, theirs, fmt.Sprintf("at most %.4g", bound), ratio <= bound, ratio)
}

func (t *table) atLeast(name, ours, theirs string, bound, ratio float64) {
	t.line(name, ours, theirs, fmt.Sprintf("at least %.4g", bound), ratio >= bound, ratio)
}

// times holds one time for each round.
type times []time.Duration

func (t times) median() time.Duration {
	sorted := slices.Sorted(slices.Values(t))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

func (t times) mean() time.Duration {
	var sum time.Duration
	for _, d := range t {
		sum += d
	}
	return sum / time.Duration(len(t))
}

func (t times) String() string {
	return fmt.Sprintf("%.3g ms", t.median().Seconds()*1e3)
}

// over returns the ratio of the medians.
func (t times) over(other times) float64 {
	return float64(t.median()) / float64(other.median())
}

// takeTurns runs each of the subjects once a round, and returns their times by round. Who
// comes behind whom is drawn, because an engine is still clearing up after the last one.
func takeTurns(rounds int, subjects ...func() (time.Duration, error)) ([]times, error) {
	all := make([]times, len(subjects))
	for range rounds {
		for _, i := range rand.Perm(len(subjects)) {
			d, err := subjects[i]()
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], d)
		}
	}
	return all, nil
}

// anew measures in several sets of containers, and returns the times of all. Where the
// kernel puts a container's processes stays much the same while it runs, and makes a
// byte's way longer by half, or not.
func anew(sets int, measure func() ([]times, error)) (all []times, err error) {
	for range sets {
		set, err := measure()
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = make([]times, len(set))
		}
		for i := range set {
			all[i] = append(all[i], set[i]...)
		}
	}
	return all, nil
}

// burst returns a subject whose time is the median of n calls of f.
func burst(n int, f func() error) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		taken := make(times, n)
		for i := range taken {
			start := time.Now()
			if err := f(); err != nil {
				return 0, err
			}
			taken[i] = time.Since(start)
		}
		return taken.median(), nil
	}
}
