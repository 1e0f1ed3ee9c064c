package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

const (
	// maxSessions is as many as scale starts, if the memory suffices.
	maxSessions = 300
	// minFree is the memory that scale leaves to the machine, in bytes.
	minFree = 4 << 30
	// busyBytes is what a busy session has printed: more than it keeps.
	busyBytes   = 4 << 20
	starters    = 2 // at a time, as a pool does
	scaleRounds = 4
	scaleStarts = 6
	// roughly is the memory that a session takes for all that is known before the first.
	roughly = 16 << 20
)

// scale holds the cost of many sessions against that of as many containers that the
// engine's client runs beforehand: memory, processes, and what they take of this program.
// Memory is what the kernel tells as proportional, of this program and its clients, of
// the shims and of what runs inside; it needs root. An idle session waits for a command,
// and a busy one runs a command that has printed more than is kept. The daemons of the
// engine are counted too, whose memory is what they happen to have.
//
// Starts are counted per second, two at a time, until each could run a command, and with
// their ends; beside them are those of containers that the client runs.
func scale(ctx context.Context, p execpolicy.DockerPolicy, t *table) (err error) {
	none, err := takeCensus(p, nil)
	if err != nil {
		return err
	}
	sessions := make([]*execpolicy.Session, 0, maxSessions)
	defer func() {
		err = errors.Join(err, inParallel(len(sessions), starters, func(i int) error { return sessions[i].Close() }))
	}()
	levels := []int{1, 10, 100, maxSessions}
	if short {
		levels = levels[:2]
	}
	each := int64(roughly)
	for _, n := range levels {
		n = min(n, int((freeMemory()-minFree)/each))
		if n <= len(sessions) && n < 1 {
			return fmt.Errorf("less than %s of memory is free", mib(minFree+each))
		}
		if n <= len(sessions) {
			fmt.Fprintf(t.w, "    there is memory for no more than %d\n", n)
			break
		}
		bare, err := bareCost(ctx, p, n)
		if err != nil {
			return err
		}
		more := make([]*execpolicy.Session, n-len(sessions))
		begin := time.Now()
		err = inParallel(len(more), starters, func(i int) (err error) {
			more[i], err = execpolicy.Start(ctx, p, execpolicy.Spec{})
			return err
		})
		took := time.Since(begin)
		for _, s := range more {
			if s != nil {
				sessions = append(sessions, s)
			}
		}
		if err != nil {
			return err
		}
		idle, err := takeCensus(p, sessions)
		if err != nil {
			return err
		}
		busy, err := busyCensus(ctx, p, sessions)
		if err != nil {
			return err
		}
		each = max(idle.less(none).per(n).memory, 1)
		reportCensus(t, n, "idle", idle.less(none).per(n), bare)
		reportCensus(t, n, "busy", busy.less(none).per(n), bare)
		if err := startRate(ctx, p, t, n, float64(len(more))/took.Seconds()); err != nil {
			return err
		}
	}
	return nil
}

// A census is what sessions take, together or each.
type census struct {
	memory                             int64 // of all but the daemons
	processes, descriptors, goroutines float64
	byProgram                          map[string]int64 // memory, of the daemons too
}

// reportCensus prints what each of n sessions takes. The guard, of which there is one,
// counts too much for a single session.
func reportCensus(t *table, n int, state string, each, bare census) {
	name := fmt.Sprintf("%d %s, each", n, state)
	ours := fmt.Sprintf("%s, %.1f processes", mib(each.memory), each.processes)
	theirs := fmt.Sprintf("%s, %.1f processes, run -i", mib(bare.memory), bare.processes)
	r := ratio{value: float64(each.memory) / float64(bare.memory)}
	if n == 1 {
		t.print(name, ours, theirs, "", "", r)
	} else {
		t.line(name, ours, theirs, "at most 1", r.value <= 1, r)
	}
	programs := slices.SortedFunc(maps.Keys(each.byProgram), func(a, b string) int {
		return int(each.byProgram[b] - each.byProgram[a])
	})
	var parts []string
	for _, program := range programs {
		if m := each.byProgram[program]; m >= 100<<10 {
			parts = append(parts, program+" "+mib(m))
		}
	}
	fmt.Fprintf(t.w, "    %s; here %.1f descriptors, %.1f goroutines\n", strings.Join(parts, ", "),
		each.descriptors, each.goroutines)
}

func (c census) less(base census) census {
	c.memory -= base.memory
	c.processes -= base.processes
	c.descriptors -= base.descriptors
	c.goroutines -= base.goroutines
	c.byProgram = maps.Clone(c.byProgram)
	for program, m := range base.byProgram {
		c.byProgram[program] -= m
	}
	return c
}

func (c census) per(n int) census {
	c.memory /= int64(n)
	c.processes /= float64(n)
	c.descriptors /= float64(n)
	c.goroutines /= float64(n)
	c.byProgram = maps.Clone(c.byProgram)
	for program := range c.byProgram {
		c.byProgram[program] /= int64(n)
	}
	return c
}

// takeCensus counts this program, what is below it, and the containers of sessions with
// the processes that the engine has beside them.
func takeCensus(p execpolicy.DockerPolicy, sessions []*execpolicy.Session) (census, error) {
	names := make([]string, len(sessions))
	for i, s := range sessions {
		names[i] = s.Name()
	}
	return censusOf(p, names)
}

func censusOf(p execpolicy.DockerPolicy, names []string) (census, error) {
	debug.FreeOSMemory() // what was measured before has left garbage
	ids := map[string]bool{}
	if len(names) > 0 {
		args := append(append(p.Engine.Global, "inspect", "--type=container", "--format={{.Id}}"), names...)
		out, err := exec.Command(p.Engine.Path, args...).Output()
		if err != nil {
			return census{}, err
		}
		for _, id := range strings.Fields(string(out)) {
			ids[id] = true
		}
	}
	all, err := processes()
	if err != nil {
		return census{}, err
	}
	c := census{byProgram: map[string]int64{}}
	roots := map[int]bool{os.Getpid(): true}
	for _, q := range all {
		program := filepath.Base(q.args[0])
		if slices.ContainsFunc(q.args, func(arg string) bool { return ids[arg] }) {
			roots[q.pid] = true
		} else if program == "dockerd" || program == "containerd" {
			c.byProgram[program] += resident(q.pid)
		}
	}
	for _, q := range below(all, roots) {
		m, err := proportional(q.pid)
		if errors.Is(err, os.ErrNotExist) || err != nil && q.pid != os.Getpid() && resident(q.pid) == 0 {
			continue // it has ended
		}
		if err != nil {
			return census{}, err
		}
		c.memory += m
		c.processes++
		c.byProgram[filepath.Base(strings.TrimPrefix(q.args[0], "-"))] += m
	}
	open, err := os.ReadDir("/proc/self/fd")
	c.descriptors = float64(len(open))
	c.goroutines = float64(runtime.NumGoroutine())
	return c, err
}

// busyCensus takes a census while each session runs a command.
func busyCensus(ctx context.Context, p execpolicy.DockerPolicy, sessions []*execpolicy.Session) (census, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seconds := ownSleep()
	script := fmt.Sprintf("dd if=/dev/zero bs=65536 count=%d 2>/dev/null; sleep %s", busyBytes>>16, seconds)
	ended := make(chan error, len(sessions))
	for _, s := range sessions {
		go func() {
			_, err := s.Run(ctx, execpolicy.Command{Script: script, Timeout: -1})
			ended <- err
		}()
	}
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		n, err := runningSleeps(seconds)
		if err != nil || time.Now().After(end) {
			return census{}, errors.Join(err, fmt.Errorf("of %d commands %d run", len(sessions), n))
		}
		if n == len(sessions) {
			break
		}
	}
	c, err := takeCensus(p, sessions)
	cancel()
	for range sessions {
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			return census{}, err
		}
	}
	return c, err
}

// bareCost returns what each of n containers takes that the client runs.
func bareCost(ctx context.Context, p execpolicy.DockerPolicy, n int) (each census, err error) {
	none, err := censusOf(p, nil)
	if err != nil {
		return census{}, err
	}
	clients, names := make([]*client, n), make([]string, n)
	defer func() {
		err = errors.Join(err, inParallel(n, starters, func(i int) error {
			if clients[i] == nil {
				return nil
			}
			return clients[i].close()
		}))
	}()
	err = inParallel(n, starters, func(i int) error {
		argv, err := runArgs(ctx, p, "sh", "-c", "echo; read x || exit 0")
		if err != nil {
			return err
		}
		if clients[i], err = startClient(p, argv); err != nil {
			return err
		}
		names[i] = nameOf(argv)
		return clients[i].discard(1)
	})
	if err != nil {
		return census{}, err
	}
	all, err := censusOf(p, names)
	return all.less(none).per(n), err
}

// nameOf returns the name that the command line gives a container.
func nameOf(argv []string) string {
	words := strings.Fields(argv[len(argv)-1])
	for i, word := range words {
		if name, ok := strings.CutPrefix(word, "--name="); ok {
			return name
		}
		if word == "--name" {
			return words[i+1]
		}
	}
	return ""
}

// startRate holds the starts of sessions against the client's, while n others are there.
func startRate(ctx context.Context, p execpolicy.DockerPolicy, t *table, n int, reached float64) error {
	all, err := takeTurns(scaleRounds,
		func() (time.Duration, error) {
			begin := time.Now()
			err := inParallel(scaleStarts, starters, func(int) error {
				s, err := execpolicy.Start(ctx, p, execpolicy.Spec{})
				if err != nil {
					return err
				}
				return s.Close()
			})
			return time.Since(begin), err
		},
		bareStarts(ctx, p, scaleStarts, starters))
	if err != nil {
		return err
	}
	rate := func(t times) string { return fmt.Sprintf("%.3g/s", scaleStarts/t.median().Seconds()) }
	t.atLeast(fmt.Sprintf("starts and ends beside %d", n), rate(all[0])+fmt.Sprintf(", %.3g/s without ends", reached),
		rate(all[1])+", run -i to its end", 0.7, all[1].over(all[0]))
	return nil
}

// freeMemory returns what the machine could give, in bytes; zero if it does not tell.
func freeMemory() int64 {
	text, _ := os.ReadFile("/proc/meminfo")
	_, rest, _ := strings.Cut(string(text), "MemAvailable:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kb, _ := strconv.ParseInt(fields[0], 10, 64)
	return kb << 10
}
