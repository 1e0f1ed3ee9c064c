package enginetest

import (
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
)

// Check fails the test if something is left when it and its cleanups are done:
// goroutines, descriptors, processes, temporary files, containers that carry the test
// binary's Labels, and podman's helpers of cofferdam's containers that are gone.
//
// It compares with what is there when it is called. So it comes first in a test, which
// can't run in parallel with others, and what the program starts once and keeps to its
// end has to be there already. Processes and descriptors are seen on Linux only.
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
	look := func() map[string]string {
		seen := leftover.LookHere(temp)
		for _, e := range places {
			maps.Copy(seen, e.Helpers())
		}
		return seen
	}
	// No container carries the labels yet, so no engine is asked for them.
	before := look()
	t.Cleanup(func() {
		defer os.RemoveAll(temp)
		defer func() {
			if t.Failed() {
				for _, e := range places {
					e.Remove()
				}
			}
		}()
		left := leftover.Patient.Settle(nil, func() map[string]string {
			more := look()
			for what := range before {
				delete(more, what)
			}
			settled := len(more) == 0
			for _, e := range places {
				// An answer takes long, so containers are asked for when the rest is
				// gone. But docker's daemon lets go of some connections over TLS only
				// when it collects garbage, which answers make it do.
				if settled || e.Remote {
					maps.Copy(more, e.Look())
				}
			}
			return more
		})
		if len(left) > 0 {
			t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
		}
	})
}

func (e Engine) labeled() leftover.Engine { return leftover.Engine{Engine: e.Engine, Labels: e.Labels} }
