package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// A process is one of the host, at some moment.
type process struct {
	pid, parent int
	args        []string
}

// processes returns those of the host that this program can see. It needs Linux.
func processes() ([]process, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var all []process
	for _, dir := range dirs {
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue // it has ended
		}
		// The name before the last parenthesis may hold anything.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		args, err := os.ReadFile(dir + "/cmdline")
		if err != nil || len(fields) < 2 || fields[0][0] == 'Z' {
			continue
		}
		p := process{args: strings.Split(strings.TrimSuffix(string(args), "\x00"), "\x00")}
		p.pid, _ = strconv.Atoi(filepath.Base(dir))
		p.parent, _ = strconv.Atoi(string(fields[1]))
		all = append(all, p)
	}
	return all, nil
}

// below returns those of all that are a root or descend from one.
func below(all []process, roots map[int]bool) []process {
	children := map[int][]process{}
	var found []process
	for _, p := range all {
		if roots[p.pid] {
			found = append(found, p)
		} else {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].pid]...)
	}
	return found
}

// resident returns the memory that a process has, shared or not, in bytes; zero if it has
// ended.
func resident(pid int) int64 {
	statm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	fields := strings.Fields(string(statm))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// proportional returns the memory that a process has, with its share of what others have
// too, in bytes. It needs the right to trace the process.
func proportional(pid int) (int64, error) {
	rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(rollup), "\nPss:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0, fmt.Errorf("the kernel does not tell what memory process %d has", pid)
	}
	kb, err := strconv.ParseInt(fields[0], 10, 64)
	return kb << 10, err
}

// processor returns what the kernel calls the machine's processors, and how many there
// are.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	_, rest, _ := strings.Cut(string(text), "model name")
	name, _, _ := strings.Cut(rest, "\n")
	return fmt.Sprintf("%d x %s", runtime.NumCPU(), strings.Trim(name, "\t: "))
}

// ownSleep returns a number of seconds for which nobody else sleeps.
func ownSleep() string { return strconv.Itoa(1_000_000_000 + rand.IntN(1_000_000_000)) }

// runningSleeps returns how many processes of the host are a sleep of so many seconds.
func runningSleeps(seconds string) (int, error) {
	all, err := processes()
	n := 0
	for _, p := range all {
		if i := slices.Index(p.args, seconds); i > 0 && filepath.Base(p.args[i-1]) == "sleep" {
			n++
		}
	}
	return n, err
}
