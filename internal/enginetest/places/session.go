package places

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// Open opens a session, which is closed when the test ends.
func Open(t *testing.T, p execpolicy.Policy, spec execpolicy.Spec) *execpolicy.Session {
	t.Helper()
	s, err := execpolicy.Start(t.Context(), p, spec)
	assert.NilError(t, err)
	t.Cleanup(bound(t, longest, longest/4, s.Close))
	t.Cleanup(func() { s.Close() })
	return s
}

// longest is more than any test has one session.
const longest = 20 * time.Minute

// bound fails a test that has not called stop in time, with the stacks that show what it
// waits for, and closes what it may wait on. If stop is not called in the time after
// that, the test program ends.
func bound(t testing.TB, within, then time.Duration, close func() error) (stop func()) {
	hung := time.AfterFunc(within+then, func() {
		debug.SetTraceback("all")
		panic(t.Name() + " hangs")
	})
	late := time.AfterFunc(within, func() {
		stacks := make([]byte, 1<<20)
		t.Errorf("the session is open for %v:\n%s", within, stacks[:runtime.Stack(stacks, true)])
		close()
	})
	return func() {
		late.Stop()
		hung.Stop()
	}
}

// OK runs a script that is expected to succeed and returns what it prints, without the
// newline at its end.
func OK(t *testing.T, s *execpolicy.Session, script string) string {
	t.Helper()
	r, err := s.Run(t.Context(), execpolicy.Command{Script: script})
	assert.NilError(t, err)
	assert.Equal(t, r.Outcome, execpolicy.OutcomeExited, "%s: %s", script, r.Text())
	assert.Equal(t, r.ExitCode, 0, "%s: %s", script, r.Text())
	return strings.TrimSuffix(string(r.Stdout), "\n")
}

// OnWrite is a writer that calls the function for each write.
type OnWrite func()

// Write calls the function.
func (f OnWrite) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}
