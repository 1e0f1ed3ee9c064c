//go:build linux

// Fault runs hostile programs in sessions on a real engine, ends them in every way there
// is, and looks each time for what is left. It exits with a status other than zero if
// anything is, if a call does not return in time, if an outcome is not what happened, or
// if a bound on time or memory is broken.
//
// In half of the rounds the guard of the library, which removes what a program that died
// has left, is killed or stopped before the end. In a quarter the session has a
// keep-alive, and in a quarter a way out, where the engine can have one.
//
// The environment decides what is run:
//
//   - ENGINE names the one engine, as a command line; else docker and podman are used, as
//     far as they work. If it is "kubernetes", sessions are in pods of the cluster that
//     make test-kubernetes brings up.
//   - ROUNDS is the number of rounds for each engine; 20 if it is empty.
//   - SEED is that of the first round, whose plan follows from it alone; the next round's
//     is one more. If empty, it is drawn.
//   - ONLY is a regular expression: rounds whose plans don't match it are passed over.
//     Plans look like "fork bomb + sleeper / deadline after 120ms (bash, 64 MiB, 256
//     processes), guard killed".
//   - COFFERDAM_ATTACH lists engines, with commas between them, whose sessions go by the
//     engine's client. Else they go by FIFOs, where those carry.
//   - VERBOSE, if not empty, prints each round.
//   - COFFERDAM_REQUIRE_ENGINES lists engines, with commas between them, whose absence is
//     a failure, and so is that of docker's endings of an engine: without them other
//     rounds are done than the seed says.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/setup"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
)

func main() {
	switch {
	case os.Getenv(bystanderVar) != "":
		tellSignals()
		return
	case os.Getenv(holderVar) != "":
		if err := hold(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The second Ctrl-C ends the program at once; its containers go with it all the same.
	context.AfterFunc(ctx, stop)
	o, err := readOptions()
	if err == nil {
		err = everywhere(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fault:", err)
		os.Exit(1)
	}
}

// options are what the environment says.
type options struct {
	rounds  int
	seed    uint64
	only    *regexp.Regexp
	verbose bool
}

func readOptions() (options, error) {
	o := options{verbose: os.Getenv("VERBOSE") != ""}
	var found [3]error
	o.rounds, found[0] = strconv.Atoi(cmp.Or(os.Getenv("ROUNDS"), "20"))
	o.seed, found[1] = strconv.ParseUint(cmp.Or(os.Getenv("SEED"), strconv.FormatUint(uint64(rand.Uint32()), 10)), 10, 64)
	o.only, found[2] = regexp.Compile(os.Getenv("ONLY"))
	if found[0] == nil && o.rounds < 1 {
		found[0] = fmt.Errorf("ROUNDS is %d: it must be 1 or more", o.rounds)
	}
	return o, problems.Join(found[:]...)
}

// everywhere attacks each engine that works.
func everywhere(ctx context.Context, o options) error {
	var errs []error
	done := 0
	for _, spelled := range setup.Wanted() {
		s, err := newSuite(ctx, spelled, os.Stdout)
		if err != nil {
			fmt.Printf("%s is left out: %v\n", spelled, err)
			if required(spelled) {
				errs = append(errs, fmt.Errorf("%s is required: %w", spelled, err))
			}
			continue
		}
		done++
		if err := s.attack(ctx, o); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", spelled, err))
		}
		s.close()
	}
	if done == 0 {
		errs = append(errs, errors.New("no engine works here"))
	}
	return errors.Join(errs...)
}

// required reports whether an engine must be there, and all that is tried on it.
func required(spelled string) bool { return slices.Contains(setup.Required(), spelled) }

// mostPassed is how many plans may be passed over in a row: the rarest ending comes once
// in a few hundred.
const mostPassed = 100_000

// attack does the rounds.
func (s *suite) attack(ctx context.Context, o options) error {
	began := time.Now()
	if err := s.take(ctx); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s %s, %v, image %s, %d rounds from seed %d\n", s.kind(), s.version,
		s.transport, s.image, o.rounds, o.seed)
	s.idle = s.look()
	passed := 0
	for seed := o.seed; s.stats.rounds < o.rounds && ctx.Err() == nil; seed++ {
		p := s.plan(seed)
		if !o.only.MatchString(p.String()) || !s.can(p) {
			if passed++; passed == mostPassed {
				return fmt.Errorf("ONLY matches none of %d plans in a row", passed)
			}
			continue
		}
		passed = 0
		start := time.Now()
		r := s.round(ctx, p)
		s.stats.rounds++
		if len(r.problems) > 0 {
			s.stats.bad++
			fmt.Fprintf(s.out, "FAIL seed %d: %v\n\t%s\n\t%s\n", seed, p, strings.Join(r.problems, "\n\t"), s.replay(seed))
		}
		if o.verbose {
			fmt.Fprintf(s.out, "%d: %v: %v, %d ms\n", seed, p, r, time.Since(start).Milliseconds())
		} else if s.stats.rounds%50 == 0 {
			fmt.Fprintf(s.out, "%d rounds in %.0f s\n", s.stats.rounds, time.Since(began).Seconds())
		}
	}
	if err := s.finish(); err != nil {
		s.stats.bad++
		fmt.Fprintf(s.out, "FAIL at the end: %v\n", err)
	}
	memory, err := peak()
	fmt.Fprintf(s.out, "\n%s %s, seed %d, %.0f s\n", s.kind(), s.version, o.seed,
		time.Since(began).Seconds())
	return errors.Join(s.stats.print(s.out, memory, s.termination()), err, context.Cause(ctx))
}
