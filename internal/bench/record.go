package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A record holds the results of a scoreboard. Its text is what benchstat reads:
//
//	benchstat -col /by internal/bench/testdata/scoreboard.txt
type record struct {
	facts []string // what it was measured on, as "key: value"
	lines []result
}

// A result is one measurement of a contender.
type result struct {
	task, by string
	samples  []sample
}

type sample struct {
	value float64
	unit  string
}

func (r *record) keep(fact string) { r.facts = append(r.facts, fact) }

func (r *record) add(task, by string, samples ...sample) {
	r.lines = append(r.lines, result{task, by, samples})
}

// values returns what was measured, in order.
func (r *record) values(task, by, unit string) (all []float64) {
	for _, l := range r.lines {
		for _, s := range l.samples {
			if l.task == task && l.by == by && s.unit == unit {
				all = append(all, s.value)
			}
		}
	}
	return all
}

func (r *record) times(task, by string) (all times) {
	for _, ns := range r.values(task, by, "ns/op") {
		all = append(all, time.Duration(ns))
	}
	return all
}

// median returns that of what was measured; -1 if nothing was.
func (r *record) median(task, by, unit string) float64 {
	all := r.values(task, by, unit)
	if len(all) == 0 {
		return -1
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

func (r *record) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	for _, fact := range r.facts {
		fmt.Fprintln(&b, fact)
	}
	lines := slices.Clone(r.lines)
	slices.SortStableFunc(lines, func(a, b result) int {
		return strings.Compare(a.task+"/"+a.by, b.task+"/"+b.by)
	})
	for _, l := range lines {
		fmt.Fprintf(&b, "Benchmark%s/by=%s 1", l.task, l.by)
		for _, s := range l.samples {
			fmt.Fprintf(&b, " %.0f %s", s.value, s.unit)
		}
		fmt.Fprintln(&b)
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}

// readRecord reads what WriteTo has written.
func readRecord(in io.Reader) (*record, error) {
	r := &record{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		name, ok := "", false
		if len(fields) > 0 {
			name, ok = strings.CutPrefix(fields[0], "Benchmark")
		}
		if !ok {
			r.keep(lines.Text())
			continue
		}
		task, by, ok := strings.Cut(name, "/by=")
		if !ok || len(fields)%2 != 0 {
			return nil, fmt.Errorf("a line of a scoreboard: %q", lines.Text())
		}
		var samples []sample
		for i := 2; i < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, err
			}
			samples = append(samples, sample{value, fields[i+1]})
		}
		r.add(task, by, samples...)
	}
	return r, lines.Err()
}

// The files that a scoreboard writes below the module's root.
const (
	dataFile = "internal/bench/testdata/scoreboard.txt"
	plotFile = "internal/bench/testdata/scoreboard.svg"
	readme   = "README.md"
)

// write puts the data, the plot of it and the section of the README into the module that
// is at root.
func (r *record) write(root string) error {
	var data, plot strings.Builder
	r.WriteTo(&data)
	r.plot(&plot)
	text, err := os.ReadFile(filepath.Join(root, readme))
	if err != nil {
		return err
	}
	with, err := r.section(string(text))
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(root, dataFile), []byte(data.String()), 0o644),
		os.WriteFile(filepath.Join(root, plotFile), []byte(plot.String()), 0o644),
		os.WriteFile(filepath.Join(root, readme), []byte(with), 0o644))
}
