//go:build linux

package shellwire

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
)

// A talk is a supervisor in a process namespace of its own, and a host that does no more
// than it must.
type talk struct {
	t       testing.TB
	in      *os.File
	ops     *os.File       // its descriptor 3
	blocks  bool           // units go by that
	env     []string       // of each unit alone
	events  [2]chan string // output, and marks as they are, of stdout and stderr
	n       int
	worker  int
	dir     string
	first   int // ticks before anything is sent to end what runs
	pid     int
	process *os.Process
	ended   chan struct{} // closed when process 1 has ended
	status  int           // with which it has ended
}

// patience is for what takes a moment on an idle machine.
const patience = time.Minute

// start starts a supervisor for a namespace, with shell as process 1.
func start(t testing.TB, shell, worker string) *talk {
	t.Helper()
	return startAs(t, shell, worker, true)
}

// startAs starts a supervisor for a namespace, or for a process group. It has both to
// itself in either case.
func startAs(t testing.TB, shell, worker string, namespace bool) *talk {
	t.Helper()
	return startFor(t, os.Geteuid(), shell, worker, namespace)
}

// startFor is startAs for a user, to whom it takes setpriv if that is not the test's own.
func startFor(t testing.TB, user int, shell, worker string, namespace bool) *talk {
	t.Helper()
	return startSeeing(t, "", user, shell, worker, namespace)
}

// startSeeing is startFor where a directory has the place of /sys/fs/cgroup, unless it is
// empty.
func startSeeing(t testing.TB, cgroup string, user int, shell, worker string, namespace bool) *talk {
	t.Helper()
	return startAlive(t, 0, cgroup, user, shell, worker, namespace)
}

// startAlive is startSeeing with a keep-alive, unless that is zero.
func startAlive(t testing.TB, keepAlive time.Duration, cgroup string, user int, shell, worker string, namespace bool) *talk {
	t.Helper()
	enginetest.Beside(t)
	w := &talk{t: t, worker: 1, dir: t.TempDir(), first: 1, ended: make(chan struct{})}
	by := ""
	if user != os.Geteuid() {
		by = fmt.Sprintf("setpriv --reuid=%d --regid=%[1]d --clear-groups --", user)
		for _, dir := range []string{w.dir, filepath.Dir(w.dir)} {
			assert.NilError(t, os.Chown(dir, user, user))
		}
	}
	cmd := exec.Command(shell, Boot()[1:]...)
	// Its own mount namespace, for a /proc that shows the new processes.
	see := ""
	if cgroup != "" {
		see = "mount --bind " + shellquote.Quote(cgroup) + " /sys/fs/cgroup && "
	}
	cmd.Args = append([]string{"sh", "-c", see + `mount -t proc proc /proc && exec ` + by + ` "$@"`, "sh", shell}, Boot()[1:]...)
	cmd.Path = "/bin/sh"
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		Unshareflags: syscall.CLONE_NEWNS, Setpgid: true}
	var files [3]*os.File
	for i := range files {
		r, pw, err := os.Pipe()
		assert.NilError(t, err)
		inside, outside := pw, r
		if i == 0 {
			inside, outside = r, pw
		}
		files[i] = outside
		// Engines do so, and a worker opens its streams by their names.
		assert.NilError(t, inside.Chown(user, user))
		defer inside.Close()
		switch i {
		case 0:
			cmd.Stdin = inside
		case 1:
			cmd.Stdout = inside
		case 2:
			cmd.Stderr = inside
		}
	}
	var err error
	fifo := filepath.Join(w.dir, "ops")
	assert.NilError(t, syscall.Mkfifo(fifo, 0o600))
	assert.NilError(t, os.Chmod(fifo, 0o666))
	w.ops, err = os.OpenFile(fifo, os.O_RDWR|syscall.O_NONBLOCK, 0)
	assert.NilError(t, err)
	t.Cleanup(func() { w.ops.Close() })
	inside, err := os.OpenFile(fifo, os.O_RDWR, 0)
	assert.NilError(t, err)
	defer inside.Close()
	assert.NilError(t, os.Remove(fifo))
	cmd.ExtraFiles = []*os.File{inside}
	if err := cmd.Start(); err != nil {
		leftout.Skip(t, "no process namespace can be made here: %v", err)
	}
	w.in, w.pid, w.process = files[0], cmd.Process.Pid, cmd.Process
	for i := range w.events {
		ch := make(chan string, 1000)
		w.events[i] = ch
		go read(files[i+1], ch, i == 0)
	}
	go func() {
		cmd.Wait()
		w.status = cmd.ProcessState.ExitCode()
		close(w.ended)
	}()
	t.Cleanup(func() {
		w.in.Close()
		for _, ch := range w.events {
			go func() {
				for range ch {
				}
			}()
		}
		select {
		case <-w.ended:
		case <-time.After(patience):
			cmd.Process.Kill()
			t.Error("process 1 outlives the end of its stdin")
		}
	})
	w.send(string(Setup{Prefix: testPrefix, Dir: w.dir, Namespace: namespace, Worker: []string{worker},
		KeepAlive: keepAlive}.Text()))
	return w
}

// read writes what a stream holds to the channel: "=" and output, or a mark.
func read(f *os.File, ch chan string, stdout bool) {
	defer close(ch)
	defer f.Close()
	p := Parser{
		Prefix: testPrefix, Stdout: stdout,
		Output: func(b []byte) { ch <- "=" + string(b) },
		Mark:   func(m Mark) { ch <- fmt.Sprintf("%d %s %d %d %s", m.Kind, m.Tag, m.Generation, m.Status, m.Dir) },
	}
	p.parseAll(f)
}

// parseAll parses what comes until there is no more.
func (p *Parser) parseAll(r io.Reader) {
	buf := make([]byte, 64<<10)
	held := 0
	for {
		n, err := r.Read(buf[held:])
		data := buf[:held+n]
		held = p.Parse(data)
		copy(buf, data[len(data)-held:])
		if err != nil {
			p.Flush(buf[:held])
			return
		}
	}
}

func (w *talk) send(ops string) {
	w.t.Helper()
	assert.NilError(w.t, w.trySend(ops))
}

// trySend is send to a process 1 that may have ended. It does not wait for ever for one
// that reads no more.
func (w *talk) trySend(ops string) error {
	if err := w.in.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := io.WriteString(w.in, ops)
	return err
}

// operate sends operations, which may go by a block where there are blocks.
func (w *talk) operate(ops []byte) {
	var block []byte
	if w.blocks {
		block = Block(testPrefix, ops)
	}
	if block == nil || len(block) > 32<<10 {
		w.send(string(ops))
		return
	}
	_, err := w.ops.Write(block)
	assert.NilError(w.t, err)
	w.send(ReadBlock)
}

const (
	lost   = -1 // the worker was killed, nobody knows how
	silent = -2 // nothing came in time
)

// at returns what is sent at a tick of those that are to end what runs, or nothing. They
// are sent again and again: what they were to end may not have begun.
func (w *talk) at(tick int, after []string) string {
	const again = 20
	if n := tick%again - w.first; n >= 0 && n < len(after) {
		return after[n]
	}
	return ""
}

// run runs a script and returns its status, or lost or silent, whether the worker is
// another now, and what was printed. What is sent after a delay is sent if the script
// still runs then.
func (w *talk) run(script string, after ...string) (status int, died bool, out [2]string) {
	w.t.Helper()
	return w.runReady("", script, after...)
}

// runReady is run, but nothing is sent before the script has said that it is ready.
func (w *talk) runReady(ready, script string, after ...string) (status int, died bool, out [2]string) {
	w.t.Helper()
	return w.runUnit(ready, Unit{Script: script, Env: w.env}, after...)
}

// runUnit is runReady for any unit.
func (w *talk) runUnit(ready string, unit Unit, after ...string) (status int, died bool, out [2]string) {
	w.t.Helper()
	w.n++
	tag := fmt.Sprintf("T%d", w.n)
	w.send(string(Next(tag)))
	w.operate(unit.Ops())
	status = silent
	end := time.NewTimer(patience)
	defer end.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	ticks := 0
	for i := range w.events {
		for done := false; !done; {
			select {
			case ev, ok := <-w.events[i]:
				var kind, gen, st int
				var of string
				switch {
				case !ok:
					return silent, true, out
				case ev[0] == '=':
					out[i] += ev[1:]
				case strings.HasPrefix(ev, fmt.Sprintf("%d %s ", End, tag)):
					fmt.Sscanf(ev, "%d %s %d %d", &kind, &of, &gen, &st)
					done = true
				default:
					if _, err := fmt.Sscanf(ev, "%d  %d %d", &kind, &gen, &st); err == nil && gen == w.worker {
						died, done = true, true
					}
				}
				if done && i == 0 {
					status = st
				}
			case <-tick.C:
				if strings.HasPrefix(out[0], ready) {
					ticks++
				}
				w.send(cmp.Or(w.at(ticks, after), Tick))
			case <-end.C:
				return silent, died, out
			}
		}
	}
	if died {
		w.worker++
		w.send(StartWorker)
	}
	return status, died, out
}

// shells runs a test with each shell as process 1 and each as the worker. With -short
// each has one worker, and the length of the test's name says which.
func shells(t *testing.T, f func(t *testing.T, shell, worker string)) {
	paths := installed(t)
	for i, shell := range paths {
		for k, worker := range paths {
			if testing.Short() && (i+k+len(t.Name()))%len(paths) != 0 {
				continue
			}
			t.Run(filepath.Base(shell)+" runs "+filepath.Base(worker), func(t *testing.T) { f(t, shell, worker) })
		}
	}
}

// installed returns links to the shells that there are, each with its name.
func installed(t *testing.T) []string {
	paths := []string{}
	dir := t.TempDir()
	// Another user's process 1 runs them too.
	assert.NilError(t, os.Chmod(filepath.Dir(dir), 0o711))
	for name, program := range map[string]string{"ash": "busybox", "dash": "dash", "bash": "bash"} {
		path, err := exec.LookPath(program)
		if err != nil {
			leftout.Note(t, "%s: %v", name, err)
			continue
		}
		link := filepath.Join(dir, name)
		assert.NilError(t, os.Symlink(path, link))
		paths = append(paths, link)
	}
	slices.Sort(paths)
	return paths
}

// every holds all bytes that shell text can hold, in an order in which no two make a
// character.
func every() string {
	var b strings.Builder
	for c := 1; c < 256; c++ {
		if c != '\'' {
			b.WriteByte(byte(c))
		}
	}
	return b.String()
}

// A copy of the worker reads a script, and what happens to it there is told of as of a
// program: the worker lives and learns nothing.
func TestForks(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		name := filepath.Join(t.TempDir(), "script")
		if status, _, out := w.run("set -Ceuvx; alias .=false; command() { :; }; x=1"); status != 0 {
			t.Fatal(status, out)
		}
		for _, c := range []struct {
			script, out string
			status      int
		}{
			{`\command printf '%s.' "$@"; x=2; \command exit 3`, "a\nb'.c " + strings.Repeat("d\n", 5000) + ".", 3},
			{`cat; echo "$not_set $x"; (exit 4); exit`, " 1\n", 4},
			{"sh -c 'kill -9 $PPID'", "", 128 + 9},
			{"trap 'echo ended; exit 5' TERM; sh -c 'kill -TERM $PPID'; sleep 4811", "ended\n", 5},
			{"", "", 0},
		} {
			assert.NilError(t, os.WriteFile(name, []byte(c.script+"\n"), 0o644))
			status, died, out := w.runUnit("", Unit{Argv: []string{name, "a\nb'", "c " + strings.Repeat("d\n", 5000)}, Fork: true})
			assert.Equal(t, status, c.status, c.script)
			assert.Assert(t, !died, c.script)
			assert.Equal(t, out[0], c.out, c.script)
			assert.Equal(t, out[1], "", c.script)
		}
		assert.NilError(t, os.Remove(name))
		status, died, _ := w.runUnit("", Unit{Argv: []string{name}, Fork: true})
		assert.Assert(t, status > 0 && !died, "%d", status)
		status, _, out := w.run("set +Ceuvx; echo $x")
		assert.Equal(t, status, 0)
		assert.Equal(t, out[0], "1\n")
	})
}

func TestUnits(t *testing.T) {
	const anything, failure = "*", 1000
	for _, locale := range []string{"C", "C.UTF-8"} {
		t.Setenv("LC_ALL", locale)
		shells(t, func(t *testing.T, shell, worker string) {
			w := start(t, shell, worker)
			w.blocks = locale != "C"
			for _, c := range []struct {
				script, out, errOut string
				status              int
				died                bool
			}{
				{"echo hi", "hi\n", "", 0, false},
				{"printf hi; printf err >&2; (exit 3)", "hi", "err", 3, false},
				{"return 3", "", "", 3, false},
				{"exit 3", "", "", 3, true},
				{"cat", "", "", 0, false},
				{"read x", "", "", 1, false},
				{"exec >/dev/null; echo no", "", "", 0, false},
				{"echo back; exec 2>/dev/null", "back\n", "", 0, false},
				{"x=5; cd /tmp; f() { echo $x; }; alias a=b", "", "", 0, false},
				{"f; pwd", "5\n/tmp\n", "", 0, false},
				{"echo $LC_ALL", locale + "\n", "", 0, false},
				{"set -e; false", "", "", 1, true},
				{"kill -9 $$", "", "", 137, true},
				{"echo again", "again\n", "", 0, false},
				{"set -x", "", "", 0, false},
				{"set +x", "", anything, 0, false},
				{"set -v", "", "", 0, false},
				{"echo said", "said\n", anything, 0, false},
				{"set +v", "", anything, 0, false},
				{"alias command=false eval=false printf=false exec=false", "", "", 0, false},
				{"unalias -a; IFS=0123456789; set -u", "", "", 0, false},
				{"printf() { :; }; read() { :; }; cd() { :; }; test() { :; }", "", "", 0, false},
				{"exit 9", "", "", 9, true},
				{"set -u; unset PWD; echo $not_set", "", anything, failure, true},
				{"printf '%s' '" + every() + "'", every(), "", 0, false},
				{"printf '%s' 'a\nb\n\n c \n\n'", "a\nb\n\n c \n\n", "", 0, false},
				{"printf '%s' 'half \xc3\nhalf \xe2\x82\n'", "half \xc3\nhalf \xe2\x82\n", "", 0, false},
				{"cat <<E\nhello\nE", "hello\n", "", 0, false},
				{"cat <<E; cat", "", anything, 0, false},
				{"break; continue; echo on", "on\n", anything, 0, false},
				{"for x in 1 2; do echo $x; break; done", "1\n", "", 0, false},
				{"exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; echo closed", "closed\n", "", 0, false},
				{"ls /proc/self/fd | wc -l", anything, "", 0, false},
				{"set -n", "", "", 0, true},
				{"exec sleep 0.1", "", "", 0, true},
				{"trap 'echo bye' EXIT; exit 7", "bye\n", "", 7, true},
				{"echo 'abc", "", anything, failure, false},
				{"if", "", anything, failure, false},
				{"echo \\", "", anything, 0, false},
				{"printf '%s' '" + strings.Repeat("0123456789", 20000) + "' | wc -c", "200000\n", "", 0, false},
				{strings.Repeat("x='aé\u0081'\n", 3000) + "printf %s $x", "aé\u0081", "", 0, false},
				{"sleep 100 & echo end; exit 5", "end\n", "", 5, true},
				{"echo " + testPrefix + "eT1 0 /" + testPrefix, "", "", 0, false},
				{"echo last", "last\n", "", 0, false},
			} {
				status, died, out := w.run(c.script)
				name := fmt.Sprintf("%.60q", c.script)
				assert.Assert(t, status != silent, name)
				if c.status == failure {
					assert.Assert(t, status > 0, name)
				} else {
					assert.Equal(t, status, c.status, name)
				}
				// dash and bash differ in whether some errors end a shell.
				if c.status != failure && !strings.HasPrefix(c.script, "echo \\") {
					assert.Equal(t, died, c.died, name)
				}
				if c.out != anything && !strings.HasPrefix(c.script, "echo \\") {
					assert.Equal(t, out[0], c.out, name)
				}
				if c.errOut != anything {
					assert.Equal(t, out[1], c.errOut, name)
				}
			}
		})
	}
}

// What a command breaks of what watches over it costs the command, or the shell, and
// never the session.
func TestAttacksOnTheSession(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		if filepath.Base(worker) != filepath.Base(shell) && filepath.Base(worker) != "bash" {
			return // no image's default
		}
		for _, c := range []struct {
			name, script string
			after        []string // sent when it does not end by itself
		}{
			{"the worker's parent is killed", "kill -9 $PPID", nil},
			{"the worker's parent is killed while a command runs", "kill -9 $PPID; sleep 0.3; exit 4", nil},
			{"everything is killed by a child", "sh -c 'kill -9 -1'; sleep 100", nil},
			{"everything is killed by the shell", "kill -9 -1; sleep 0.2", nil},
			{"everything is stopped by a child", "sh -c 'kill -STOP -1'; echo x", []string{Terminate, Kill, KillWorker}},
			{"the shell stops itself", "kill -STOP $$", []string{Terminate, Kill, KillWorker}},
			{"the worker's parent is stopped", "kill -STOP $PPID; exit 3", nil},
			{"terminate everything", "sh -c 'kill -TERM -1'; echo x", nil},
			{"process 1 is signalled", "s=1; while [ $s -lt 65 ]; do kill -$s 1; s=$((s + 1)); done", nil},
			{"eval and command are functions", "command() { :; }; eval() { :; }", []string{KillWorker}},
			{"a loop of the shell", "while :; do :; done", []string{Terminate, Kill, KillWorker}},
			{"a child that ignores TERM", "trap '' TERM; sleep 100", []string{Terminate, Kill}},
			{"the command's pipes are stuffed",
				"for f in /proc/$$/fd/8 /proc/$$/fd/9; do (exec 7<>$f; dd if=/dev/zero bs=65536 count=1 >&7) 2>/dev/null; done", []string{Terminate, Kill, KillWorker}},
			{"the event is faked", "for f in 8 9; do (sleep 0.2 1<>/proc/$$/fd/$f) & done; wait", nil},
			{"the unit is overwritten", "echo 'echo fake' >/proc/$$/fd/6; echo 'exit 1' >/proc/$$/fd/3", nil},
			{"the script is overwritten", `for f in /proc/$$/fd/*; do
				case $(readlink $f) in *"/s (deleted)") echo 'exit 1' >$f ;; esac
			done; kill -9 $$`, nil},
			{"a job that prints is left behind", "while :; do echo noise; sleep 0.01; done &", nil},
			{"a process with a name to break the walk", `cp /bin/sleep "/tmp/x) S 9 1" && "/tmp/x) S 9 1" 100`,
				[]string{Terminate, Kill}},
			{"a process with a newline in its name", "cp /bin/sleep '/tmp/x) S\n1 1' && '/tmp/x) S\n1 1' 100",
				[]string{Terminate, Kill}},
			{"a daemon", "setsid sleep 100 & sleep 100", []string{Terminate, Kill}},
		} {
			t.Run(c.name, func(t *testing.T) {
				if strings.Contains(c.script, "setsid") {
					if _, err := exec.LookPath("setsid"); err != nil {
						leftout.Skip(t, "no setsid here")
					}
				}
				w := start(t, shell, worker)
				status, _, out := w.run("echo ready")
				assert.Equal(t, status, 0)
				assert.Equal(t, out[0], "ready\n")
				w.run(c.script, c.after...)
				// The first may find that nobody watches over the worker any more, or
				// that the worker is beyond use. One that is only slow is not ended.
				w.first = 10
				for range 4 {
					status, died, out := w.run("echo again", Terminate, Kill, KillWorker)
					t.Log(status, died, out)
					if status == 0 && strings.Contains(out[0], "again\n") {
						return
					}
				}
				t.Fatal("the session is beyond use")
			})
		}
	})
}

// A kill takes what the command has started, whatever it did to hide, and spares what
// earlier commands left running.
func TestKillSparesEarlierJobs(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		status, _, out := w.run("sleep 1000 & echo $!; sleep 0.1")
		assert.Equal(t, status, 0)
		job := strings.TrimSpace(out[0])
		const said = "ready\n"
		status, died, _ := w.runReady(said,
			"v=kept; (sleep 1001 & setsid sleep 1002 & (sleep 1003 &) ); trap '' TERM; sh -c 'trap \"\" TERM; echo "+
				"ready; sleep 1004'", Terminate, Kill)
		assert.Equal(t, status, 128+9)
		assert.Assert(t, !died)
		w.sleepers("sleep 1000 \n")
		status, _, out = w.run("echo $v; kill -9 " + job)
		assert.Equal(t, status, 0)
		assert.Equal(t, out[0], "kept\n")
	})
}

// sleepers looks for the sleep commands that live on. What was killed may still show for
// a moment.
func (w *talk) sleepers(want string) {
	w.t.Helper()
	var out [2]string
	for range 50 {
		if _, _, out = w.run("for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done 2>/dev/null | grep '^sleep'"); out[0] == want {
			return
		}
	}
	assert.Equal(w.t, out[0], want)
}

// However much is orphaned, it is gathered: the process limit is not filled by the dead.
func TestOrphansAreGathered(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		for range 10 {
			status, _, _ := w.run("for i in 1 2 3 4 5 6 7 8 9 10; do (true &); done")
			assert.Equal(t, status, 0)
		}
		var out [2]string
		for range 100 {
			_, _, out = w.run("sleep 0.05; grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l")
			if strings.TrimSpace(out[0]) == "0" {
				return
			}
		}
		t.Fatalf("%s zombies are left", out[0])
	})
}

// Raw bytes reach a file whole, and nothing of them is taken for an operation.
func TestUpload(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		data := strings.Repeat("kKILL\nw\n\x00\xff"+every(), 1000)
		w.send(string(Upload("i", int64(len(data)))) + data + Thaw)
		status, _, out := w.run("cat " + shellquote.Quote(w.dir+"/i"))
		assert.Equal(t, status, 0)
		assert.Assert(t, out[0] == data)
	})
}

// look notes the counts, calls f, and returns what a look tells.
func (w *talk) look(f func()) string {
	w.t.Helper()
	w.n++
	w.send(Note)
	status, _, _ := w.run(":") // the note was taken
	assert.Equal(w.t, status, 0)
	f()
	tag := fmt.Sprintf("L%d", w.n)
	w.send(string(Next(tag)) + Look)
	end := time.After(patience)
	for {
		select {
		case ev, ok := <-w.events[0]:
			if told, found := strings.CutPrefix(ev, fmt.Sprintf("%d %s 0 0 ", End, tag)); found {
				return told
			}
			assert.Assert(w.t, ok, "process 1 has ended")
		case <-end:
			w.t.Fatal("no answer")
		}
	}
}

// The counts are those of the container's own control group, or they are not known. The
// files are recorded ones.
func TestCounts(t *testing.T) {
	type tree map[string]string
	const oomControl = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"
	v1 := tree{"pids/pids.current": "1\n", "pids/pids.max": "256\n", "cpuacct/cpuacct.usage": "22339183\n",
		"memory/memory.max_usage_in_bytes": "10018816\n", "memory/memory.oom_control": oomControl}
	v2 := tree{"pids.current": "1\n", "pids.max": "256\n",
		"cpu.stat":      "usage_usec 22339\nuser_usec 9841\nsystem_usec 12498\nnice_usec 0\nnr_periods 4\nnr_throttled 0\n",
		"memory.peak":   "10018816\n",
		"memory.events": "low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 0\n"}
	with := func(base, more tree) tree {
		all := maps.Clone(base)
		maps.Copy(all, more)
		maps.DeleteFunc(all, func(_, text string) bool { return text == "" })
		return all
	}
	for _, c := range []struct {
		name  string
		files tree
		later tree   // after the note
		link  string // to where the processor's files are
		want  string
	}{
		{"version 1", v1, tree{"cpuacct/cpuacct.usage": "322339183\n", "memory/memory.max_usage_in_bytes": "77127680\n"}, "",
			"3 - 22339183 10018816 322339183 77127680 1"},
		{"version 1, two in one", with(v1, tree{"cpuacct/cpuacct.usage": "", "cpu,cpuacct/cpuacct.usage": "5\n"}), nil,
			"cpu,cpuacct", "3 - 5 10018816 5 10018816 1"},
		{"version 2", v2, tree{"cpu.stat": "usage_usec 322339\n", "memory.peak": "77127680\n", "memory.events": "oom_kill 4\n"},
			"", "4 - 22339000 10018816 322339000 77127680 1"},
		{"Linux before 5.19", with(v2, tree{"memory.peak": ""}), nil, "", "3 - 22339000 - 22339000 - 1"},
		{"another's", with(v2, tree{"pids.current": "2\n"}), nil, "", "3 - - - - - 1"},
		{"the machine's", tree{"cpu.stat": v2["cpu.stat"]}, nil, "", "- - - - - - 1"},
		{"nothing", tree{"none": "1"}, tree{"memory.peak": "1\n", "cpu.stat": "usage_usec 1\n"}, "", "- - - - - - 1"},
		{"no words", with(v2, tree{"cpu.stat": "\n", "memory.peak": "\n", "memory.events": "\n"}), nil, "", "- - - - - - 1"},
		{"half a line", with(v2, tree{"cpu.stat": "usage_usec"}), nil, "", "3 - - 10018816 - 10018816 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			alone(t, func(t *testing.T, shell string) {
				dir := t.TempDir()
				write := func(files tree) {
					for name, text := range files {
						path := filepath.Join(dir, name)
						assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
						assert.NilError(t, os.WriteFile(path, []byte(text), 0o644))
					}
				}
				write(c.files)
				if c.link != "" {
					assert.NilError(t, os.Symlink(c.link, filepath.Join(dir, "cpuacct")))
				}
				w := startSeeing(t, dir, os.Geteuid(), shell, shell, true)
				assert.Equal(t, w.look(func() { write(c.later) }), c.want)
			})
		})
	}
	// Without a namespace of processes the group is another's.
	shells(t, func(t *testing.T, shell, worker string) {
		t.Setenv("cf_pids", "1")
		w := startAs(t, shell, worker, false)
		told := w.look(func() {})
		assert.Assert(t, strings.HasSuffix(told, " - - - - - 0"), told)
	})
}

func BenchmarkRoundTrip(b *testing.B) {
	for _, shell := range []string{"dash", "bash"} {
		b.Run(shell, func(b *testing.B) {
			path, err := exec.LookPath(shell)
			if err != nil {
				leftout.Skip(b, "%v", err)
			}
			w := start(b, path, path)
			w.run(":")
			for b.Loop() {
				w.run(":")
			}
		})
	}
}

// A trap that leaves the wait for the next unit does not run the last one again.
func TestTrapThatBreaks(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		units := filepath.Join(w.dir, "units")
		status, _, _ := w.run("trap break USR1; echo unit >>" + units)
		assert.Equal(t, status, 0)
		status, _, out := w.run("echo unit >>" + units + "; { sleep 0.1; kill -USR1 $$; echo sent >>" + units + "; } &")
		assert.Equal(t, status, 0, "%q", out)
		wait(t, "the worker is told", func() bool {
			text, _ := os.ReadFile(units)
			return strings.HasSuffix(string(text), "sent\n")
		})
		// If the worker has ended, this is what finds out.
		for died := true; died; {
			status, died, out = w.run("echo next")
		}
		assert.Assert(t, status == 0 && out[0] == "next\n", "%d %q", status, out)
		text, err := os.ReadFile(units)
		assert.NilError(t, err)
		assert.Equal(t, string(text), "unit\nunit\nsent\n")
	})
}

// A trap that leaves the loop in which a program runs does not hide how that ended, or
// ends the worker.
func TestTrapThatBreaksAProgram(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		status, _, _ := w.run("trap break USR1")
		assert.Equal(t, status, 0)
		status, died, out := w.runUnit("", Unit{Argv: []string{"sh", "-c", "kill -USR1 $PPID; exit 7"}})
		assert.Assert(t, status == 7 && !died || status == 98 && died, "%d %v %q", status, died, out)
		status, died, out = w.run("echo next")
		assert.Assert(t, status == 0 && !died && out[0] == "next\n", "%d %v %q", status, died, out)
	})
}

// A directory that is too long for a mark does not hide it.
func TestLongDir(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		for _, size := range []int{3999, 4000, 9999, 10000, 100000} {
			status, died, out := w.run(fmt.Sprintf("PWD=$(printf %%0%dd 0); echo ${#PWD}", size))
			assert.Assert(t, status == 0 && !died, "%d: %d %v %q", size, status, died, out)
		}
	})
}
