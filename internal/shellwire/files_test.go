//go:build linux

package shellwire

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
)

// help runs a helper and returns its status, or silent, what it told, and what was
// printed between its marks. What is sent after a delay is sent if it still runs then.
func (w *talk) help(ops []byte, after ...string) (status int, told string, out [2]string) {
	w.t.Helper()
	return w.helpReady(func() bool { return true }, ops, after...)
}

// helpReady is help, but nothing is sent before it is ready.
func (w *talk) helpReady(ready func() bool, ops []byte, after ...string) (status int, told string, out [2]string) {
	w.t.Helper()
	w.n++
	tag := fmt.Sprintf("H%d", w.n)
	w.send(string(Next(tag)))
	w.operate(ops)
	w.send(string(Next("later")))
	status = silent
	late := time.NewTimer(patience)
	defer late.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	ticks := 0
	var begun, ended [2]bool
	for !ended[0] || !ended[1] {
		i, ev, ok := 0, "", true
		select {
		case ev, ok = <-w.events[0]:
		case ev, ok = <-w.events[1]:
			i = 1
		case <-tick.C:
			if ready() {
				ticks++
			}
			w.send(w.at(ticks, after))
			continue
		case <-late.C:
			ok = false
		}
		rest, ours := strings.CutPrefix(ev, fmt.Sprintf("%d %s 0 ", End, tag))
		switch {
		case !ok:
			return silent, told, out
		case ev[0] == '=':
			if begun[i] && !ended[i] {
				out[i] += ev[1:]
			}
		case strings.HasPrefix(ev, fmt.Sprintf("%d %s ", Begin, tag)):
			begun[i] = true
		case ours && begun[i] && !ended[i]:
			ended[i] = true
			if i == 0 {
				code, words, _ := strings.Cut(rest, " ")
				fmt.Sscan(code, &status)
				told = words
			}
		}
	}
	w.send(Thaw)
	return status, told, out
}

// stopped reports whether a process is stopped that process 1 has started, or what that
// has.
func (w *talk) stopped() bool {
	return w.has(func(p leftover.Process) bool { return p.State == "T" })
}

// has reports whether there is such a process among those that process 1 has started, and
// those that they have.
func (w *talk) has(such func(p leftover.Process) bool) bool {
	all := leftover.Processes()
	ours := map[int]bool{w.pid: true}
	for range 5 { // generations
		for _, p := range all {
			ours[p.PID] = ours[p.PID] || ours[p.Parent]
		}
	}
	return slices.ContainsFunc(all, func(p leftover.Process) bool { return ours[p.PID] && such(p) })
}

func wait(t testing.TB, what string, met func() bool) {
	t.Helper()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if !met() {
			return poll.Continue("%s", what)
		}
		return poll.Success()
	}, poll.WithTimeout(patience), poll.WithDelay(time.Millisecond))
}

func TestHelp(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		w.blocks = true
		// Nothing of the worker's state matters.
		w.run("x=5; printf() { :; }; PATH=/nowhere; exec 2>/dev/null")
		name := every() + "\n'two\n\nlines\n"
		for _, c := range []struct {
			script, told, out, err string
			status                 int
		}{
			{"echo hi; echo err >&2; cf_result=7", "7", "hi\n", "err\n", 0},
			{"return 103; echo no", "", "", "", 103},
			{"false || return 1", "", "", "", 1},
			{"cat; echo ${x-unset}", "", "unset\n", "", 0},
			{"printf %s " + Word(name), "", name, "", 0},
			{"(exit 9)", "", "", "", 9},
			{"cf_result=$(echo a b)", "a b", "", "", 0},
		} {
			status, told, out := w.help(Help(c.script))
			assert.Equal(t, status, c.status, c.script)
			assert.Equal(t, told, c.told, c.script)
			assert.DeepEqual(t, out, [2]string{c.out, c.err})
		}
		// Errors that end some shells.
		for _, script := range []string{"exec 3</no/such/file", "set -u; : $unset", ". /no/such/file", "readonly r; r=1"} {
			status, _, _ := w.help(Help(script))
			assert.Assert(t, status != silent, script)
		}
		status, died, out := w.run("echo $x")
		assert.Equal(t, status, 0)
		assert.Assert(t, !died)
		assert.Equal(t, out[0], "5\n")
	})
}

// A helper that is ended is told, whatever it was at, and neither it nor what it ran
// lives on. The worker does.
func TestHelperIsEnded(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		w.run("x=5; sleep 1000 &")
		for _, script := range []string{"sleep 1001", "while :; do :; done", "cf_result=$(sleep 1002)",
			"trap '' TERM; sleep 1003", "sh -c 'trap \"\" TERM; sleep 1004; sleep 1004'"} {
			status, _, _ := w.help(Help(script), Terminate, Kill)
			assert.Assert(t, status == 128+9 || status == 128+15, "%s: %d", script, status)
			w.send(Kill)
		}
		w.sleepers("sleep 1000 \n")
		status, _, out := w.run("echo $x")
		assert.Equal(t, status, 0)
		assert.Equal(t, out[0], "5\n")
	})
}

// A kill that comes right behind a SIGTERM may end what marks the helper's end, too.
func TestEndOfHelperIsMarkedAgain(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		for range 10 {
			status, _, _ := w.help(Help("trap '' TERM; sleep 1001"), Terminate+Kill+Kill)
			// The helper obeys a SIGTERM that comes before its own trap.
			assert.Assert(t, status == 128+9 || status == 128+15, "%d", status)
		}
	})
}

// While a helper works, nothing else does; while it hangs, the end of stdin is still
// seen: the cleanup waits for that. In a process group too a helper is ended, also if it
// or what it waits for is stopped, and the next one is waited for anew.
func TestHelperThatIsStoppedIsEnded(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		for _, script := range []string{"sh -c 'kill -STOP $PPID'; sleep 1005", "sh -c 'kill -STOP $$'; sleep 1006"} {
			w := startAs(t, shell, worker, false)
			for range 2 {
				// One that stops behind the signals is none that was stopped.
				status, _, _ := w.helpReady(w.stopped, Help(script), Terminate)
				assert.Assert(t, status == 128+9 || status == 128+15, "%s: %d", script, status)
			}
		}
		w := startAs(t, shell, worker, false)
		set := filepath.Join(w.dir, "set")
		again := `trap "sh -c 'kill -STOP \$PPID'; exit 143" TERM; >` + set + `; sleep 1007`
		// A signal that comes as the helper is being forked is lost.
		status, _, _ := w.helpReady(func() bool { _, err := os.Stat(set); return err == nil }, Help(again), Terminate)
		assert.Assert(t, status == 128+9 || status == 128+15, "%s: %d", again, status)
	})
}

// What a helper in a process group forks as the signal comes does not get that, and is
// ended all the same.
func TestHelperThatForksAsItIsSignalled(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := startAs(t, shell, worker, false)
		set := filepath.Join(w.dir, "set")
		status, _, _ := w.helpReady(func() bool { _, err := os.Stat(set); return err == nil },
			Help(`trap "trap : TERM; sleep 4873; exit 143" TERM; >`+set+`; sleep 4874`), Terminate)
		assert.Assert(t, status == 128+15, "%d", status)
	})
}

func TestHelperIsAlone(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		w.run("yes & a=$!; yes >&2 & b=$!")
		for range 20 {
			_, _, out := w.help(Help("echo begin; sleep 0.005; echo end"))
			assert.DeepEqual(t, out, [2]string{"begin\nend\n", ""})
		}
		w.run("kill $a $b; wait $a $b")
		w.send(string(Next("hangs")) + string(Help(">"+w.dir+"/begun; while :; do :; done")))
		wait(t, "the helper runs", func() bool {
			_, err := os.Stat(filepath.Join(w.dir, "begun"))
			return err == nil
		})
	})
}

// Nothing runs from the moment in which a file of raw bytes is opened: nobody can put a
// fifo in its place, which would hold up process 1 for ever.
func TestNothingRunsWhileAPieceIsWritten(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		ticks := filepath.Join(w.dir, "ticks")
		size := func(name string) int64 {
			info, err := os.Stat(filepath.Join(w.dir, name))
			if err != nil {
				return -1
			}
			return info.Size()
		}
		w.run("(while :; do echo x; done >" + ticks + ") &")
		wait(t, "the job runs", func() bool { return size("ticks") > 0 })
		data := strings.Repeat("x", 2*transferBlock+5)
		for i := range 5 {
			name := fmt.Sprint("i", i)
			w.send(string(Upload(name, int64(len(data)))) + data[:2*transferBlock])
			wait(t, "the first part is there", func() bool { return size(name) == 2*transferBlock })
			was := size("ticks")
			w.send(data[2*transferBlock:])
			wait(t, "all is there", func() bool { return size(name) == int64(len(data)) })
			assert.Equal(t, size("ticks"), was)
			w.send(Thaw)
			wait(t, "the job runs on", func() bool { return size("ticks") > was })
		}
	})
}

// What can't be made costs nothing but itself: none of its bytes is taken for an
// operation.
func TestPut(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		data := strings.Repeat("kKILL\nw\n\x00\xff"+every(), 20)
		put := func(file, new string, more string) int {
			ops := append(Put(Word(new), "END123", []byte(data), 0o640), Help("put "+Word(file)+" "+Word(new)+more)...)
			status, _, _ := w.help(ops)
			return status
		}
		file := filepath.Join(w.dir, "a file\nof 'ours'")
		new := file + ".new"
		perm := func() os.FileMode {
			info, err := os.Stat(file)
			assert.NilError(t, err)
			return info.Mode().Perm()
		}
		assert.Equal(t, put(file, new, " 640"), 0)
		got, err := os.ReadFile(file)
		assert.NilError(t, err)
		assert.Assert(t, string(got) == data)
		assert.Equal(t, perm(), os.FileMode(0o640))
		assert.Equal(t, put(file, new, " 751"), 0)
		assert.Equal(t, perm(), os.FileMode(0o751))

		// Something has the new name, or there is no directory, or no room.
		for _, bad := range []string{file, filepath.Join(w.dir, "nowhere", "new")} {
			assert.Equal(t, put(file, bad, " 640"), 107)
		}
		if _, err := os.Stat("/dev/full"); err == nil {
			link := filepath.Join(w.dir, "full")
			assert.NilError(t, os.Symlink("/dev/full", link))
			assert.Equal(t, put(file, link, " 640"), 107)
		}
		assert.NilError(t, os.Mkdir(file+".dir", 0o700))
		assert.Equal(t, put(file+".dir", new, " 640"), 103)
		status, _, out := w.run("echo on")
		assert.Equal(t, status, 0)
		assert.Equal(t, out[0], "on\n")
	})
}

// children returns the processes that process 1 has started itself.
func (w *talk) children() []string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", w.pid))
	assert.NilError(w.t, err)
	return strings.Fields(string(data))
}

// reading returns the process that reads raw bytes for process 1, when it waits for more
// of them: the newest of its children that was not there before.
func (w *talk) reading(before []string) int {
	reader := 0
	wait(w.t, "raw bytes are read", func() bool {
		for _, child := range w.children() {
			status, _ := os.ReadFile("/proc/" + child + "/syscall")
			if !slices.Contains(before, child) && strings.HasPrefix(string(status), "0 0x0 ") {
				reader, _ = strconv.Atoi(child)
			}
		}
		return reader != 0
	})
	return reader
}

// pieces returns operations that are followed by raw bytes, each with what comes before
// the bytes and with what may come behind.
func (w *talk) pieces(data string) map[string][2]string {
	put := string(Put(Word(filepath.Join(w.dir, "small")), "END123", []byte(data), 0o600))
	head, tail, _ := strings.Cut(put, data)
	return map[string][2]string{
		"upload": {string(Upload("upload", int64(len(data)))), ""},
		"put":    {head, tail},
	}
}

// Process 1 waits for what reads raw bytes, and nobody may make that wait last: the end
// of stdin would be missed.
func TestStoppedReader(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		data := strings.Repeat("x", transferBlock+1000)
		for i, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU} {
			for name := range (&talk{}).pieces(data) {
				w := start(t, shell, worker)
				op := w.pieces(data)[name]
				w.run(":")
				before := w.children()
				// In the first block, or in what is left behind the last.
				w.send(op[0] + data[:500+i%2*transferBlock])
				if i%2 == 1 && name == "upload" {
					wait(t, "the block is there", func() bool {
						info, err := os.Stat(filepath.Join(w.dir, name))
						return err == nil && info.Size() == transferBlock
					})
				}
				assert.NilError(t, syscall.Kill(w.reading(before), signal))
				select {
				case <-w.ended:
				case <-time.After(patience):
					t.Fatalf("%s: process 1 waits for what was stopped by %v", name, signal)
				}
			}
		}
	})
}

// Nor is a reader waited for that a signal has ended: the kernel ends one that may write
// no files. An upload ends the session then, and of a small file it is told.
func TestKilledReader(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		data := strings.Repeat("x", 1000)
		for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGXFSZ, syscall.SIGSEGV,
			syscall.SIGUSR2} {
			for name := range (&talk{}).pieces(data) {
				w := start(t, shell, worker)
				op := w.pieces(data)[name]
				w.run(":")
				before := w.children()
				w.send(op[0] + data[:500])
				assert.NilError(t, syscall.Kill(w.reading(before), signal))
				if name == "put" {
					w.send(data[500:] + op[1])
					status, _, _ := w.help(Help("put " + Word(filepath.Join(w.dir, "new")) + " " +
						Word(filepath.Join(w.dir, "small")) + " 600"))
					assert.Equal(t, status, 107, "%v", signal)
					continue
				}
				select {
				case <-w.ended:
				case <-time.After(patience):
					t.Fatalf("%s: process 1 waits for what was ended by %v", name, signal)
				}
			}
		}
	})
}

// Whatever process 1 starts for a transfer is stopped as soon as it shows, whatever it is
// about to be. Then the session ends, or the file is there. It may be there, and what has
// written it be stopped before its end: then the session ends a little later.
func TestReaderStoppedAtOnce(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		data := strings.Repeat("x", transferBlock+1000)
		w := start(t, shell, worker)
		for i := range 5 {
			w.run(":")
			before := w.children()
			done := make(chan struct{})
			var stopping sync.WaitGroup
			stopping.Go(func() {
				for {
					select {
					case <-done:
						return
					case <-w.ended:
						return // its number may be another's by now
					default:
					}
					now, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", w.pid))
					for _, child := range strings.Fields(string(now)) {
						if pid, err := strconv.Atoi(child); err == nil && !slices.Contains(before, child) {
							syscall.Kill(pid, syscall.SIGSTOP)
						}
					}
				}
			})
			name := fmt.Sprint("i", i)
			// It may end meanwhile.
			w.trySend(string(Upload(name, int64(len(data)))) + data)
			over := func() bool {
				select {
				case <-w.ended:
					return true
				default:
					return false
				}
			}
			wait(t, "the file is there, or the session has ended", func() bool {
				info, err := os.Stat(filepath.Join(w.dir, name))
				return over() || err == nil && info.Size() == int64(len(data))
			})
			close(done)
			stopping.Wait()
			w.trySend(Thaw + string(Next("on")) + string(Unit{Script: "echo on"}.Ops()))
			on := false
			wait(t, "the session goes on, or has ended", func() bool {
				select {
				case ev := <-w.events[0]:
					on = on || strings.HasPrefix(ev, fmt.Sprintf("%d on ", End))
				default:
				}
				return on || over()
			})
			if !on {
				w = start(t, shell, worker)
			}
		}
	})
}

// Signals that are not about the reader cost nothing, however many come.
func TestFloodOfSignalsDuringTransfers(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		w.run(":")
		over := make(chan struct{})
		flood := make(chan struct{})
		go func() {
			defer close(flood)
			for {
				select {
				case <-over:
					return
				case <-w.ended:
					return
				case <-time.After(50 * time.Microsecond):
					w.process.Signal(syscall.SIGCHLD)
				}
			}
		}()
		defer func() { close(over); <-flood }()
		data := strings.Repeat("x", transferBlock+1000)
		for i := range 10 {
			name := fmt.Sprint("i", i)
			w.send(string(Upload(name, int64(len(data)))) + data + Thaw)
			small := filepath.Join(w.dir, fmt.Sprint("small", i))
			ops := append(Put(Word(small+".new"), "END123", []byte(data[:100]), 0o600),
				Help("put "+Word(small)+" "+Word(small+".new")+" 600")...)
			status, _, _ := w.help(ops)
			assert.Equal(t, status, 0)
			info, err := os.Stat(small)
			assert.NilError(t, err)
			assert.Equal(t, info.Mode().Perm(), os.FileMode(0o600))
			assert.Equal(t, info.Size(), int64(100))
			status, _, out := w.run("wc -c <" + shellquote.Quote(filepath.Join(w.dir, name)))
			assert.Equal(t, status, 0)
			assert.Equal(t, strings.TrimSpace(out[0]), fmt.Sprint(len(data)))
		}
	})
}

// Who has the same user can open the files of a process, and trace it, if the kernel
// shows it as that user's.
func TestReaderIsNobodys(t *testing.T) {
	if _, err := exec.LookPath("setpriv"); err != nil || os.Geteuid() != 0 {
		leftout.Skip(t, "no process namespace can be made here for another user: %v", err)
	}
	const user = 65534
	shells(t, func(t *testing.T, shell, worker string) {
		w := startFor(t, user, shell, worker, true)
		for _, op := range w.pieces(strings.Repeat("x", 1000)) {
			status, _, _ := w.run("[ -O /proc/$$/fd ] && [ ! -O /proc/1/fd ]")
			assert.Equal(t, status, 0)
			before := w.children()
			w.send(op[0] + strings.Repeat("x", 500))
			info, err := os.Stat(fmt.Sprintf("/proc/%d/fd", w.reading(before)))
			assert.NilError(t, err)
			assert.Equal(t, info.Sys().(*syscall.Stat_t).Uid, uint32(0))
			w.send(strings.Repeat("x", 500) + op[1] + Thaw)
		}
	})
}

// A session that shares its namespace gets signals that are not meant for it, and loses
// nothing.
func TestSignalsDuringAnUpload(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := startAs(t, shell, worker, false)
		w.run(":")
		data := strings.Repeat("x", 1000)
		small := filepath.Join(w.dir, "small")
		for name, op := range map[string]string{
			filepath.Join(w.dir, "upload"): string(Upload("upload", int64(len(data)))) + data,
			small:                          string(Put(Word(small), "END123", []byte(data), 0o600)),
		} {
			half := strings.Index(op, data) + 500
			w.send(op[:half])
			wait(t, "half of it is there", func() bool {
				info, err := os.Stat(name)
				return err == nil && info.Size() <= 500
			})
			for range 3 {
				// To the process alone, which is this test's child.
				assert.NilError(t, syscall.Kill(w.pid, syscall.SIGTERM))
				time.Sleep(10 * time.Millisecond)
			}
			w.send(op[half:] + Thaw)
			wait(t, "all of it is there", func() bool {
				got, _ := os.ReadFile(name)
				return string(got) == data
			})
		}
		status, _, _ := w.run("exit 3")
		assert.Equal(t, status, 3)
	})
}

// Who reads the pipe of the output takes no mark of a helper's away: it was stopped
// before that, and has come to rest.
func TestHelperBesideReaders(t *testing.T) {
	alone(t, func(t *testing.T, shell string) {
		w := start(t, shell, shell)
		reading := filepath.Join(w.dir, "reading")
		// They get so little time that a signal reaches them late.
		reader := "exec </proc/self/fd/1 >/dev/null; while :; do :; done & >" + reading + "; while :; do read -r x; done"
		status, _, _ := w.run("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do (sleep 0.2; exec nice -n 19 " + shell +
			" -c " + shellquote.Quote(reader) + ") & done")
		assert.Equal(t, status, 0)
		wait(t, "the readers are there", func() bool {
			_, err := os.Stat(reading)
			return err == nil
		})
		for i := range 100 {
			status, told, _ := w.help(Help("cf_result=7"))
			assert.Assert(t, status == 0 && told == "7", "%d: %d %q", i, status, told)
		}
	})
}
