package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
)

// resetPeak gives back what memory this process does not need, makes the kernel forget
// its peak, and returns what is left. It needs Linux.
func resetPeak() (int64, error) {
	debug.FreeOSMemory()
	// 5 is the kernel's number for the peak: see proc(5).
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return 0, err
	}
	return peakMemory()
}

// peakMemory returns the most memory that this process has had since resetPeak.
func peakMemory() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	value, _, ok := bytes.Cut(rest, []byte("kB"))
	n, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
	if !ok || err != nil {
		return 0, fmt.Errorf("/proc/self/status does not tell the peak of the memory: %w", err)
	}
	return n << 10, nil
}
