package enginetest

import (
	"sync"
	"testing"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/setup"
)

// Alone keeps tests of other packages from running at the same time as this one, for what
// is measured against the clock, or takes the processors from all others. It comes first
// in a test, before [Check].
func Alone(t testing.TB) {
	t.Helper()
	if running.tests > 0 {
		t.Fatal("another test of this package runs")
	}
	beside(t, false)
}

// Beside has the test run beside others, and not beside one that runs [Alone]. [Check]
// does so, too: this is for tests that use no engine, and have bounds in time.
func Beside(t testing.TB) {
	t.Helper()
	beside(t, true)
}

// running are the tests of this process that count on each other's being there.
var running struct {
	sync.Mutex
	tests  int
	unlock func()
}

// beside lets the test run beside others that are willing, once who wants to be alone has
// been.
func beside(t testing.TB, willing bool) {
	t.Helper()
	running.Lock()
	defer running.Unlock()
	if running.tests == 0 {
		// Who waits to be alone holds up those that come after.
		enter, err := setup.Lock("door", false)
		if err != nil {
			t.Fatal(err)
		}
		running.unlock, err = setup.Lock("test", willing)
		enter()
		if err != nil {
			t.Fatal(err)
		}
	}
	running.tests++
	t.Cleanup(func() {
		running.Lock()
		defer running.Unlock()
		if running.tests--; running.tests == 0 {
			running.unlock()
		}
	})
}
