// Package enginetest runs tests against every real engine of the machine, and fails them
// on anything they leave behind.
//
// The environment decides what is run:
//
//   - ENGINE names the one engine to use, as a command line; else docker and podman are
//     looked up.
//   - COFFERDAM_REQUIRE_ENGINES lists engines, with commas between them, that are also
//     used, and whose absence is a failure and not a skip.
//   - COFFERDAM_IMAGE and COFFERDAM_MAKE_IMAGE decide the image: see [setup.Image].
//   - COFFERDAM_WITHOUT_LIMITS, if not empty, says that the machine bears an engine that
//     sets no limits. Without it, that is one that does not work: see [setup.Limits].
//
// With -short, a test that uses [Run] runs on one of the engines. One that would also run
// on the fake engine does so only where no other works: see [Fake].
package enginetest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/setup"
)

// setupTimeout bounds the search for one engine, and the making of its image.
const setupTimeout = 6 * time.Minute

// An Engine is a real engine that has run a container of Image.
type Engine struct {
	*dockercli.Engine
	Name  string // as it was looked up
	Image string

	// Labels are unique to the test binary. A container that carries them fails the test
	// which leaves it behind.
	Labels map[string]string
}

// labels hold the time, because a process number is used again.
var labels = map[string]string{"cofferdam-test": fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())}

// Run runs f as a subtest for each engine, under [Check]. The subtest of an engine that
// does not work is skipped, or fails if the engine is required.
func Run(t *testing.T, f func(t *testing.T, e Engine)) {
	t.Helper()
	works, not := apart()
	run(t, append(Chosen(t, works), not...), f)
}

// RunOnAll is [Run] on each engine with -short, too. It is for tests of what an engine
// itself says or does.
func RunOnAll(t *testing.T, f func(t *testing.T, e Engine)) {
	t.Helper()
	run(t, candidates(), f)
}

func run(t *testing.T, on []candidate, f func(t *testing.T, e Engine)) {
	t.Helper()
	for _, c := range on {
		t.Run(filepath.Base(c.Name), func(t *testing.T) {
			if c.err != nil {
				leaveOut(t, c)
			}
			Check(t, c.Engine)
			f(t, c.Engine)
		})
	}
}

// Engines returns the engines that work, for what is no test of one engine. It skips the
// test if there is none, and fails it if a required one is missing.
func Engines(tb testing.TB) []Engine {
	tb.Helper()
	var engines []Engine
	var missing []string
	for _, c := range candidates() {
		switch {
		case c.err == nil:
			engines = append(engines, c.Engine)
		case slices.Contains(setup.Required(), c.Name):
			leaveOut(tb, c)
		default:
			missing = append(missing, fmt.Sprintf("%s: %v", c.Name, c.err))
		}
	}
	if len(engines) == 0 {
		leftout.Skip(tb, "no engine works here: %s", strings.Join(missing, "; "))
	}
	if len(missing) > 0 {
		leftout.Note(tb, "%s", strings.Join(missing, "; "))
	}
	return engines
}

// Fake reports whether a test that runs on the fake engine and on real ones, as that of
// package places, runs on the fake one.
func Fake() bool {
	works, _ := apart()
	return !testing.Short() || len(works) == 0
}

// Chosen returns all or, with -short, one of them, always the same one for a test of this
// name.
func Chosen[T any](tb testing.TB, all []T) []T {
	if !testing.Short() || len(all) == 0 {
		return all
	}
	i := pick(tb.Name(), len(all))
	return all[i : i+1 : i+1]
}

// pick returns one of n numbers from 0. With a sum that mixes less, what is chosen for a
// subtest would follow from what was chosen for its test.
func pick(name string, n int) int {
	sum := sha256.Sum256([]byte(name))
	return int(binary.BigEndian.Uint32(sum[:]) % uint32(n))
}

type candidate struct {
	Engine
	err error
}

// candidates is worked out once, before any test counts what it leaves behind.
var candidates = sync.OnceValue(func() []candidate {
	var all []candidate
	names := append(setup.Wanted(), setup.Required()...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		c := candidate{Engine: Engine{Name: name, Labels: labels}}
		c.Engine.Engine, c.Image, c.err = find(name)
		all = append(all, c)
	}
	return all
})

// apart returns the candidates that work and those that do not.
func apart() (works, not []candidate) {
	for _, c := range candidates() {
		if c.err == nil {
			works = append(works, c)
		} else {
			not = append(not, c)
		}
	}
	return works, not
}

func find(name string) (*dockercli.Engine, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	e, err := setup.Lookup(ctx, name)
	if err != nil {
		return nil, "", err
	}
	if e.Kind == dockercli.Podman {
		// Podman without root may look for its state below TMPDIR, which Check changes.
		e.Env = os.Environ()
	}
	if !withoutLimits() {
		if err := setup.Limits(ctx, e); err != nil {
			return nil, "", err
		}
	}
	image, err := setup.Ready(ctx, e, os.Stderr)
	if err != nil {
		return nil, "", err
	}
	return e, image, nil
}

func leaveOut(tb testing.TB, c candidate) {
	tb.Helper()
	if slices.Contains(setup.Required(), c.Name) {
		tb.Fatalf("%s is required and does not work: %v", c.Name, c.err)
	}
	leftout.Skip(tb, "%s: %v", c.Name, c.err)
}

func withoutLimits() bool { return os.Getenv("COFFERDAM_WITHOUT_LIMITS") != "" }

// NeedLimits leaves out a test, or a part of one, on an engine that can't set one of the
// limits, as in MissingLimits.
func NeedLimits(tb testing.TB, e *dockercli.Engine, limits ...string) {
	tb.Helper()
	for _, limit := range limits {
		if e.Lacks(limit) {
			leftout.Skip(tb, "%s sets no limit of %s here", filepath.Base(e.Path), limit)
		}
	}
}
