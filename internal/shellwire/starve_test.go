//go:build linux

package shellwire

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
)

// awaitOutput reads what is printed up to a text.
func (w *talk) awaitOutput(text string) {
	w.t.Helper()
	late := time.After(patience)
	for got := ""; !strings.Contains(got, text); {
		select {
		case ev, ok := <-w.events[0]:
			assert.Assert(w.t, ok, "process 1 has ended: %q", got)
			if out, found := strings.CutPrefix(ev, "="); found {
				got += out
			}
		case <-late:
			w.t.Fatalf("%q was not printed, but %q", text, got)
		}
	}
}

// awaitEnd waits until a unit or a helper has ended with that status on stdout.
func (w *talk) awaitEnd(tag string, status int) {
	w.t.Helper()
	for late := time.After(patience); ; {
		select {
		case ev, ok := <-w.events[0]:
			assert.Assert(w.t, ok, "process 1 has ended")
			if strings.HasPrefix(ev, fmt.Sprintf("%d %s 0 %d ", End, tag, status)) {
				return
			}
		case <-late:
			w.t.Fatalf("%s has not ended", tag)
		}
	}
}

// A longer text is read while nothing else runs: its bytes come before the end of stdin,
// and others could take the processor from whoever reads them. Whatever comes in place of
// the rest of it, everything runs on.
func TestTextIsReadAlone(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		for _, unit := range []Unit{
			{Script: strings.Repeat(": 0123456789\n", 200) + "echo ran"},
			{Script: "echo ran; : " + strings.Repeat("0123456789", 400)},
			{Argv: []string{"echo", "ran", strings.Repeat("0123456789", 400)}},
		} {
			w := start(t, shell, worker)
			w.run("(while :; do :; done) &")
			w.run(":")
			ops := string(unit.Ops())
			cut := strings.LastIndexByte(ops[:len(ops)*3/4], '\n') + 1
			begin, rest := ops[:cut], ops[cut:]
			goesOn := func() { wait(t, "everything runs", func() bool { return !w.stopped() }) }
			text := func() {
				w.send(string(Next("long")) + begin)
				wait(t, "everything is stopped", w.stopped)
			}

			text()
			w.send(rest)
			w.awaitOutput("ran")
			goesOn()

			// The host takes back what it has not sent, and names the next unit.
			text()
			w.send(string(Next("next")))
			goesOn()
			status, _, out := w.run("echo on")
			assert.Equal(t, status, 0)
			assert.Equal(t, out[0], "on\n")

			for _, op := range []string{Thaw, Terminate, Kill} {
				text()
				w.send(op)
				goesOn()
				w.send(rest)
				w.awaitOutput("ran")
				goesOn()
			}

			text()
			w.send(begin + rest)
			w.awaitOutput("ran")
			goesOn()

			text()
			w.send(KillWorker + StartWorker)
			goesOn()
			w.worker++
			status, _, out = w.run("echo on")
			assert.Equal(t, status, 0)
			assert.Equal(t, out[0], "on\n")

			text()
			w.in.Close()
			select {
			case <-w.ended:
			case <-time.After(patience):
				t.Fatal("process 1 outlives the end of its stdin")
			}
		}
	})
}

// tellsOfCont starts a job that prints when it is let run again, and that is older than
// the next command.
func (w *talk) tellsOfCont() {
	begun := shellquote.Quote(filepath.Join(w.dir, "begun"))
	w.run("(trap 'echo continued' CONT; >" + begun + "; while :; do :; done) & " +
		"until [ -e " + begun + " ]; do :; done")
	for range 2 {
		w.run("sleep 0.02")
	}
}

// Where no process can be made, those that take all the room are stopped while process 1
// tries: a fork that fails takes long, and they would take the processor. They run on
// when it has given up.
func TestNoRoomForAProcess(t *testing.T) {
	for _, program := range []string{"setpriv", "prlimit"} {
		if _, err := exec.LookPath(program); err != nil || os.Geteuid() != 0 {
			leftout.Skip(t, "no process namespace can be made here for another user: %v", err)
		}
	}
	const user = 54713 // the limit counts all that a user has
	shells(t, func(t *testing.T, shell, worker string) {
		group := t.TempDir()
		for _, dir := range []string{group, filepath.Dir(group)} {
			assert.NilError(t, os.Chmod(dir, 0o755))
		}
		write := func(name, text string) {
			assert.NilError(t, os.WriteFile(filepath.Join(group, name), []byte(text), 0o644))
		}
		write("pids.current", "1\n")
		write("pids.max", "16\n")
		w := startSeeing(t, group, user, shell, worker, true)
		w.tellsOfCont()
		status, _, out := w.run("prlimit --pid 1 --nproc=1:4096")
		assert.Equal(t, status, 0, out[1])
		write("pids.current", "16\n") // bash asks first
		looks := 0
		wait(t, "everything is stopped", func() bool {
			if looks++; looks%100 == 1 {
				w.send(string(Next("look")) + Look)
			}
			return w.stopped()
		})
		w.awaitOutput("continued")
		// A helper lets all go on, and is told of when there is room.
		w.send(string(Next("none")) + string(Help("echo helped")))
		w.awaitOutput("continued")
		assert.NilError(t, exec.Command("setpriv", fmt.Sprintf("--reuid=%d", user), fmt.Sprintf("--regid=%d", user), "--clear-groups",
			"prlimit", "--pid", strconv.Itoa(w.pid), "--nproc=4096:4096").Run())
		write("pids.current", "1\n")
		w.send(SignalJob("J", "KILL", "nonce")) // which thaws, too
		w.send(Tick)
		w.awaitEnd("none", 137)
		w.send(Thaw)
		status, _, out = w.run("prlimit --pid 1 --nproc=1:4096")
		assert.Equal(t, status, 0, out[1])
		write("pids.current", "16\n")
		// A unit is run all the same.
		status, _, out = w.run("prlimit --pid 1 --nproc=4096:4096; echo on")
		assert.Equal(t, status, 0, out[1])
		assert.Assert(t, strings.Contains(out[0], "on\n"), out[0])
		write("pids.current", "1\n")
		status, _, told := w.help(Help("echo helped"))
		assert.Equal(t, status, 0)
		assert.Equal(t, told[0], "helped\n")
	})
}

// When nobody watches over the worker, process 1 looks at all that runs, which takes a
// while. Nothing else runs meanwhile, and an earlier job goes on then.
func TestLookForOlderProcesses(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		w.tellsOfCont()
		w.send(string(Next("kill")) + string(Unit{Script: "kill -9 $PPID $$"}.Ops()))
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond):
					io.WriteString(w.in, Tick)
				}
			}
		}()
		w.awaitOutput("continued")
	})
}

// That the worker is lost is told again to a unit that comes when nobody has heard it,
// and to what kills a worker.
func TestLossIsToldAgain(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		w.send(string(Next("kill")) + string(Unit{Script: "kill -9 $PPID $$"}.Ops()))
		told := func(what, ops string) {
			t.Helper()
			late, tick := time.After(patience), time.NewTicker(100*time.Millisecond)
			defer tick.Stop()
			for w.send(ops); ; {
				select {
				case ev, ok := <-w.events[0]:
					assert.Assert(t, ok, "process 1 has ended")
					if strings.HasPrefix(ev, fmt.Sprintf("%d ", Death)) {
						return
					}
				case <-tick.C:
					w.send(Tick)
				case <-late:
					t.Fatalf("%s: nothing is told", what)
				}
			}
		}
		told("a tick", "")
		told("a unit", string(Next("unit"))+string(Unit{Script: ":"}.Ops()))
		told("a kill", KillWorker)
		w.send(StartWorker)
		w.worker++
		status, _, out := w.run("echo on")
		assert.Equal(t, status, 0)
		assert.Equal(t, out[0], "on\n")
	})
}

// lastNumber makes the newest process's number one of the last, before they begin anew.
func (w *talk) lastNumber() {
	w.t.Helper()
	status, _, out := w.run("cd /proc/sys/kernel; echo $(($(cat pid_max) - 3)) >ns_last_pid")
	if status != 0 {
		leftout.Skip(w.t, "process numbers can't be set here: %s", out[1])
	}
}

// Process numbers begin anew at some time. What a command starts is known all the same.
func TestNumbersBeginAnew(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		for range 2 {
			w.lastNumber()
			status, _, _ := w.runReady("begun\n",
				"for i in 1 2 3 4 5 6; do sleep 1000 & done; echo begun; while :; do :; done",
				Terminate, Kill, KillWorker)
			assert.Assert(t, status != 0)
			w.sleepers("")
		}
	})
}

// If they may begin anew in the tick in which a command begins, its processes are of a
// later tick.
func TestCommandBeginsInALaterTick(t *testing.T) {
	alone(t, func(t *testing.T, shell string) {
		w := start(t, shell, shell)
		for range 20 {
			w.lastNumber()
			status, told, _ := w.help(Help(`now; cf_result="$cf_time $cf_now"`))
			assert.Equal(t, status, 0)
			f := strings.Fields(told)
			assert.Assert(t, len(f) > 1 && f[0] != f[1], told)
		}
	})
}
