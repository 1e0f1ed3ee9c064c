package execpolicy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

// A guard that somebody has stopped or killed holds up nobody. Another takes its place,
// and it does nothing any more.
func TestGuardIsReplaced(t *testing.T) {
	const many = 3000 // more than a pipe holds
	for name, signal := range map[string]syscall.Signal{"stopped": syscall.SIGSTOP, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			enginetest.Check(t)
			removed := filepath.Join(t.TempDir(), "removed")
			g := execpolicy.NewGuard(`sh -c 'for name; do echo "$name"; done >>"$0"' '` + removed + "'")
			g.Add("first")
			first := g.Pid()
			assert.NilError(t, syscall.Kill(first, signal))
			within(t, prompt, "to watch over one after the other", func() {
				for i := range many {
					name := fmt.Sprintf("cofferdam-%026d", i)
					g.Add(name)
					g.Remove(name)
				}
			})
			assert.Assert(t, g.Pid() != first)
			assert.Equal(t, syscall.Kill(first, 0), syscall.ESRCH)
			g.Add("last")
			g.Abandon()
			defer g.End()
			wait(t, func() bool {
				lines, _ := os.ReadFile(removed)
				names := slices.Compact(slices.Sorted(slices.Values(strings.Fields(string(lines)))))
				return slices.Equal(names, []string{"first", "last"})
			}, "others are removed")
		})
	}
}

// The guard ends with the last name.
func TestGuardEnds(t *testing.T) {
	enginetest.Check(t)
	g := execpolicy.NewGuard("false")
	g.Add("a")
	g.Add("b")
	pid := g.Pid()
	g.Remove("a")
	assert.Equal(t, g.Pid(), pid)
	g.Remove("b")
	assert.Equal(t, syscall.Kill(pid, 0), syscall.ESRCH)
}

// Where no guard can be started there is none, and nothing else is different.
func TestNoGuard(t *testing.T) {
	enginetest.Check(t)
	t.Setenv("PATH", t.TempDir())
	g := execpolicy.NewGuard("false")
	g.Add("a")
	g.Add("b")
	g.Remove("a")
	g.Remove("b")
}
