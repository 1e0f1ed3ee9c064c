package main

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// watchMemory returns a function that says by how many bytes the process's resident
// memory has been larger since at its highest.
func watchMemory() (growth func() int64) {
	debug.FreeOSMemory()
	// The kernel's high-water mark falls to what is in use now. Where it does not, growth
	// beyond the old mark is still seen.
	os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
	before := peak()
	return func() int64 { return peak() - before }
}

// peak returns the high-water mark of resident memory.
func peak() int64 {
	status, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(status), "\nVmHWM:")
	line, _, _ := strings.Cut(after, " kB\n")
	kib, _ := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	return kib << 10
}
