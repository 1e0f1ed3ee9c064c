//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// tunables are what a kubelet wants of the machine's kernel.
var tunables = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// privateMounts makes this process's mount namespace fit for a process 1. Whatever is
// mounted here is seen by nobody outside, and ends with the namespace.
func privateMounts() error {
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	// A copy would hold what the machine's engines have mounted, and a node's what
	// another has.
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	lines := strings.Split(string(mounts), "\n")
	slices.Reverse(lines)
	for _, line := range lines {
		words := strings.Fields(line)
		if len(words) > 1 && isHidden(words[1]) {
			_ = syscall.Unmount(words[1], syscall.MNT_DETACH)
		}
	}
	for _, dir := range hidden {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("mounting %s: %w", dir, err)
		}
	}
	// The kubelet reads these, finds what it wants, and leaves the machine's as they are.
	for name, value := range tunables {
		file := "/run/tunables/" + name
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		err := syscall.Mount(file, "/proc/sys/"+name, "", syscall.MS_BIND, "")
		if err != nil {
			return fmt.Errorf("covering %s: %w", name, err)
		}
	}
	return nil
}

// hidden are the directories of which each process 1 has its own.
var hidden = []string{"/run", "/var/lib", "/var/log"}

// isHidden reports whether a path is one of them or below one.
func isHidden(path string) bool {
	return slices.ContainsFunc(hidden, func(dir string) bool {
		return path == dir || strings.HasPrefix(path, dir+"/")
	})
}

// processors is how many of them a node believes to have. Pods ask for whole ones, and
// wait most of their time.
const processors = 16

// pretendProcessors has the kubelet count more processors than the machine has. Nobody
// else sees it: a pod has a /sys of its own.
func pretendProcessors() error {
	const system = "/sys/devices/system/"
	for _, dir := range []string{"node", "cpu"} {
		if err := syscall.Mount("tmpfs", system+dir, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("mounting %s: %w", system+dir, err)
		}
	}
	for i := range processors {
		if err := os.Mkdir(fmt.Sprintf("%scpu/cpu%d", system, i), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// makeCgroup makes a cgroup, in every hierarchy where there are several.
func makeCgroup(name string) error {
	roots := []string{"/sys/fs/cgroup"}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		roots, _ = filepath.Glob("/sys/fs/cgroup/*") // it fails for bad patterns only
	}
	for _, root := range roots {
		if info, err := os.Lstat(root); err != nil || !info.IsDir() {
			continue // a link from one controller of a hierarchy to another
		}
		dir := root
		for _, part := range strings.Split(name, "/") {
			parent := dir
			dir = filepath.Join(dir, part)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			// A new cpuset is empty, and then takes no process.
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				value, err := os.ReadFile(filepath.Join(parent, file))
				if err != nil || root == "/sys/fs/cgroup" {
					continue
				}
				err = os.WriteFile(filepath.Join(dir, file), value, 0o644)
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// errEnded says that there is nothing to wait for.
var errEnded = errors.New("it has ended")

// await asks until the answer is no error or errEnded, or a minute has passed.
func await(ask func() error) error {
	deadline := time.Now().Add(time.Minute)
	for {
		err := ask()
		if err == nil || errors.Is(err, errEnded) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
