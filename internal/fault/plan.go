//go:build linux

package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// A plan is what one round does. It follows from the round's seed alone.
type plan struct {
	seed     uint64
	settings settings
	programs []*program
	ending   *ending
	// after is how long after the command's begin its end comes.
	after time.Duration
	// early says that an engine that goes away comes back while it is waited for.
	early bool
	// guard says what becomes of the program's guard before the end.
	guard fate
}

// A fate is what becomes of a guard.
type fate string

const (
	killed  fate = "killed"
	stopped fate = "stopped"
)

// settings are those of a session. A number of rounds in a row have the same, so that
// they may share one.
type settings struct {
	shell  string // the worker; empty is bash
	memory int64
	pids   int64
	// engineSeccomp takes the engine's filter of system calls, under which programs can
	// change the priority of process 1: what is left when the first line of defence does
	// not hold.
	engineSeccomp bool
	// keepAlive takes the engine's client for the session, and a keep-alive that no round
	// is long enough for.
	keepAlive bool
	// egress gives the session a way out. Each round's command calls it, again and again.
	egress bool
}

// sameSettings is the number of rounds in a row that have the same settings.
const sameSettings = 8

func newSettings(seed uint64) settings {
	r := rand.New(rand.NewPCG(seed/sameSettings, 1))
	s := settings{
		shell:  pick(r, []string{"", "", "dash", "busybox sh"}),
		memory: pick(r, []int64{64, 96, 128}) << 20,
		pids:   pick(r, []int64{64, 128, 256, 256}),
	}
	s.engineSeccomp = r.IntN(2) == 0
	s.keepAlive, s.egress = r.IntN(4) == 0, r.IntN(4) == 0
	return s
}

func (s settings) String() string {
	text := fmt.Sprintf("%s, %d MiB, %d processes", cmp.Or(s.shell, "bash"), s.memory>>20, s.pids)
	for _, more := range []struct {
		set  bool
		name string
	}{{s.engineSeccomp, "the engine's filter"}, {s.keepAlive, "keep-alive"}, {s.egress, "egress"}} {
		if more.set {
			text += ", " + more.name
		}
	}
	return text
}

func newPlan(seed uint64, set settings, programs []*program, endings []*ending) plan {
	r := rand.New(rand.NewPCG(seed, 0))
	p := plan{seed: seed, settings: set, ending: pick(r, endings), guard: newFate(seed)}
	if p.settings.engineSeccomp && p.guard != "" {
		// A process 1 without time does not read the end of its stdin, and without the
		// guard nothing is left that ends it: EngineSeccomp says so.
		programs = filter(programs, func(p *program) bool { return !p.starves })
	}
	for range pick(r, []int{1, 1, 1, 2, 2, 3}) {
		p.programs = append(p.programs, pick(r, programs))
	}
	if r.IntN(controls) == 0 {
		p.programs = []*program{pick(r, filter(programs, func(p *program) bool { return p.obeys }))}
		p.ending = pick(r, filter(endings, func(e *ending) bool { return e.timed }))
	}
	p.after = time.Duration(20+r.IntN(380)) * time.Millisecond
	p.early = r.IntN(2) == 0
	return p
}

// newFate returns what becomes of the guard in a round. It is nothing in the first half
// of the rounds that may share a session: a session's guard that is gone does not come
// back for the next round.
func newFate(seed uint64) fate {
	if seed%sameSettings < sameSettings/2 {
		return ""
	}
	r := rand.New(rand.NewPCG(seed/sameSettings, 2))
	return pick(r, []fate{killed, killed, killed, stopped})
}

// One round in so many is of a program that obeys SIGTERM and of an ending with a time:
// the others seldom are, and a median takes some.
const controls = 8

func filter[T any](from []T, fits func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(from), func(v T) bool { return !fits(v) })
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func (p plan) String() string {
	var names []string
	for _, prog := range p.programs {
		names = append(names, prog.name)
	}
	text := fmt.Sprintf("%s / %s after %v (%s)", strings.Join(names, " + "), p.ending.name, p.after,
		p.settings)
	if p.guard != "" {
		text += ", guard " + string(p.guard)
	}
	return text
}

// any reports whether one of the programs is of that kind.
func (p plan) any(is func(*program) bool) bool {
	for _, prog := range p.programs {
		if is(prog) {
			return true
		}
	}
	return false
}

// needs reports whether the image must have a program.
func (p plan) needs(name string) bool {
	return strings.Fields(p.settings.shell + " bash")[0] == name ||
		p.any(func(prog *program) bool { return prog.needs == name })
}

// beside returns the programs that run as jobs, or the others.
func (p plan) beside(job bool) []*program {
	return filter(p.programs, func(prog *program) bool { return prog.job == job })
}

// alone reports whether the programs are but one, that ends by itself and is waited for.
func (p plan) alone() bool { return p.ending.own && len(p.programs) == 1 && p.programs[0].ends }

// goneLate returns an error if what a killed program left took too long to go, and none
// of the round's programs may have kept process 1 from its time or from the end of its
// stdin. stood is for how long the suite itself could not run.
func (p plan) goneLate(took, stood time.Duration) error {
	bound := goneBound + slack + stood
	if p.ending.starts {
		bound += shellTimeout // its container may only come into being then
	}
	hindered := p.settings.egress || p.any(func(prog *program) bool {
		return prog.own != nil || prog.starves || prog.idles || prog.hinders
	})
	if !p.ending.alone || p.ending.away || hindered || took <= bound {
		return nil
	}
	return fmt.Errorf("what the killed program left took %v to go, allowed are %v", took, bound)
}

// callOut asks the way out for what it refuses, until nobody listens there any more.
const callOut = "(while echo 'CONNECT 192.0.2.2:443 HTTP/1.1' | /bin/busybox nc 127.0.0.1 3128; do :; done) >/dev/null 2>&1 &\n"

// script returns what the session's worker runs: all but the last program in the
// background, if they don't end by themselves, and the last one as the ending wants it.
func (p plan) script() string {
	var b strings.Builder
	if p.settings.egress {
		b.WriteString(callOut)
	}
	background := func(prog *program) {
		b.WriteString("(" + prog.script + "\n) &\n")
		if p.ending.own && prog.hinders {
			b.WriteString("/bin/sleep 0.5\n") // until it is ready for a transfer
		}
	}
	programs := p.beside(false)
	if len(programs) == 0 {
		programs = []*program{{script: "/bin/sleep 1000"}}
	}
	last := len(programs) - 1
	for i, prog := range programs {
		switch {
		case prog.ends && i == last && p.ending.own:
			b.WriteString(prog.script)
		case prog.ends:
			b.WriteString(prog.script + "\n")
		case i < last, p.ending.own:
			background(prog)
		case p.ending.flood && !prog.floods:
			background(prog)
		default:
			b.WriteString(prog.script)
		}
	}
	switch prog := programs[last]; {
	case prog.ends && p.ending.own:
	case p.ending.own:
		b.WriteString("/bin/sleep 0.1")
	case p.ending.flood && !prog.floods:
		b.WriteString("/bin/cat /dev/zero")
	case prog.ends:
		b.WriteString("/bin/sleep 1000")
	}
	return b.String()
}
