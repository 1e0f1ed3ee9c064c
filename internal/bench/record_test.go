package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

const moduleRoot = "../.."

func recorded(t *testing.T) (text string, r *record) {
	t.Helper()
	data, err := os.ReadFile(moduleRoot + "/" + dataFile)
	assert.NilError(t, err)
	r, err = readRecord(strings.NewReader(string(data)))
	assert.NilError(t, err)
	return string(data), r
}

// What the README says of speed, and the plot in it, are those of the data.
func TestREADMEAgreesWithTheData(t *testing.T) {
	_, r := recorded(t)
	text, err := os.ReadFile(moduleRoot + "/" + readme)
	assert.NilError(t, err)
	want, err := r.section(string(text))
	assert.NilError(t, err)
	assert.Equal(t, string(text), want)
	plot, err := os.ReadFile(moduleRoot + "/" + plotFile)
	assert.NilError(t, err)
	var b strings.Builder
	r.plot(&b)
	assert.Equal(t, string(plot), b.String())
}

func TestRecordIsComplete(t *testing.T) {
	text, r := recorded(t)
	var b strings.Builder
	_, err := r.WriteTo(&b)
	assert.NilError(t, err)
	assert.Equal(t, b.String(), text)
	for _, c := range contenders {
		for _, unit := range []string{"Command ns/op", "First ns/op", "Output ns/op", "Output peak-B", "Deadline left", "Kill left"} {
			task, unit, _ := strings.Cut(unit, " ")
			assert.Check(t, len(r.values(task, c.name, unit)) > 0, "%s has no %s of %s", c.name, unit, task)
		}
		assert.Check(t, labels[c.name] != "", "%s has no name", c.name)
	}
}

func TestReadRecordRefuses(t *testing.T) {
	for _, text := range []string{"BenchmarkCommand 1 2 ns/op", "BenchmarkCommand/by=x 1 2", "BenchmarkCommand/by=x 1 two ns/op"} {
		_, err := readRecord(strings.NewReader(text))
		assert.Check(t, err != nil, text)
	}
	_, err := (&record{}).section("a README without the section")
	assert.Assert(t, err != nil)
}

func TestFigures(t *testing.T) {
	for in, want := range map[int]string{0: "0s", 7: "7ns", 491_234: "490µs", 98_712_345: "99ms", 1_234_567_890: "1.2s"} {
		assert.Equal(t, figures(time.Duration(in)).String(), want)
	}
}

func TestRecordReadsWhatItWrites(t *testing.T) {
	r := &record{}
	r.keep("docker: 20.10")
	for _, c := range contenders {
		r.add("Command", c.name, sample{2e6, "ns/op"})
		r.add("Command", c.name, sample{4e6, "ns/op"})
		r.add("First", c.name, sample{2e8, "ns/op"})
		r.add("Output", c.name, sample{3e9, "ns/op"}, sample{5e6, "peak-B"})
		r.add("Deadline", c.name, sample{1e9, "ns/op"}, sample{2, "left"})
		r.add("Kill", c.name, sample{1, "left"})
	}
	r.add("Size", "cofferdam", sample{1e6, "B"}, sample{4, "modules"})
	var b strings.Builder
	_, err := r.WriteTo(&b)
	assert.NilError(t, err)
	again, err := readRecord(strings.NewReader(b.String()))
	assert.NilError(t, err)
	var c strings.Builder
	_, err = again.WriteTo(&c)
	assert.NilError(t, err)
	assert.Equal(t, c.String(), b.String())
	got, err := again.section("before\n" + sectionBegin + "old\n" + sectionEnd + "after\n")
	assert.NilError(t, err)
	assert.Assert(t, strings.Contains(got, "|cofferdam|3ms (4ms)|1|200ms (200ms)|3s|5MB|2|1|+1.0MB|\n"), got)
	assert.Assert(t, strings.HasPrefix(got, "before\n") && strings.HasSuffix(got, "after\n") && !strings.Contains(got, "old"))
}
