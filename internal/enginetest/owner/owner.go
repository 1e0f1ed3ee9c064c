// Package owner starts programs that have an engine of their own and are going to be
// killed, for tests that nothing of the engine outlives them.
package owner

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/private"
)

// variable makes the test binary such a program, and holds its argument.
const variable = "COFFERDAM_TEST_OWNER"

// unsupported is what the program says where there can be no engine.
const unsupported = "unsupported"

// Main is for the beginning of TestMain. In a program that Start has started it starts an
// engine by own and does not return; else it does nothing.
func Main(own func(arg string) error) {
	arg := os.Getenv(variable)
	if arg == "" {
		return
	}
	err := own(arg)
	switch {
	case err == nil:
		fmt.Println(os.Getpid())
	case errors.Is(err, errors.ErrUnsupported):
		fmt.Println(unsupported)
	default:
		fmt.Println(err)
	}
	select {}
}

// Start starts a program with an argument and a directory for its temporary files. It
// returns the process namespace of its engine, and what kills the program, or skips the
// test where there can be no engine.
func Start(t *testing.T, arg, temp string) (namespace string, kill func()) {
	t.Helper()
	said, kill := enginetest.Child(t, append(os.Environ(), variable+"="+arg, "TMPDIR="+temp))
	if said == unsupported {
		leftout.Skip(t, "there can be no such engine here")
	}
	program, err := strconv.Atoi(said)
	assert.NilError(t, err)
	return NamespaceOf(t, program), kill
}

// NamespaceOf returns the process namespace of a program's engine, whose process 1 is a
// child of the program.
func NamespaceOf(t *testing.T, program int) string {
	t.Helper()
	for _, p := range leftover.Processes() {
		if len(p.Args) > 0 && p.Args[0] == private.Name && p.Parent == program {
			namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", p.PID))
			assert.NilError(t, err)
			return namespace
		}
	}
	t.Fatal("no engine of the program runs")
	return ""
}
