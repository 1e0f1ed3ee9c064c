package container

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
)

// newGuard returns a guard that is started with its first name; removal is words of a
// shell.
func newGuard(removal string) *Guard {
	return &Guard{removal: removal, watched: map[string]string{}}
}

// A guard that somebody has stopped or killed holds up nobody. Another takes its place,
// and it does nothing any more.
func TestGuardIsReplaced(t *testing.T) {
	const many = 3000 // more than a pipe holds
	for name, signal := range map[string]syscall.Signal{"stopped": syscall.SIGSTOP, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			enginetest.Check(t)
			removed := filepath.Join(t.TempDir(), "removed")
			g := newGuard(`sh -c 'for name; do echo "$name"; done >>"$0"' '` + removed + "'")
			g.Add("first")
			first := g.proc.Pid()
			assert.NilError(t, syscall.Kill(first, signal))
			began := time.Now()
			for i := range many {
				name := fmt.Sprintf("cofferdam-%026d", i)
				g.Add(name)
				g.Remove(name)
			}
			assert.Assert(t, time.Since(began) < prompt)
			assert.Assert(t, g.proc.Pid() != first)
			assert.Equal(t, syscall.Kill(first, 0), syscall.ESRCH)
			g.Add("last")
			// As at the end of this program.
			g.pipe.Close()
			defer g.proc.Stop(context.Background(), 0) // before it has tried for long
			assert.Assert(t, leftover.Patient.Until(func() bool {
				lines, _ := os.ReadFile(removed)
				names := slices.Compact(slices.Sorted(slices.Values(strings.Fields(string(lines)))))
				return slices.Equal(names, []string{"first", "last"})
			}), "others are removed")
		})
	}
}

// The guard ends with the last name.
func TestGuardEnds(t *testing.T) {
	enginetest.Check(t)
	g := newGuard("false")
	g.Add("a")
	g.Add("b")
	pid := g.proc.Pid()
	g.Remove("a")
	assert.Equal(t, g.proc.Pid(), pid)
	g.Remove("b")
	assert.Equal(t, syscall.Kill(pid, 0), syscall.ESRCH)
}

// A container may be heard while it is being forgotten. The guard does not take its name
// up again, and ends with the last one.
func TestGuardKnowsNoneThatIsGone(t *testing.T) {
	enginetest.Check(t)
	g := newGuard("false")
	g.Add("other")
	g.Add("gone")
	g.Remove("gone")
	g.know("gone", FirstProcess{Name: "gone", PID: 4711, Start: 1})
	pid := g.proc.Pid()
	g.Remove("other")
	assert.Equal(t, syscall.Kill(pid, 0), syscall.ESRCH)
}

// A directory of FIFOs is removed, also if this program ended in the middle of that.
func TestGuardRemovesDirectory(t *testing.T) {
	for _, left := range []string{"io", ""} {
		t.Run("with "+left, func(t *testing.T) {
			enginetest.Check(t)
			dir := filepath.Join(t.TempDir(), "cofferdam-name")
			assert.NilError(t, os.MkdirAll(filepath.Join(dir, left), 0o700))
			g := newGuard("false")
			g.Add(dir)
			// As at the end of this program.
			g.pipe.Close()
			<-g.proc.Done()
			_, err := os.Lstat(dir)
			assert.ErrorIs(t, err, os.ErrNotExist)
		})
	}
}

// A guard of many keeps up with what becomes of them: to take a name out of a long list by
// a pattern would take a shell seconds.
func TestGuardOfMany(t *testing.T) {
	enginetest.Check(t)
	g := newGuard("false")
	g.Add("first")
	var lines strings.Builder
	for i := range 200 {
		name := fmt.Sprintf("cofferdam-%026d", i)
		fmt.Fprintf(&lines, "+%s\n+%[1]s:1073741824:1:/%s:\n-%[1]s\n", name, strings.Repeat("g", 100))
	}
	for i := range 200 {
		fmt.Fprintf(&lines, "-cofferdam-%026d:1073741824:1:/%s:\n", i, strings.Repeat("g", 100))
	}
	_, err := g.pipe.WriteString(lines.String())
	assert.NilError(t, err)
	g.pipe.Close()
	assert.Assert(t, leftover.Patient.Until(func() bool {
		select {
		case <-g.proc.Done():
			return true
		default:
			return false
		}
	}))
}

// What a link leads to that somebody has put in place of the FIFOs stays.
func TestGuardFollowsNoLink(t *testing.T) {
	enginetest.Check(t)
	dir, other := filepath.Join(t.TempDir(), "cofferdam-name"), t.TempDir()
	kept := filepath.Join(other, "kept")
	assert.NilError(t, os.WriteFile(kept, nil, 0o600))
	assert.NilError(t, os.Mkdir(dir, 0o700))
	assert.NilError(t, os.Symlink(other, filepath.Join(dir, "io")))
	g := newGuard("false")
	g.Add(dir)
	g.pipe.Close()
	<-g.proc.Done()
	_, err := os.Stat(kept)
	assert.NilError(t, err)
}

// A container that lives, and in which nothing can be run, is removed once, and then
// killed: podman would forget it at a second removal. Then the bound on its use of the
// processors is taken away.
func TestGuardRemovesOnce(t *testing.T) {
	enginetest.Check(t)
	temp := t.TempDir()
	group := filepath.Join(temp, strings.Repeat("0123456789abcdef", 4))
	assert.NilError(t, os.Mkdir(group, 0o700))
	quota := filepath.Join(group, "cpu.cfs_quota_us")
	assert.NilError(t, os.WriteFile(quota, []byte("50000"), 0o600))
	process := exec.Command("sleep", "4862")
	assert.NilError(t, process.Start())
	ended := make(chan error, 1)
	go func() { ended <- process.Wait() }()
	defer func() {
		process.Process.Kill()
		<-ended
	}()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process.Process.Pid))
	assert.NilError(t, err)
	start, err := strconv.ParseUint(statField(string(stat), 22), 10, 64)
	assert.NilError(t, err)

	done := filepath.Join(temp, "done")
	did := func(what string) string { return "sh -c 'echo " + what + ` $1 >>"$0"' '` + done + "'" }
	g := newGuard(did("removed"))
	g.exec, g.kill = "false", did("killed")
	g.Add("name")
	g.know("name", FirstProcess{Name: "name", PID: process.Process.Pid, Start: start, Quota: group})
	// As at the end of this program.
	g.pipe.Close()
	defer g.proc.Stop(context.Background(), 0)
	var lines []string
	assert.Assert(t, leftover.Patient.Until(func() bool {
		text, _ := os.ReadFile(done)
		lines = strings.Split(strings.TrimSpace(string(text)), "\n")
		return len(lines) > 2
	}), "it was not killed: %q", lines)
	assert.DeepEqual(t, lines[:3], []string{"removed name", "killed name", "killed name"})
	// The guard may be writing it anew: the shell empties the file first.
	var lifted []byte
	assert.Assert(t, leftover.Patient.Until(func() bool {
		lifted, err = os.ReadFile(quota)
		return err == nil && string(lifted) == "-1\n"
	}), "the bound is %q: %v", lifted, err)
}

// Where no guard can be started there is none, and nothing else is different.
func TestNoGuard(t *testing.T) {
	enginetest.Check(t)
	t.Setenv("PATH", t.TempDir())
	g := newGuard("false")
	g.Add("a")
	g.Add("b")
	g.Remove("a")
	g.Remove("b")
}
