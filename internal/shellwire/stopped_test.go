//go:build linux

package shellwire

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
)

// grandchild waits for a process that a child of another has started, and that runs a
// program of that name.
func grandchild(t *testing.T, of int, program string) int {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		all, err := filepath.Glob("/proc/[0-9]*/stat")
		assert.NilError(t, err)
		parents := map[int]int{}
		var found []int
		for _, path := range all {
			stat, _ := os.ReadFile(path)
			var pid, parent int
			var name, state string
			if _, err := fmt.Sscan(string(stat), &pid, &name, &state, &parent); err == nil {
				parents[pid] = parent
				if name == "("+program+")" {
					found = append(found, pid)
				}
			}
		}
		for _, pid := range found {
			if parents[parents[pid]] == of {
				return pid
			}
		}
	}
	t.Fatalf("no %s", program)
	return 0
}

// A worker that was stopped before it has answered is woken by a tick.
func TestWorkerThatIsStoppedAtTheStart(t *testing.T) {
	alone(t, func(t *testing.T, shell string) {
		w := start(t, shell, shell)
		pid := grandchild(t, w.pid, filepath.Base(shell))
		assert.NilError(t, syscall.Kill(pid, syscall.SIGSTOP)) // a child of ours
		status, died, out := w.run("echo on")
		assert.Assert(t, status == 0 && !died && out[0] == "on\n", "%d %v %q", status, died, out)
		// Later ones let what a command has stopped be.
		status, _, out = w.run("sleep 1000 & kill -STOP $!; " +
			"until read -r x </proc/$!/stat; case $x in *') T '*) ;; *) false ;; esac; do :; done; echo $!")
		assert.Equal(t, status, 0)
		w.send(Tick + Tick)
		_, _, out = w.run("read x </proc/" + strings.TrimSpace(out[0]) + "/stat; echo $x")
		assert.Assert(t, strings.Contains(out[0], ") T "), "%q", out)
	})
}

// A keeper that has been killed before it has said anything is started again, and one
// that was stopped goes on.
func TestKeeperThatSaysNothing(t *testing.T) {
	alone(t, func(t *testing.T, shell string) {
		w := start(t, shell, shell)
		w.run(":")
		began := w.dir + "/began"
		job := StartJob("J", []string{"sh", "-c", "echo $$ >>" + began + "; kill -STOP $$; echo on >>" + began + "; exec sleep 1000"})
		// says waits for the last line that the keeper has written.
		says := func(prefix string) string {
			t.Helper()
			for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
				text, _ := os.ReadFile(began)
				if lines := strings.Fields(string(text)); len(lines) > 0 && strings.HasPrefix(lines[len(lines)-1], prefix) {
					return lines[len(lines)-1]
				}
			}
			t.Fatalf("no %q", prefix)
			return ""
		}
		w.send(job)
		keeper := says("")
		// It is killed, stopped or not.
		_, _, out := w.run("kill -9 " + keeper + "; while [ -e /proc/" + keeper + "/fd/0 ]; do :; done; echo killed")
		assert.Equal(t, out[0], "killed\n")
		assert.NilError(t, os.Remove(began))
		w.send(job)
		assert.Assert(t, says("") != keeper)
		w.run("until read -r x </proc/" + says("") + "/stat; case $x in *') T '*) ;; *) false ;; esac; do :; done")
		w.send(job)
		says("on")
	})
}

// A keeper whose command never came does not stay for it.
func TestKeeperWithoutACommand(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		job := Job{Prefix: testPrefix, Tag: "T", Scratch: t.TempDir(), Worker: []string{worker}, Script: "echo no"}
		for _, line := range []string{"", string(job.Line()[:20])} {
			cmd := exec.Command(shell, Boot()[1:]...)
			cmd.Stdin = strings.NewReader(string(job.Keeper()) + line)
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			cmd.WaitDelay = time.Second // what is below the keeper may hold its output
			late := time.AfterFunc(patience, func() { cmd.Process.Kill() })
			out, err := cmd.Output()
			assert.Assert(t, late.Stop(), "the keeper stays: %q", out)
			assert.ErrorContains(t, err, "killed")
			assert.Assert(t, strings.HasPrefix(string(out), testPrefix+"bT ") && strings.Count(string(out), "\n") == 1, "%q", out)
		}
	})
}

// What comes for a job, or for the keep-alive, while a helper is at work leaves that at
// work.
func TestHelperBesideJobs(t *testing.T) {
	alone(t, func(t *testing.T, shell string) {
		// Bash looks for room before each fork if there is a limit.
		group := t.TempDir()
		for name, text := range map[string]string{"pids.current": "1\n", "pids.max": "64\n"} {
			assert.NilError(t, os.WriteFile(filepath.Join(group, name), []byte(text), 0o644))
		}
		keepAlive := 1000 * time.Second
		if filepath.Base(shell) == "dash" {
			keepAlive = 0 // it would make way for bash
		}
		w := startAlive(t, keepAlive, group, os.Geteuid(), shell, shell, true)
		w.run(":")
		for name, op := range map[string]string{
			"signal": SignalJob("J", "KILL", "nonce"), "start": StartJob("J", []string{"sh", "-c", "exec sleep 1000"}),
			"adopt": AdoptJob("J", 2, "nonce"), "ask": Ask("nonce"), "tend": TendJob("J"), "beat": Beat,
		} {
			status, told, _ := w.help(Help("sleep 0.5; cf_result=7"), op)
			assert.Assert(t, status == 0 && told == "7", "%s: %d %q", name, status, told)
		}
	})
}

// A keeper that begins beside a helper is stopped until that has ended.
func TestKeeperBesideHelper(t *testing.T) {
	alone(t, func(t *testing.T, shell string) {
		w := start(t, shell, shell)
		w.run(":")
		before := w.children()
		var seen []string
		stopped := func() (keeper string) {
			seen = nil
			for _, child := range w.children() {
				stat, _ := os.ReadFile("/proc/" + child + "/stat")
				seen = append(seen, string(stat))
				if !slices.Contains(before, child) && strings.Contains(string(stat), ") T ") {
					return child
				}
			}
			return ""
		}
		goOn, sent := filepath.Join(w.dir, "go"), false
		status, _, _ := w.helpReady(func() bool {
			if !sent {
				w.send(StartJob("J", []string{"sh", "-c", "sleep 1000; sleep 1000"}))
				sent = true
			}
			if stopped() != "" {
				assert.NilError(t, os.WriteFile(goOn, nil, 0o600))
			}
			return false
		}, Help("until [ -e "+shellquote.Quote(goOn)+" ]; do sleep 0.01; done"))
		assert.Equal(t, status, 0, "children: %q, before: %q", seen, before)
		wait(t, "the keeper goes on", func() bool { return stopped() == "" })
	})
}
