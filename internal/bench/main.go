// Command bench measures the library beside the bare engine in one run, and says which of
// its promises hold.
//
// Everything runs on a real engine: the first of docker and podman that answers, or the
// one that the environment's ENGINE names. Where two things are compared they take turns
// in short rounds, so that whatever else the machine does slows both, and a ratio is that
// of the medians of all rounds, or, of captures, of their sums. Every container gets the
// same flags, those of the zero [execpolicy.DockerPolicy], unless the line says
// otherwise. The exit status is 1 if a bound is broken or something could not be
// measured. A line whose bound holds, and which has an aim that it does not reach, is
// marked as missed. Arguments name the measurements to make; without any, all are made.
//
// A ratio of times has a noise: the interval in which 95 of 100 such runs have it, by the
// ratios of the eighths of the run. Containers of one set count as one round. A bound
// that is missed by less is marked and not broken. So -short, which does a quarter of the
// rounds, loosens the bounds by what it can't tell. For a machine that others use too,
// -slack 2 lets each bound of a time be missed by twice.
//
// # The scoreboard
//
// The argument scoreboard holds the library against what else a user would pick, on
// docker and on podman, in the one run. It must be run in the module's root, and writes
// testdata/scoreboard.txt, which benchstat reads, testdata/scoreboard.svg, and a section
// of README.md; a test checks that the three agree. With -short it writes nothing. The
// libraries of others are in the module peers. Openblox is not among them, because its
// module is not on every proxy. Testcontainers-go runs without its reaper, which is a
// container of an image that has to be pulled.
//
// # What many sessions cost
//
// Scale measures that, which needs root and Linux. This is what one of so many sessions
// took on two processors, idle and busy, beside one of so many containers whose client
// stays, and how many were started and ended a second:
//
//	docker 20.10  idle      busy      client's  sessions a second  client's
//	1             18.7 MiB  21.7 MiB  38.6 MiB  3.0                3.8
//	10            8.8 MiB   11.1 MiB  12.0 MiB  2.9                4.1
//	100           7.6 MiB   10.0 MiB  9.4 MiB   2.0                2.6
//
//	podman 4.3    idle      busy      client's  sessions a second  client's
//	1             8.3 MiB   11.7 MiB  37.0 MiB  4.1                5.3
//	10            6.6 MiB   4.8 MiB   12.2 MiB  3.5                4.8
//	100           3.0 MiB   4.1 MiB   10.0 MiB  2.6                3.1
//
// Of docker's 7.6 MiB, 2.9 were those of the session's bash, 2.5 the shim's, and 2.1
// those of process 1. Podman's conmon took 0.3, and its containers shared the pages of
// bash. Some 0.2 MiB were this program's, with 4 descriptors and 5 goroutines. A busy
// session took 1.0 MiB more of this program, which is what it keeps of an output. So the
// shim and the shells dominate. One guard serves all sessions of a program. Of 300 on
// docker some had not begun their commands after two minutes, and the engine did not
// answer in time any more: that is more than two processors take. All were gone at the
// end.
//
// A session also asks the engine for its image, and has its container removed by a client
// of its own. So the client's containers are started and ended faster.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/setup"
)

type measurement struct {
	name string
	run  func(context.Context, execpolicy.DockerPolicy, *table) error
}

var measurements = []measurement{
	{"commands", commands},
	{"transports", transports},
	{"starts", starts},
	{"takes", takes},
	{"services", services},
	{"snippets", snippets},
	{"captures", captures},
	{"transfers", transfers},
	{"truncates", truncates},
	{"scale", scale},
	{"sizes", sizes},
}

// extra measurements are made only if they are named.
var extra = []measurement{
	{"scoreboard", scoreboard},
}

func main() {
	flag.BoolVar(&short, "short", false, "do a quarter of the rounds")
	slack := flag.Float64("slack", 1, "the factor by which a bound may be missed, at least 1")
	flag.Parse()
	if !(*slack >= 1) {
		fmt.Fprintln(os.Stderr, "bench: -slack has to be at least 1")
		os.Exit(2)
	}
	wanted := flag.Args()
	known := slices.Concat(measurements, extra)
	for _, name := range wanted {
		if !slices.ContainsFunc(known, func(m measurement) bool { return m.name == name }) {
			fmt.Fprintf(os.Stderr, "bench: there is no measurement %q\n", name)
			os.Exit(2)
		}
	}
	// What a contender of the scoreboard has started is removed at its end.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p, err := policy(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	fmt.Printf("%s %s, image %s\n\n", p.Engine.Kind, p.Engine.ServerVersion, p.Image)
	t := table{w: os.Stdout, slack: *slack}
	t.header()
	failed := false
	if len(wanted) == 0 {
		known = measurements
	}
	for _, m := range known {
		if len(wanted) > 0 && !slices.Contains(wanted, m.name) {
			continue
		}
		if err := m.run(ctx, p, &t); err != nil {
			failed = true
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", m.name, err)
		}
	}
	if t.broken > 0 {
		fmt.Printf("\n%d of the bounds do not hold\n", t.broken)
	}
	if failed || t.broken > 0 {
		stop()
		os.Exit(1)
	}
}

// policy returns the zero policy, on an engine that has run a container of the image.
func policy(ctx context.Context) (p execpolicy.DockerPolicy, err error) {
	var errs []error
	for _, name := range setup.Wanted() {
		p.Engine, err = dockercli.Lookup(ctx, name)
		if err == nil {
			p.Image, err = setup.Ready(ctx, p.Engine, os.Stderr)
		}
		if err == nil {
			return p, nil
		}
		errs = append(errs, err)
	}
	return p, errors.Join(errs...)
}
