package execpolicy_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/container"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
)

// starve is a program that leaves process 1 next to no time of its processor, and that no
// signal but KILL ends.
const starve = `exec python3 -c '
import os, signal
for s in range(1, 65):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
processor = min(os.sched_getaffinity(0))
for p in 1, 0: os.sched_setaffinity(p, [processor])
wait, go = os.pipe()
for i in range(200):
    try:
        if os.fork() == 0:
            os.close(go)
            os.read(wait, 1)
            while True: pass
    except OSError: break
os.sched_setscheduler(1, os.SCHED_IDLE | os.SCHED_RESET_ON_FORK, os.sched_param(0))
os.write(1, b"begun\n")
os.close(go)
while True: pass
'`

// starvable is a policy under whose filter of system calls a program can starve process
// 1.
func starvable(policy execpolicy.DockerPolicy) execpolicy.DockerPolicy {
	policy.CPUs, policy.EngineSeccomp = "1", true
	return policy
}

func init() {
	holdings["starved"] = holding{sessions: 1, word: "begun", policy: starvable(execpolicy.DockerPolicy{}),
		scripts: []string{starve}}
}

// A victim is a container under attack, as the kernel knows it.
type victim struct {
	id    string
	pid   int // of process 1
	start string
}

// victim returns what is known of a running container. Whatever of it is left when the
// test has ended is killed.
func (p place) victim(t *testing.T, name string) victim {
	t.Helper()
	said := strings.Fields(p.cli(t, "container", "inspect", "--format={{.ID}} {{.State.Pid}}", "--", name))
	assert.Equal(t, len(said), 2)
	v := victim{id: said[0]}
	var err error
	v.pid, err = strconv.Atoi(said[1])
	assert.NilError(t, err)
	v.start = leftover.StartOf(v.pid)
	assert.Assert(t, v.start != "" && v.pid > 1 && len(v.id) == 64)
	t.Cleanup(v.kill)
	return v
}

// in reports whether a process is in the container's control group.
func (v victim) in(pid int) bool {
	groups, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	return err == nil && strings.Contains(string(groups), v.id)
}

// left returns the numbers of the container's processes.
func (v victim) left() []int {
	var left []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && v.in(pid) {
			if stat := leftover.StatOf(pid); len(stat) > 2 && stat[2] != "Z" {
				left = append(left, pid)
			}
		}
	}
	return left
}

// gone reports whether process 1 has ended, and with it, says the kernel, all of its
// namespace.
func (v victim) gone() bool {
	stat := leftover.StatOf(v.pid)
	return len(stat) <= 21 || stat[21] != v.start || stat[2] == "Z"
}

// awaitEnd waits until nothing is left of the container, for a while.
func (v victim) awaitEnd(t *testing.T) {
	t.Helper()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if v.gone() && len(v.left()) == 0 {
			return poll.Success()
		}
		return poll.Continue("%d processes live on", len(v.left()))
	}, poll.WithTimeout(latest), poll.WithDelay(50*time.Millisecond))
}

func (v victim) kill() {
	for len(v.left()) > 0 {
		for _, pid := range v.left() {
			// The handle stays that of the process which is looked at after it was taken.
			if handle, err := os.FindProcess(pid); err == nil && v.in(pid) {
				handle.Signal(syscall.SIGKILL)
			}
		}
	}
}

// Process 1 is found by the container's name, and its command line says nothing else of
// the session.
func TestFirstProcessIsFound(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		pid, err := strconv.Atoi(strings.TrimSpace(p.cli(t, "container", "inspect", "--format={{.State.Pid}}", "--",
			s.Name())))
		assert.NilError(t, err)
		// A number above all others is what a client has after the numbers began anew.
		for _, above := range []int{0, pid - 1, pid, 1 << 30} {
			assert.Equal(t, container.FindFirst(s.Name(), above).PID, pid, "above %d", above)
		}
		for _, name := range []string{s.Name()[1:], s.Name() + "x"} {
			assert.Equal(t, container.FindFirst(name, 0).PID, 0, name)
		}
		line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		assert.NilError(t, err)
		assert.Assert(t, !mark.Match(line), "%q", line)
		// What runs inside can have such a command line, and is not it.
		assert.Equal(t, s.ok("sh -c 'sleep 4845 & wait' x "+s.Name()+" & echo on"), "on")
		assert.Equal(t, container.FindFirst(s.Name(), pid).PID, pid)
		// Nor is another container's, whose program is only told the name.
		other := p.cli(t, "run", "--detach", "--rm", "--network=none", p.policy().Image, "sh", "-c",
			"sleep 4847; :", s.Name())
		defer p.cli(t, "rm", "--force", strings.TrimSpace(other))
		assert.Equal(t, container.FindFirst(s.Name(), 0).PID, pid)
		assert.NilError(t, s.Close())
		assert.Equal(t, container.FindFirst(s.Name(), 0).PID, 0)
	})
}

// What starves process 1 does not outlive the word that it is gone, whatever the engine
// says; and does not live on for long.
func TestStarvedFirstProcess(t *testing.T) {
	enginetest.Alone(t)
	onEngines(t, func(t *testing.T, p place) {
		t.Run("close", func(t *testing.T) {
			s, v, c := p.starve(t, ample)
			err := s.Close()
			<-c.done
			v.check(t, c.result, err)
		})
		t.Run("deadline", func(t *testing.T) {
			_, v, c := p.starve(t, latest)
			<-c.done
			v.check(t, c.result, c.err)
		})
	})
}

// starve starts a command that starves process 1, with that much time if that is enough
// for it to begin, and returns when it does.
func (p place) starve(t *testing.T, limit time.Duration) (session, victim, *running) {
	t.Helper()
	s := open(t, starvable(p.policy().DockerPolicy), p.spec())
	v := p.victim(t, s.Name())
	return s, v, s.start(t.Context(), execpolicy.Command{Script: starve, Timeout: limit})
}

// check checks what was said of an end, and waits for it.
func (v victim) check(t *testing.T, r *execpolicy.Result, err error) {
	t.Helper()
	began := time.Now()
	if err == nil || !errors.Is(err, execpolicy.ErrStillThere) {
		assert.Check(t, v.gone(), "it is said to be gone: %v", err)
		assert.Check(t, len(v.left()) == 0, "%d processes live on", len(v.left()))
	}
	assert.Check(t, !r.Gone || v.gone())
	wait(t, func() bool { return v.gone() && len(v.left()) == 0 }, "it lives on")
	t.Logf("%v; gone %v later", err, time.Since(began).Round(time.Millisecond))
}

// Nor does it wait for an engine that does nothing of what it is asked for.
func TestStarvedFirstProcessWithoutTheEngine(t *testing.T) {
	enginetest.Alone(t)
	onEngines(t, func(t *testing.T, p place) {
		s := open(t, starvable(p.policy().DockerPolicy), p.spec())
		v := p.victim(t, s.Name())
		command := s.start(t.Context(), execpolicy.Command{Script: starve, Timeout: ample})
		wait(t, func() bool {
			stat := leftover.StatOf(v.pid)
			return len(v.left()) > 200 && len(stat) > 40 && stat[40] == "5"
		}, "process 1 is not starved")
		start, err := strconv.ParseUint(leftover.StartOf(v.pid), 10, 64)
		assert.NilError(t, err)
		away := &dockercli.Engine{Kind: p.engine.Kind, Path: "/bin/false"}
		ctx, cancel := context.WithCancel(t.Context())
		forced := make(chan error, 1)
		client, err := procgroup.Start(procgroup.Cmd{Path: "/bin/true", Args: []string{"true"}})
		assert.NilError(t, err)
		<-client.Done()
		c := &container.Container{Engine: away, Name: s.Name(), OwnPIDs: true}
		c.Adopt(client, true, container.FirstProcess{Name: s.Name(), PID: v.pid, Start: start})
		go func() { forced <- c.Force(ctx) }()
		v.awaitEnd(t)
		cancel()
		assert.ErrorIs(t, <-forced, context.Canceled)
		<-command.done
	})
}

// Nor does it outlive the program for long.
func TestStarvedFirstProcessOfAKilledProgram(t *testing.T) {
	enginetest.Alone(t)
	onEngines(t, func(t *testing.T, p place) {
		label, kill := p.startHolder(t, "starved")
		names := strings.Fields(p.cli(t, "ps", "--all", "--filter=label="+label, "--format={{.Names}}"))
		assert.Equal(t, len(names), 1)
		v := p.victim(t, names[0])
		kill()
		began := time.Now()
		v.awaitEnd(t)
		t.Logf("gone after %v", time.Since(began).Round(time.Millisecond))
	})
}
