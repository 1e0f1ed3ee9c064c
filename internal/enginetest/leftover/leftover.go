// Package leftover finds what a program leaves behind: goroutines, descriptors,
// processes, temporary files, containers, and podman's helpers of cofferdam's containers
// that are gone. Processes and descriptors are seen on Linux only.
package leftover

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
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/private"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/rootless"
)

const (
	// Timeout is how long leftovers may take to go. The library promises two seconds; the
	// rest is for a busy machine.
	Timeout = time.Minute

	// listTimeout is for an engine to name, make or remove containers, on a busy machine.
	listTimeout = time.Minute
)

// An Engine is an engine with the labels of the containers to look for.
type Engine struct {
	*dockercli.Engine
	Labels map[string]string
}

// Look describes everything that could be left behind, below the directory temp too,
// under names that stay the same from one look to the next.
func Look(temp string, engines ...Engine) map[string]string {
	seen := map[string]string{}
	// The engines come first: asking them takes processes, descriptors and goroutines.
	for _, e := range engines {
		maps.Copy(seen, e.Look())
		maps.Copy(seen, e.Helpers())
	}
	maps.Copy(seen, LookHere(temp))
	return seen
}

// LookHere is Look at what no engine has to be asked for.
func LookHere(temp string) map[string]string {
	seen := map[string]string{}
	lookProcesses(seen)
	lookDescriptors(seen)
	lookFiles(seen, temp)
	lookGoroutines(seen)
	return seen
}

// Look describes the containers with the engine's labels.
func (e Engine) Look() map[string]string {
	seen := map[string]string{}
	for _, name := range e.Containers() {
		seen["container "+name] = fmt.Sprintf("container %s of %s", name, e.Kind)
	}
	return seen
}

// helper begins the description of a podman's helper.
const helper = "helper"

// Helpers describes the helpers of podman whose containers are gone. The engine is asked
// only if there are helpers.
func (e Engine) Helpers() map[string]string {
	helpers := podmanHelpers(e)
	if len(helpers) == 0 {
		return nil
	}
	seen := map[string]string{}
	known := e.List("ps", "--all", "--quiet", "--no-trunc")
	for _, h := range helpers {
		if id := option(h.Args, "-c"); !slices.Contains(known, id) {
			seen[h.Key()] = fmt.Sprintf("%s without a container: %s", helper, h)
		}
	}
	return seen
}

// Containers returns the names of the containers with the engine's labels, and a line
// that says so if the engine fails.
func (e Engine) Containers() []string {
	if len(e.Labels) == 0 {
		panic("leftover: without a label these would be all containers of the machine")
	}
	args := []string{"ps", "--all", "--format={{.Names}}"}
	for k, v := range e.Labels {
		args = append(args, "--filter=label="+k+"="+v)
	}
	return e.List(args...)
}

// Remove removes the containers with the engine's labels.
func (e Engine) Remove() {
	for _, name := range e.Containers() {
		args := []string{"rm", "--force"}
		if e.Kind == dockercli.Podman {
			args = append(args, "--time=0")
		}
		e.List(append(args, name)...)
	}
}

// List runs the engine and returns the words that it prints. A failure is a word, too,
// and so fails the test.
func (e Engine) List(args ...string) []string {
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

// A Process is one of the host's.
type Process struct {
	PID, Parent int
	// Start is in clock ticks since the machine's start. It tells apart two processes of
	// one number.
	Start       string
	State, Name string
	Args        []string
}

// Key returns what no other process has.
func (p Process) Key() string { return fmt.Sprintf("process %d %s", p.PID, p.Start) }

func (p Process) String() string {
	return fmt.Sprintf("process %d (%s, state %s): %q", p.PID, p.Name, p.State, p.Args)
}

// StatOf returns the fields of a process's /proc/PID/stat. The first two, its number and
// its name, are empty. There are no others if it has ended.
func StatOf(pid int) []string {
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	// The name stands in parentheses and may hold any byte.
	return append([]string{"", ""}, strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))...)
}

// StartOf returns when a process has started, or nothing where that is not known.
func StartOf(pid int) string {
	if stat := StatOf(pid); len(stat) > 21 {
		return stat[21]
	}
	return ""
}

// Processes returns all of the host's.
func Processes() []Process {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var all []Process
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
		p := Process{State: fields[0], Start: fields[19], Name: name}
		p.PID, _ = strconv.Atoi(number)
		p.Parent, _ = strconv.Atoi(fields[1])
		p.Args = strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
		all = append(all, p)
	}
	return all
}

// lookProcesses sees this process's children, their children and so on. A zombie counts:
// nobody waited for it. What an engine of the tests' own starts is its own affair: tests
// may start that again.
func lookProcesses(seen map[string]string) {
	children := map[int][]Process{}
	for _, p := range Processes() {
		children[p.Parent] = append(children[p.Parent], p)
	}
	var descend func(pid int)
	descend = func(pid int) {
		for _, p := range children[pid] {
			seen[p.Key()] = p.String()
			if p.Args[0] != private.Name {
				descend(p.PID)
			}
		}
	}
	descend(os.Getpid())
}

// podmanHelpers returns the processes that podman keeps beside the containers of this
// library. They are children of process 1, and the ones of a client that was killed at
// the wrong moment stay for ever while podman knows nothing of them.
func podmanHelpers(e Engine) []Process {
	if e.Kind != dockercli.Podman || e.Remote {
		return nil // none of this machine's
	}
	// A podman of the tests' own knows its own only, and nobody else knows them.
	own := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(word, rootless.Prefix) })
	}
	return slices.DeleteFunc(Processes(), func(p Process) bool {
		if p.Name != "conmon" || !strings.HasPrefix(option(p.Args, "-n"), "cofferdam") || own(p.Args...) != own(e.Path) {
			return true
		}
		// Nor does a podman know those of other users.
		return !own(e.Path) && p.user() != strconv.Itoa(os.Geteuid())
	})
}

// user returns the number of the process's effective user, or nothing if it has ended.
func (p Process) user() string {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
	_, rest, _ := strings.Cut(string(status), "\nUid:\t")
	ids := strings.Fields(rest)
	if len(ids) < 2 {
		return ""
	}
	return ids[1]
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
		// The directory that was just read is closed again, and the runtime keeps what it
		// polls with.
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
		if strings.Contains(stack, "os/signal.loop(") {
			continue
		}
		number, _, _ := strings.Cut(stack, " [")
		seen[number] = stack
	}
}
