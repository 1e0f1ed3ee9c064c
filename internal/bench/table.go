package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// A table prints a line for each measurement: its name, what was measured, what it is
// held against, the bound, whether it holds, and the ratio with its noise. A bound that
// is missed by no more than the noise is marked, and is not broken.
type table struct {
	w      io.Writer
	slack  float64 // the factor by which a bound may be missed, at least 1
	broken int
}

const layout = "%-38s %-27s %-46s %-22s %-7s %s\n"

func (t *table) header() {
	fmt.Fprintf(t.w, layout, "what", "ours", "against", "bound", "", "ratio")
}

func (t *table) line(name, ours, theirs, bound string, holds bool, r ratio) {
	mark := "ok"
	if !holds {
		mark = "BROKEN"
		t.broken++
	}
	t.print(name, ours, theirs, bound, mark, r)
}

func (t *table) print(name, ours, theirs, bound, mark string, r ratio) {
	fmt.Fprintf(t.w, layout, name, ours, theirs, bound, mark, r)
}

func (t *table) atMost(name, ours, theirs string, bound float64, r ratio) {
	bound *= t.slack
	t.hold(name, ours, theirs, fmt.Sprintf("at most %.4g", bound), bound-r.value, r)
}

// aims is atMost with an aim that is not reached yet, or may not be on each machine. The
// bound is what a change must not lose, and a line that misses its aim says so.
func (t *table) aims(name, ours, theirs string, aim, bound float64, r ratio) {
	bound *= t.slack
	text := fmt.Sprintf("at most %.4g, aim %.4g", bound, aim)
	if r.value <= bound && r.value > aim+r.noise {
		t.print(name, ours, theirs, text, "missed", r)
		return
	}
	t.hold(name, ours, theirs, text, bound-r.value, r)
}

func (t *table) atLeast(name, ours, theirs string, bound float64, r ratio) {
	bound /= t.slack
	t.hold(name, ours, theirs, fmt.Sprintf("at least %.4g", bound), r.value-bound, r)
}

// within prints a line for what f makes of times, which may be most at most. Its ratio is
// that to most.
func (t *table) within(name, theirs string, most time.Duration, f func(times) time.Duration, ours times) {
	r := ratioOf(f, times.median, ours, slices.Repeat(times{most}, len(ours)))
	bound := time.Duration(float64(most) * t.slack).Round(time.Millisecond)
	t.hold(name, times{f(ours)}.String(), theirs, fmt.Sprintf("at most %v", bound), t.slack-r.value, r)
}

// hold prints a line whose ratio is on the right side of its bound by margin.
func (t *table) hold(name, ours, theirs, bound string, margin float64, r ratio) {
	if margin < 0 && margin >= -r.noise {
		t.print(name, ours, theirs, bound, "noise", r)
		return
	}
	t.line(name, ours, theirs, bound, margin >= 0, r)
}

// A ratio is one of two measurements. Noise says how far the ratio of another run like
// this one may be from it; zero means that it is counted and not timed.
type ratio struct{ value, noise float64 }

func (r ratio) String() string {
	if r.noise == 0 {
		return fmt.Sprintf("%.2f", r.value)
	}
	return fmt.Sprintf("%.2f ± %.2f", r.value, r.noise)
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

// percentile returns the time that p of 100 do not exceed.
func (t times) percentile(p int) time.Duration {
	sorted := slices.Sorted(slices.Values(t))
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

func (t times) String() string {
	return fmt.Sprintf("%.3g ms", t.median().Seconds()*1e3)
}

// over returns the ratio of the medians.
func (t times) over(other times) ratio { return ratioOf(times.median, times.median, t, other) }

// meanOver returns the ratio of the means.
func (t times) meanOver(other times) ratio { return ratioOf(times.mean, times.mean, t, other) }

// noiseParts are as many as a run is cut into for its noise.
const noiseParts = 8

// student has what the standard error of a mean of so many values is multiplied with for
// an interval of 95 of 100, by Student's distribution.
var student = [noiseParts + 1]float64{2: 12.7, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36}

// ratioOf returns the ratio of what f makes of a to what g makes of b. Its noise is an
// interval about the mean of the same ratio of each part of the run, of which there are
// eight, or as many as there are rounds.
func ratioOf(f, g func(times) time.Duration, a, b times) ratio {
	of := func(a, b times) float64 { return float64(f(a)) / float64(g(b)) }
	n := min(noiseParts, len(a), len(b))
	part := func(t times, i int) times { return t[i*len(t)/n : (i+1)*len(t)/n] }
	r := ratio{value: of(a, b)}
	if n < 2 {
		return r
	}
	parts := make([]float64, n)
	var mean, square float64
	for i := range parts {
		parts[i] = of(part(a, i), part(b, i))
		mean += parts[i] / float64(n)
	}
	for _, p := range parts {
		square += (p - mean) * (p - mean)
	}
	r.noise = student[n] * math.Sqrt(square/float64(n-1)/float64(n))
	return r
}

// short makes takeTurns and anew do a quarter of the rounds and of the sets.
var short bool

// fewer returns how many of n rounds or sets are done.
func fewer(n int) int {
	if short {
		return min(n, max(3, n/4))
	}
	return n
}

// takeTurns runs each of the subjects once a round, and returns their times by round. Who
// comes after whom is drawn, because an engine is still clearing up after the last one.
func takeTurns(rounds int, subjects ...func() (time.Duration, error)) ([]times, error) {
	all := make([]times, len(subjects))
	for range fewer(rounds) {
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

// anew measures in several sets of containers, and returns what middle makes of each.
// Where the kernel puts a container's processes stays much the same while it runs, and
// makes a byte's way longer by half, or not. So the rounds of a set are no more than one
// to the noise.
func anew(sets int, middle func(times) time.Duration, measure func() ([]times, error)) (all []times, err error) {
	for range fewer(sets) {
		set, err := measure()
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = make([]times, len(set))
		}
		for i := range set {
			all[i] = append(all[i], middle(set[i]))
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

// inParallel calls f with 0 to n-1, by so many goroutines.
func inParallel(n, workers int, f func(int) error) error {
	next := make(chan int)
	errs := make(chan error, workers)
	for range workers {
		go func() {
			var err error
			for i := range next {
				if err == nil {
					err = f(i)
				}
			}
			errs <- err
		}()
	}
	for i := range n {
		next <- i
	}
	close(next)
	var err error
	for range workers {
		err = errors.Join(err, <-errs)
	}
	return err
}
