//go:build linux

package main

import (
	"os"
	"slices"
	"syscall"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
)

// guardsOf returns the guards that a program has started and that live.
func guardsOf(pid int) []leftover.Process {
	return slices.DeleteFunc(leftover.Processes(), func(p leftover.Process) bool {
		return p.Parent != pid || p.State == "Z" || !slices.Contains(p.Args, "cofferdam-guard")
	})
}

// strike kills or stops the guards of a program as the plan says, and returns once they
// are dead or stopped. If guarded, the program must have one. A session that has just
// begun may start another in the place of one that was killed, which is struck, too.
func (r *round) strike(pid int, guarded bool) {
	if r.guard == "" {
		return
	}
	r.count()
	if o := r.suite.open; o != nil && pid == os.Getpid() {
		o.struck = true
	}
	if guarded && len(guardsOf(pid)) == 0 {
		r.wrong("the program has no guard to be %s", r.guard)
	}
	signal := syscall.SIGKILL
	if r.guard == stopped {
		signal = syscall.SIGSTOP
	}
	if !leftover.Patient.Until(func() bool {
		goesOn := false
		for _, g := range guardsOf(pid) {
			if g.State == "T" && r.guard == stopped {
				continue
			}
			goesOn = true
			if r.guard == stopped {
				r.suite.stopped = append(r.suite.stopped, g)
			}
			if err := syscall.Kill(g.PID, signal); err != nil && err != syscall.ESRCH {
				r.wrong("the guard could not be %s: %v", r.guard, err)
			}
		}
		return !goesOn
	}) {
		r.wrong("a guard goes on that was to be %s", r.guard)
	}
}

// count counts the round among those whose guard was struck.
func (r *round) count() {
	if r.suite.stats.guards == nil {
		r.suite.stats.guards = map[fate]int{}
	}
	r.suite.stats.guards[r.guard]++
}

// letGo lets the guards go on that were stopped and still are: what they do by then must
// harm nobody.
func (s *suite) letGo() {
	for _, p := range leftover.Processes() {
		if slices.ContainsFunc(s.stopped, func(g leftover.Process) bool { return g.Key() == p.Key() }) {
			syscall.Kill(p.PID, syscall.SIGCONT)
		}
	}
	s.stopped = nil
}
