// Package fakeengine is a test binary that poses as docker or podman, so that tests can
// have an engine where there is none, and one that does what a real engine can't be made
// to do.
//
// The TestMain of a package that uses it calls [Main] first. [New] then makes an engine
// whose program is a link to the test binary. Its containers are processes of this
// machine: the command is process 1 of namespaces of its own, in a root of its own in
// which the machine's /usr and /etc are read-only. What the engines' command lines take
// is taken, and answered in their words; limits of memory, processor and processes are
// taken and not enforced. Whatever is asked for, a container gets no host network when it
// is told none, no device, no capability that the engines don't give by default, and no
// process namespace but its own.
//
// Without root's rights each container has a user namespace too, in which its user is
// this process's and nobody else is known, and exec takes nsenter.
//
// Which image is asked for makes no difference: there is one. The engine has it, whatever
// its name, unless a fault says otherwise.
package fakeengine

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
)

const (
	// stateVar names the state directory in the client's environment.
	stateVar = "COFFERDAM_FAKE_ENGINE"

	// promptExit lets a client that was built with the race detector end when it has
	// ended. It would wait for a second otherwise.
	promptExit = "GORACE=atexit_sleep_ms=0"
)

// ready says that Main was called. Without it each client would be one more run of the
// tests.
var ready bool

// Main takes over, and does not return, if this process was started as an engine's
// client. It has to come before anything else in TestMain.
func Main() {
	if kind, ok := posing(os.Args[0]); ok {
		os.Exit(pose(kind))
	}
	ready = true
}

func posing(program string) (dockercli.Kind, bool) {
	switch strings.TrimSuffix(filepath.Base(program), ".exe") {
	case "docker":
		return dockercli.Docker, true
	case "podman":
		return dockercli.Podman, true
	}
	return 0, false
}

// An Engine is a fake engine and the state that its clients share.
type Engine struct {
	// Engine is what the code under test is given. Its Env is this process's, with the
	// state directory beside it: a client that loses it fails with 125.
	*dockercli.Engine

	tb       testing.TB
	state    state
	patience leftover.Patience // with what should be gone when the test ends
}

// New returns an engine of its own, without containers. When the test ends, what is left
// of the engine's containers and processes is killed, and fails the test, if it does not
// go by itself within a minute: the library promises two seconds, and the rest is for a
// busy machine.
func New(tb testing.TB, kind dockercli.Kind, faults Faults) *Engine {
	tb.Helper()
	if !ready {
		tb.Fatal("fakeengine: TestMain has to call fakeengine.Main first")
	}
	dir := tb.TempDir()
	program, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	link := filepath.Join(dir, kind.String())
	if runtime.GOOS == "windows" {
		link += ".exe"
	}
	if err := os.Symlink(program, link); err != nil {
		tb.Fatal(err)
	}
	e := &Engine{
		Engine: &dockercli.Engine{
			Path:          link,
			Env:           append(os.Environ(), stateVar+"="+dir, promptExit),
			Kind:          kind,
			ClientVersion: versions[kind].client,
			ServerVersion: versions[kind].server,
			Socket:        sockets[kind],
			MissingLimits: []string{},
		},
		tb:       tb,
		state:    state(dir),
		patience: leftover.Patient,
	}
	if err := e.state.init(); err != nil {
		tb.Fatal(err)
	}
	e.Set(faults)
	tb.Cleanup(e.close)
	return e
}

// Set replaces the faults, from now on, even for clients and containers that run.
func (e *Engine) Set(faults Faults) {
	e.tb.Helper()
	if err := faults.check(); err != nil {
		e.tb.Fatal(err)
	}
	e.setControl(control{Faults: faults})
}

func (e *Engine) setControl(c control) {
	e.tb.Helper()
	c.Base = e.state.lastCall()
	if err := e.state.write(controlFile, c); err != nil {
		e.tb.Fatal(err)
	}
}

// Calls returns the words after the program of every call of a client so far, the oldest
// first.
func (e *Engine) Calls() [][]string {
	e.tb.Helper()
	var calls [][]string
	for n := 1; ; n++ {
		data, err := os.ReadFile(e.state.call(n))
		if err != nil {
			return calls
		}
		var call []string
		if err := json.Unmarshal(data, &call); err != nil {
			e.tb.Fatal(err)
		}
		calls = append(calls, call)
	}
}

// Add makes a container that has ended, without a call of a client and without a process.
func (e *Engine) Add(name string, labels map[string]string) {
	e.tb.Helper()
	r, err := e.state.create(spec{ID: newID(), Name: name, Labels: labels})
	if err != nil {
		e.tb.Fatal(err)
	}
	defer r.root.Close()
	now := time.Now()
	if err := r.set(status{Status: "exited", StartedAt: now, FinishedAt: now}); err != nil {
		e.tb.Fatal(err)
	}
}

// Containers returns the names of all containers, running or not, without a call of a
// client.
func (e *Engine) Containers() []string {
	var names []string
	for _, c := range e.state.containers() {
		names = append(names, c.Name)
	}
	return names
}

// Pid returns the number that the container's process 1 has on this machine, or 0 if it
// does not run.
func (e *Engine) Pid(name string) int {
	if c, ok := e.state.find(name); ok && c.status().Process.alive() {
		return c.status().Process.Pid
	}
	return 0
}

// Processes describes the processes of the engine that run: clients, the ones that stand
// for the engine's daemon, and each container's process 1. On systems other than Linux
// none is seen.
func (e *Engine) Processes() []string {
	var running []string
	for _, p := range e.processes() {
		running = append(running, p.String())
	}
	return running
}

func (e *Engine) processes() []process {
	all := withEnvironment(stateVar + "=" + string(e.state))
	for _, c := range e.state.containers() {
		if p := c.status().Process; p.alive() {
			all = append(all, p)
		}
	}
	return all
}

func (e *Engine) close() {
	e.setControl(control{Closing: true})
	var left string
	gone := func() bool {
		var all []string
		for _, name := range e.Containers() {
			all = append(all, "container "+name)
		}
		left = strings.Join(append(all, e.Processes()...), "\n")
		return left == ""
	}
	if e.patience.Until(gone) {
		return
	}
	e.tb.Errorf("the fake engine has left:\n%s", left)
	for _, p := range e.processes() {
		p.kill()
	}
	if !leftover.Patient.Until(func() bool {
		for _, c := range e.state.containers() {
			_ = e.state.destroy(c)
		}
		return gone()
	}) {
		e.tb.Errorf("killed, and still there:\n%s", left)
	}
}

// NeedIsolation skips the test where a container can't be had, with the reason.
func NeedIsolation(tb testing.TB) {
	tb.Helper()
	if err := isolation(); err != nil {
		leftout.Skip(tb, "the fake engine can't isolate here: %v", err)
	}
}

// CanIsolate reports whether the engine can run containers here: it takes Linux, and the
// right to make namespaces. Where it can't, run fails as it does when a real engine's
// runtime fails, and everything else works.
func CanIsolate() bool { return isolation() == nil }

// String is for messages.
func (p process) String() string { return fmt.Sprintf("process %d (%s)", p.Pid, p.name) }
