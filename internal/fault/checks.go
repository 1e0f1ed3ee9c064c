//go:build linux

package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
)

// markerVar is the environment variable by which all processes that come from the suite
// are known.
const markerVar = "COFFERDAM_FAULT"

// A scene is what there is at one moment of what could be left behind.
type scene map[string]string

// look looks at everything that is the suite's.
func (s *suite) look() scene {
	var engines []leftover.Engine
	if s.pods == nil {
		engines = append(engines, s.labeled)
	}
	seen := leftover.Look(s.temp, engines...)
	if s.pods != nil {
		s.lookPods(seen)
	}
	for _, p := range marked(s.id) {
		seen[p.Key()] = p.String()
	}
	// What measures the suite's own time goes on while it looks.
	maps.DeleteFunc(seen, func(key, what string) bool {
		return strings.HasPrefix(key, "goroutine ") && strings.Contains(what, ".standstill.")
	})
	return seen
}

// settle waits until nothing is there that was not there before, nor any process of the
// containers. It returns what stays, and how long the last of the rest took to go.
func (s *suite) settle(p leftover.Patience, before scene, containers ...string) (left []string, took time.Duration) {
	began := time.Now()
	left = p.Settle(before, func() map[string]string {
		now := s.look()
		for _, id := range containers {
			for _, p := range processesIn(id) {
				now[p.Key()] = p.String()
			}
		}
		return now
	})
	return left, time.Since(began)
}

// all returns the processes, but this one, that have the suite's mark in their
// environments: what it started, and what they started.
func all(id string) []leftover.Process {
	mark := []byte(markerVar + "=" + id)
	return slices.DeleteFunc(leftover.Processes(), func(p leftover.Process) bool {
		environ, _ := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/environ")
		marked := slices.ContainsFunc(bytes.Split(environ, []byte{0}), func(kv []byte) bool { return bytes.Equal(kv, mark) })
		// Podman without root has one process of its own for all that it does.
		return !marked || p.PID == os.Getpid() || p.Name == "podman pause"
	})
}

// marked is all without the guards of killed programs, which live for some seconds, and
// what those do.
func marked(id string) []leftover.Process {
	found := all(id)
	parents, guards := map[int]int{}, map[int]bool{}
	for _, p := range found {
		parents[p.PID] = p.Parent
		guards[p.PID] = slices.Contains(p.Args, "cofferdam-guard") || slices.Contains(p.Args, "cofferdam-fifos")
	}
	return slices.DeleteFunc(found, func(p leftover.Process) bool {
		// Numbers may have been used again since, and lead in a circle.
		for pid, steps := p.PID, 0; pid != 0 && steps < len(found); pid, steps = parents[pid], steps+1 {
			if guards[pid] {
				return true
			}
		}
		return false
	})
}

// processesIn returns the processes of the container with that ID, by their cgroups or,
// if its engine makes none, by its process namespace.
func processesIn(id string) []leftover.Process {
	namespace := namespaces[id]
	return slices.DeleteFunc(leftover.Processes(), func(p leftover.Process) bool {
		if namespace != "" {
			return namespaceOf(p) != namespace
		}
		cgroups, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/cgroup")
		return err != nil || !strings.Contains(string(cgroups), id)
	})
}

// aliveIn is processesIn without what has ended and the engine's own processes, which are
// outside.
func aliveIn(id string) []leftover.Process {
	outside := namespaceOf(leftover.Process{PID: os.Getpid()})
	return slices.DeleteFunc(processesIn(id), func(p leftover.Process) bool {
		namespace := namespaceOf(p)
		return p.State == "Z" || namespace == outside || namespace == ""
	})
}

// namespaces are the process namespaces of the containers that have no cgroups of their
// own, by their IDs.
var namespaces = map[string]string{}

// findNamespace notes the process namespace of a running container without cgroups. Its
// process 1 bears the container's name as its last word, and so may clients outside.
func findNamespace(id, name string) {
	outside := namespaceOf(leftover.Process{PID: os.Getpid()})
	for _, p := range leftover.Processes() {
		if n := len(p.Args); n == 0 || p.Args[n-1] != name {
			continue
		}
		if namespace := namespaceOf(p); namespace != outside {
			namespaces[id] = namespace
		}
	}
}

// namespaceOf returns the process namespace of a process; empty if that is gone.
func namespaceOf(p leftover.Process) string {
	name, _ := os.Readlink("/proc/" + strconv.Itoa(p.PID) + "/ns/pid")
	return name
}

// peak returns the most memory that this process has had, in bytes.
func peak() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	value, _, ok := strings.Cut(rest, "kB")
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if !ok || err != nil {
		return 0, fmt.Errorf("/proc/self/status does not tell the peak of the memory: %w", err)
	}
	return n << 10, nil
}
