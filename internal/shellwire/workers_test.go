//go:build linux

package shellwire

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
)

// A unit is run once, whatever workers there are.
func TestOneWorkerRunsAUnit(t *testing.T) {
	for name, lose := range map[string]func(w *talk){
		"started twice": func(w *talk) {
			w.startWorker()
			w.startWorker()
		},
		"the parent was killed": func(w *talk) {
			w.ok("kill -9 $PPID")
			w.send(StartWorker)
			w.worker++
		},
	} {
		t.Run(name, func(t *testing.T) {
			shells(t, func(t *testing.T, shell, worker string) {
				w := start(t, shell, worker)
				ran := filepath.Join(w.dir, "ran")
				w.ok("first=$$; echo $$ >" + shellquote.Quote(filepath.Join(w.dir, "first")))
				lose(w)
				want := ""
				for i, also := range []string{"kill -STOP $(cat first)", "", "", "kill -CONT $(cat first)", "", "", ""} {
					w.ok(fmt.Sprintf("cd %s; echo %d >>ran; %s 2>/dev/null; :", shellquote.Quote(w.dir), i, also))
					want += fmt.Sprintln(i)
				}
				got, err := os.ReadFile(ran)
				assert.NilError(t, err)
				assert.Equal(t, string(got), want)
			})
		})
	}
}

// startWorker starts another worker, and waits until it can run a unit. The start of the
// next one empties the file that this one still reads its script from.
func (w *talk) startWorker() {
	w.t.Helper()
	w.send(StartWorker)
	w.worker++
	wait(w.t, "the worker waits for a unit", func() bool {
		return w.has(func(p leftover.Process) bool {
			proc := fmt.Sprintf("/proc/%d/", p.PID)
			env, _ := os.ReadFile(proc + "environ")
			// The script opens it before it waits for a unit.
			_, err := os.Stat(proc + "fd/4")
			return err == nil && slices.Contains(strings.Split(string(env), "\x00"), fmt.Sprintf("cf_worker=%d", w.worker))
		})
	})
}

// A unit that comes when the worker's parent was killed is run once: it is said not to
// have run, or it has.
func TestUnitBehindTheLossOfTheParent(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		w.ok(":")
		for range 5 {
			w.run("kill -9 $PPID")
			file := filepath.Join(w.dir, "ran")
			if _, died, _ := w.run("sleep 0.1; echo x >>" + shellquote.Quote(file)); died {
				w.ok("echo x >>" + shellquote.Quote(file))
			}
			ran, err := os.ReadFile(file)
			assert.NilError(t, err)
			assert.Equal(t, string(ran), "x\n")
			assert.NilError(t, os.Remove(file))
		}
	})
}

// What kills everything, over and over, is killed, and the host is told.
func TestKillsOverAndOver(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		w.ok(":")
		w.ok(":")
		for range 3 {
			status, died, _ := w.run("(while :; do kill -9 -1; done)")
			assert.Assert(t, died && status != silent, "%d %v", status, died)
			assert.Equal(t, w.ok("echo on"), "on\n")
		}
	})
}

// ok runs a script that must succeed, and returns what it has printed.
func (w *talk) ok(script string) string {
	w.t.Helper()
	status, died, out := w.run(script)
	assert.Assert(w.t, status == 0 && !died, "%s: %d %v %q", script, status, died, out)
	return out[0]
}

// What the last command has left in the background lives when its shell has ended,
// however soon the next one is started.
func TestShellThatEndsLeavesTheOthers(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		pids := shellquote.Quote(filepath.Join(w.dir, "pids"))
		for range 20 {
			_, died, _ := w.run("sleep 1000 & echo $! >>" + pids + "; exit 3")
			assert.Assert(t, died)
		}
		assert.Equal(t, w.ok("while read -r pid; do kill -0 $pid || echo $pid; done <"+pids), "")
	})
}

// An end mark is one write, whatever a character has of bytes.
func TestLongDirOfLongCharacters(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		w.ok(`LC_ALL=C.UTF-8; PWD=; while [ ${#PWD} -lt 3000 ]; do PWD=éééééééééé$PWD; done; PWD=/${PWD%"${PWD#?????????????????????????????????????????}"}$PWD`)
		w.send(string(Next("long")) + string(Unit{Script: ":"}.Ops()))
		for ev := range w.events[0] {
			if strings.HasPrefix(ev, fmt.Sprintf("%d long ", End)) {
				assert.Assert(t, len(ev)+2*len(testPrefix) < 4096, "%d", len(ev))
				return
			}
		}
		t.Error("process 1 has ended")
	})
}

// What a session's first command has left in the background lives on when a tick comes
// before the host has read that its shell has ended, and at all that come after that.
func TestTickAfterTheEndOfTheFirstShell(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		pid := shellquote.Quote(filepath.Join(w.dir, "pid"))
		w.send(string(Next("end")) + string(Unit{Script: "sleep 1000 & echo $! >" + pid + "; exit 3"}.Ops()))
		for ev := range w.events[0] {
			if strings.HasPrefix(ev, fmt.Sprintf("%d ", Death)) {
				break
			}
		}
		w.send(Tick + strings.Repeat(Reap, 5) + Heard(1) + strings.Repeat(Tick, 5) + StartWorker + Heard(1) + Tick + Tick)
		w.worker++
		assert.Equal(t, w.ok("read -r pid <"+pid+"; kill -0 $pid && echo alive"), "alive\n")
	})
}

// What a shell that has ended has left in the background lives on at a tick.
func TestTickAfterTheEndOfAShell(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		w.ok(":")
		w.ok(":")
		pids := shellquote.Quote(filepath.Join(w.dir, "pids"))
		for range 5 {
			w.ok("sleep 1000 & echo $! >>" + pids)
			w.send(string(Next("end")) + string(Unit{Script: "sleep 1000 & echo $! >>" + pids + "; exit 3"}.Ops()))
			for ev := range w.events[0] {
				if strings.HasPrefix(ev, fmt.Sprintf("%d ", Death)) {
					break
				}
			}
			w.send(strings.Repeat(Tick, 50) + StartWorker)
			w.worker++
		}
		assert.Equal(t, w.ok("while read -r pid; do kill -0 $pid || echo $pid; done <"+pids), "")
	})
}
