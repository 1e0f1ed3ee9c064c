//go:build linux

package shellwire

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
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
	shells(t, func(t *testing.T, shell, worker string) {
		if shell != worker {
			return
		}
		w := start(t, shell, worker)
		pid := grandchild(t, w.pid, filepath.Base(worker))
		assert.NilError(t, syscall.Kill(pid, syscall.SIGSTOP)) // a child of ours
		status, died, out := w.run("echo on")
		assert.Assert(t, status == 0 && !died && out[0] == "on\n", "%d %v %q", status, died, out)
		// Later ones let what a command has stopped be.
		status, _, out = w.run("sleep 1000 & kill -STOP $!; echo $!")
		assert.Equal(t, status, 0)
		w.send(Tick + Tick)
		_, _, out = w.run("read x </proc/" + strings.TrimSpace(out[0]) + "/stat; echo $x")
		assert.Assert(t, strings.Contains(out[0], ") T "), "%q", out)
	})
}

// A keeper that has been killed before it has said anything is started again, and one that
// was stopped goes on.
func TestKeeperThatSaysNothing(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		if shell != worker {
			return
		}
		w := start(t, shell, worker)
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
