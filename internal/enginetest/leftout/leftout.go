// Package leftout says what a run of the tests left out, and why, where somebody sees it:
// a skipped test says so to nobody who did not ask for its log.
package leftout

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

// File names, in the environment, the file that gets a line for all that is left out: the
// reason, a tab and the name of the test, without those of its subtests. Without it, only
// the test's log tells.
const File = "COFFERDAM_LEFT_OUT"

// Skip ends a test that can't run here, as [testing.TB.Skipf] does.
func Skip(tb testing.TB, format string, args ...any) {
	tb.Helper()
	Note(tb, format, args...)
	tb.SkipNow()
}

// Kubernetes is set, in the environment, where tests have a cluster.
const Kubernetes = "COFFERDAM_KUBERNETES"

// Tests leaves out the tests and examples whose names match a pattern, unless the
// environment has Kubernetes. A TestMain calls it before [testing.M.Run].
func Tests(pattern, reason string) {
	if os.Getenv(Kubernetes) != "" {
		return
	}
	flag.Parse()
	skip := flag.Lookup("test.skip").Value
	all := pattern
	if skip.String() != "" {
		all = skip.String() + "|" + pattern
	}
	if err := errors.Join(skip.Set(all), note(reason, "all of "+pattern)); err != nil {
		panic(err)
	}
}

// Note tells of a part of a test that can't run here. The rest of it goes on.
func Note(tb testing.TB, format string, args ...any) {
	tb.Helper()
	reason := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	tb.Log("left out: " + reason)
	test, _, _ := strings.Cut(tb.Name(), "/")
	if err := note(reason, test); err != nil {
		tb.Fatal(err)
	}
}

// note writes a line into the file.
func note(reason, tests string) error {
	name := os.Getenv(File)
	if name == "" {
		return nil
	}
	// A line in one write, since the test binaries of several packages run at once.
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(reason + "\t" + tests + "\n")
		err = errors.Join(err, f.Close())
	}
	return err
}
