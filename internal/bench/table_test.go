package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

func TestRatioNoise(t *testing.T) {
	var steady, shaky times
	for i := range 80 {
		steady = append(steady, 10*time.Millisecond)
		shaky = append(shaky, time.Duration(20+5*(i/10%2))*time.Millisecond)
	}
	assert.Equal(t, steady.over(steady), ratio{value: 1})
	r := shaky.over(steady)
	// Eight parts, of 2 and 2.5 in turn.
	assert.Equal(t, r.String(), "2.25 ± 0.22")
	assert.Equal(t, steady[:1].over(shaky[:1]), ratio{value: 0.5})
	assert.Equal(t, steady.meanOver(steady).String(), "1.00")
}

func TestBoundBreaksBeyondNoise(t *testing.T) {
	for _, test := range []struct {
		atMost bool
		bound  float64
		r      ratio
		slack  float64
		mark   string
	}{
		{true, 1.1, ratio{1.1, 0}, 1, "ok"},
		{true, 1.1, ratio{1.15, 0}, 1, "BROKEN"},
		{true, 1.1, ratio{1.15, 0.1}, 1, "noise"},
		{true, 1.1, ratio{1.25, 0.1}, 1, "BROKEN"},
		{false, 20, ratio{20, 0}, 1, "ok"},
		{false, 20, ratio{19, 0.5}, 1, "BROKEN"},
		{false, 20, ratio{19, 2}, 1, "noise"},
		{true, 1.1, ratio{2.2, 0}, 2, "ok"},
		{true, 1.1, ratio{2.3, 0}, 2, "BROKEN"},
		{false, 20, ratio{10, 0}, 2, "ok"},
		{false, 20, ratio{9, 0}, 2, "BROKEN"},
	} {
		var out strings.Builder
		table := table{w: &out, slack: test.slack}
		hold := table.atLeast
		if test.atMost {
			hold = table.atMost
		}
		hold("what", "ours", "theirs", test.bound, test.r)
		assert.Check(t, strings.Contains(out.String(), test.mark), out.String())
		assert.Equal(t, table.broken > 0, test.mark == "BROKEN", out.String())
	}
}

// The rounds of a set are one to the noise, and few sets tell little.
func TestSetsAreOneRound(t *testing.T) {
	n := 0
	all, err := anew(3, times.median, func() ([]times, error) {
		n++
		return []times{slices.Repeat(times{time.Duration(n) * time.Millisecond}, 100), slices.Repeat(times{time.Millisecond}, 100)}, nil
	})
	assert.NilError(t, err)
	assert.DeepEqual(t, all[0], times{1e6, 2e6, 3e6})
	assert.Equal(t, all[0].over(all[1]).String(), "2.00 ± 2.48")
}

func TestWithin(t *testing.T) {
	var out strings.Builder
	table := table{w: &out, slack: 2}
	table.within("what", "theirs", time.Millisecond, times.median, slices.Repeat(times{1900 * time.Microsecond}, 8))
	assert.Assert(t, strings.Contains(out.String(), "at most 2ms            ok      1.90"), out.String())
	table.within("what", "theirs", time.Millisecond, times.median, slices.Repeat(times{2100 * time.Microsecond}, 8))
	assert.Equal(t, table.broken, 1, out.String())
}

func TestPercentile(t *testing.T) {
	var taken times
	for i := range 100 {
		taken = append(taken, time.Duration(100-i))
	}
	assert.Equal(t, taken.percentile(99), time.Duration(99))
	assert.Equal(t, taken.percentile(95), time.Duration(95))
	assert.Equal(t, taken[:1].percentile(95), time.Duration(100))
}
