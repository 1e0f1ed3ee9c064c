package enginetest

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
	"gotest.tools/v3/poll"
)

// Check fails the test if something is left when it and its cleanups are done: goroutines, descriptors, processes, temporary
// files, containers that carry the test binary's Labels, and podman's helpers of cofferdam's containers that are gone.
//
// It compares with what is there when it is called. So it comes first in a test, which can't run in parallel with others, and what
// the program starts once and keeps to its end has to be there already. Processes and descriptors are seen on Linux only.
func Check(t testing.TB, engines ...Engine) {
	t.Helper()
	beside(t, true)
	// Not t.TempDir, which removes its files without a word.
	temp, err := os.MkdirTemp("", "check-")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp)
	var places []leftover.Engine
	for _, e := range engines {
		places = append(places, e.labeled())
	}
	before := leftover.Look(temp, places...)
	t.Cleanup(func() {
		defer os.RemoveAll(temp)
		defer func() {
			for _, e := range places {
				e.Remove()
			}
		}()
		poll.WaitOn(t, func(poll.LogT) poll.Result {
			left := leftover.Look(temp, places...)
			maps.DeleteFunc(left, func(what, _ string) bool {
				_, ok := before[what]
				return ok
			})
			if len(left) == 0 {
				return poll.Success()
			}
			return poll.Continue("left behind:\n%s", strings.Join(slices.Sorted(maps.Values(left)), "\n"))
		}, poll.WithTimeout(leftover.Timeout), poll.WithDelay(50*time.Millisecond))
	})
}

func (e Engine) labeled() leftover.Engine { return leftover.Engine{Engine: e.Engine, Labels: e.Labels} }
