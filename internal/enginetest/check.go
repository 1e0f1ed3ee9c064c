package enginetest

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/private"
	"gotest.tools/v3/poll"
)

const (
	// leftoverTimeout is how long after a test's own cleanup its leftovers may take to go. The library promises two seconds; the
	// rest is for a busy machine.
	leftoverTimeout = 5 * time.Second

	listTimeout = 10 * time.Second // for an engine to name or remove containers
)

// Check fails the test if something is left when it and its cleanups are done: goroutines, descriptors, processes, temporary
// files, containers that carry the test binary's Labels, and podman's helpers of cofferdam's containers that are gone.
//
// It compares with what is there when it is called. So it comes first in a test, which can't run in parallel with others, and what
// the program starts once and keeps to its end has to be there already. Processes and descriptors are seen on Linux only.
func Check(t testing.TB, engines ...Engine) {
	t.Helper()
	// Not t.TempDir, which removes its files without a word.
	temp, err := os.MkdirTemp("", "check-")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp)
	before := look(temp, engines)
	t.Cleanup(func() {
		defer os.RemoveAll(temp)
		defer removeContainers(engines)
		poll.WaitOn(t, func(poll.LogT) poll.Result {
			left := look(temp, engines)
			maps.DeleteFunc(left, func(what, _ string) bool {
				_, ok := before[what]
				return ok
			})
			if len(left) == 0 {
				return poll.Success()
			}
			return poll.Continue("left behind:\n%s", strings.Join(slices.Sorted(maps.Values(left)), "\n"))
		}, poll.WithTimeout(leftoverTimeout), poll.WithDelay(50*time.Millisecond))
	})
}

// look describes everything that could be left behind, under names that stay the same from one look to the next.
func look(temp string, engines []Engine) map[string]string {
	seen := map[string]string{}
	// The engines come first: asking them takes processes, descriptors and goroutines.
	for _, e := range engines {
		lookContainers(seen, e)
	}
	lookProcesses(seen)
	lookDescriptors(seen)
	lookFiles(seen, temp)
	lookGoroutines(seen)
	return seen
}

func lookContainers(seen map[string]string, e Engine) {
	helpers := podmanHelpers(e)
	for _, name := range ourContainers(e) {
		seen["container "+name] = fmt.Sprintf("container %s of %s", name, e.Name)
	}
	if len(helpers) == 0 {
		return
	}
	known := list(e, "ps", "--all", "--quiet", "--no-trunc")
	for _, h := range helpers {
		if id := option(h.args, "-c"); !slices.Contains(known, id) {
			seen[h.key()] = fmt.Sprintf("helper without a container: %s", h)
		}
	}
}

func ourContainers(e Engine) []string {
	args := []string{"ps", "--all", "--format={{.Names}}"}
	for k, v := range e.Labels {
		args = append(args, "--filter=label="+k+"="+v)
	}
	return list(e, args...)
}

func removeContainers(engines []Engine) {
	for _, e := range engines {
		for _, name := range ourContainers(e) {
			args := []string{"rm", "--force"}
			if e.Kind == dockercli.Podman {
				args = append(args, "--time=0")
			}
			list(e, append(args, name)...)
		}
	}
}

// list runs the engine and returns the lines that it prints. A failure is a line, too, and so fails the test.
func list(e Engine, args ...string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, e.Path, slices.Concat(e.Global, args)...)
	cmd.Env = e.Env
	out, err := cmd.Output()
	lines := strings.Fields(string(out))
	if err != nil {
		lines = append(lines, err.Error())
	}
	return lines
}

type process struct {
	pid, parent int
	start       string // in clock ticks since the machine's start: tells apart two processes of one number
	state, name string
	args        []string
}

func (p process) key() string { return fmt.Sprintf("process %d %s", p.pid, p.start) }

func (p process) String() string {
	return fmt.Sprintf("process %d (%s, state %s): %q", p.pid, p.name, p.state, p.args)
}

func processes() []process {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var all []process
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// The name stands in parentheses and may hold any byte.
		end := bytes.LastIndexByte(stat, ')')
		number, name, _ := strings.Cut(string(stat[:end]), " (")
		fields := strings.Fields(string(stat[end+1:]))
		cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		p := process{state: fields[0], start: fields[19], name: name}
		p.pid, _ = strconv.Atoi(number)
		p.parent, _ = strconv.Atoi(fields[1])
		p.args = strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
		all = append(all, p)
	}
	return all
}

// lookProcesses sees this process's children, their children and so on. A zombie counts: nobody waited for it. What an engine of the
// tests' own starts is its own affair: tests may start that again.
func lookProcesses(seen map[string]string) {
	children := map[int][]process{}
	for _, p := range processes() {
		children[p.parent] = append(children[p.parent], p)
	}
	var descend func(pid int)
	descend = func(pid int) {
		for _, p := range children[pid] {
			seen[p.key()] = p.String()
			if p.args[0] != private.Name {
				descend(p.pid)
			}
		}
	}
	descend(os.Getpid())
}

// podmanHelpers returns the processes that podman keeps beside the containers of this library. They are children of process 1,
// and the ones of a client that was killed at the wrong moment stay for ever while podman knows nothing of them.
func podmanHelpers(e Engine) []process {
	if e.Kind != dockercli.Podman {
		return nil
	}
	return slices.DeleteFunc(processes(), func(p process) bool {
		return p.name != "conmon" || !strings.HasPrefix(option(p.args, "-n"), "cofferdam")
	})
}

func option(args []string, name string) string {
	if i := slices.Index(args, name); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

func lookDescriptors(seen map[string]string) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, entry := range entries {
		target, err := os.Readlink("/proc/self/fd/" + entry.Name())
		// The directory that was just read is closed again, and the runtime keeps what it polls with.
		if err != nil || target == "anon_inode:[eventpoll]" || target == "anon_inode:[eventfd]" {
			continue
		}
		key := fmt.Sprintf("descriptor %s: %s", entry.Name(), target)
		seen[key] = key
	}
}

func lookFiles(seen map[string]string, temp string) {
	filepath.WalkDir(temp, func(path string, _ fs.DirEntry, err error) error {
		if path != temp {
			seen["file "+path] = "file " + path
		}
		return nil
	})
}

func lookGoroutines(seen map[string]string) {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	all := strings.Split(string(stacks), "\n\n")
	for _, stack := range all[1:] { // the first is this one
		if strings.Contains(stack, "gotest.tools/v3/poll.") || strings.Contains(stack, "os/signal.loop(") {
			continue
		}
		number, _, _ := strings.Cut(stack, " [")
		seen[number] = stack
	}
}
