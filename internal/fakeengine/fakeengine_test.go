//go:build unix

package fakeengine

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"
)

func TestMain(m *testing.M) {
	Main()
	isolation() // is tried out once: what it takes is nothing that a test leaves behind
	os.Exit(m.Run())
}

// each runs a test over both kinds.
func each(t *testing.T, f func(t *testing.T, kind dockercli.Kind)) {
	for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman} {
		t.Run(kind.String(), func(t *testing.T) { f(t, kind) })
	}
}

// eachIsolated runs a test that takes containers over both kinds, and fails it on
// anything left behind.
func eachIsolated(t *testing.T, f func(t *testing.T, kind dockercli.Kind)) {
	NeedIsolation(t)
	each(t, func(t *testing.T, kind dockercli.Kind) {
		enginetest.Check(t)
		t.Cleanup(func() { noMount(t) })
		f(t, kind)
	})
}

// noMount fails the test if the machine sees a container's mounts, all of which lie below
// the test's temporary directory.
func noMount(t *testing.T) {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	assert.NilError(t, err)
	for line := range strings.Lines(string(table)) {
		assert.Assert(t, !strings.Contains(line, os.TempDir()), line)
	}
}

// A buffer may be read while it is written to.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// A session is a client of a run.
type session struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  *bufio.Reader
	stderr buffer
	ended  chan struct{}
}

func options(name string, command ...string) dockercli.RunOptions {
	return dockercli.RunOptions{
		Name: name, Labels: map[string]string{"cofferdam.test": "yes"}, Remove: true, Interactive: true,
		Pull: "never", Network: "none",
		LogDriver: "none", Image: "example.com/image:1", Command: command,
	}
}

var anyLabel = map[string]string{"cofferdam.test": ""}

func begin(t *testing.T, e *Engine, o dockercli.RunOptions, env ...string) *session {
	t.Helper()
	argv, err := e.RunArgs(o)
	assert.NilError(t, err)
	s := &session{t: t, ended: make(chan struct{})}
	s.cmd = exec.Command(argv[0], argv[1:]...)
	s.cmd.Env = slices.Concat(e.Env, env)
	s.cmd.SysProcAttr = ownSession()
	s.cmd.Stderr = &s.stderr
	s.cmd.WaitDelay = time.Second
	s.stdin, err = s.cmd.StdinPipe()
	assert.NilError(t, err)
	r, w := io.Pipe()
	s.cmd.Stdout = w
	s.lines = bufio.NewReader(r)
	assert.NilError(t, s.cmd.Start())
	go func() {
		_ = s.cmd.Wait()
		w.Close()
		close(s.ended)
	}()
	t.Cleanup(func() {
		s.stdin.Close()
		_ = s.cmd.Process.Kill()
		r.Close()
		<-s.ended
	})
	return s
}

// say sends a line and returns the answer.
func (s *session) say(line string) string {
	s.t.Helper()
	_, err := io.WriteString(s.stdin, line+"\n")
	assert.NilError(s.t, err)
	return s.hear()
}

func (s *session) hear() string {
	s.t.Helper()
	type answer struct {
		line string
		err  error
	}
	heard := make(chan answer, 1)
	go func() {
		line, err := s.lines.ReadString('\n')
		heard <- answer{line, err}
	}()
	select {
	case a := <-heard:
		assert.NilError(s.t, a.err, "stderr: %s", s.stderr.String())
		return strings.TrimSuffix(a.line, "\n")
	case <-time.After(patience):
		s.t.Fatalf("the container says nothing; stderr: %s", s.stderr.String())
		return ""
	}
}

// exit waits for the client and returns its exit code and what was left of stdout.
func (s *session) exit() (int, string) {
	s.t.Helper()
	rest := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(s.lines)
		rest <- string(b)
	}()
	s.wait()
	return s.cmd.ProcessState.ExitCode(), <-rest
}

func (s *session) wait() {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.t.Fatalf("the client does not end; stderr: %s", s.stderr.String())
	}
}

// patience is for what takes a moment on an idle machine.
const patience = time.Minute

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if condition() {
			return poll.Success()
		}
		return poll.Continue("not yet: %s", what)
	}, poll.WithTimeout(patience), poll.WithDelay(10*time.Millisecond))
}

// loop evaluates what it reads, line by line, as process 1.
var loop = []string{"sh", "-c", `echo "ready $$"; while IFS= read -r line; do eval "$line"; done; exit 7`}

func ctxOf(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// abandoned makes a call that is not answered, and has its context end as at a deadline,
// but only when it was made. It returns how long after that the call went on, and its
// error.
func abandoned(t *testing.T, call func(ctx context.Context) error, made func() bool) (after time.Duration, err error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- call(ctx) }()
	eventually(t, "the call was made", made)
	select {
	case err := <-done:
		t.Fatalf("it was answered: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	end := time.Now()
	cancel(context.DeadlineExceeded)
	err = <-done
	return time.Since(end), err
}

// calls returns what says that so many calls were made.
func calls(e *Engine, n int) func() bool { return func() bool { return len(e.Calls()) >= n } }

// listed returns a call of ps.
func listed(e *Engine) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := e.PS(ctx, anyLabel)
		return err
	}
}

func TestIsFoundLikeARealEngine(t *testing.T) {
	each(t, func(t *testing.T, kind dockercli.Kind) {
		enginetest.Check(t)
		e := New(t, kind, Faults{})
		for _, entry := range e.Env {
			if value, ok := strings.CutPrefix(entry, stateVar+"="); ok {
				t.Setenv(stateVar, value)
			}
		}
		found, err := dockercli.Lookup(ctxOf(t), e.Path)
		assert.NilError(t, err)
		found.Env, found.Global = e.Env, nil
		assert.DeepEqual(t, found, e.Engine)

		info, err := e.Info(ctxOf(t))
		assert.NilError(t, err)
		assert.Equal(t, info.ServerVersion, e.ServerVersion)
		assert.Assert(t, info.MemoryLimit && info.PidsLimit && !info.Rootless)
		image, err := e.InspectImage(ctxOf(t), "alpine")
		assert.NilError(t, err)
		assert.DeepEqual(t, image, &dockercli.Image{ID: imageID, Command: []string{"sh"}, Platform: "linux/" + runtime.GOARCH})
		assert.DeepEqual(t, e.Calls()[0], []string{"--version"})
	})
}

func TestConversation(t *testing.T) {
	eachIsolated(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{})
		s := begin(t, e, options("talk", loop...))
		assert.Equal(t, s.hear(), "ready 1")
		assert.Equal(t, s.say("x=5; echo to stderr >&2; echo hello"), "hello")
		assert.Equal(t, s.say("echo $x"), "5")
		noMount(t)
		c, err := e.Inspect(ctxOf(t), "talk")
		assert.NilError(t, err)
		assert.Assert(t, c.Running && c.Started)
		assert.Equal(t, c.Labels["cofferdam.test"], "yes")
		// What makes process 1 unreadable works.
		assert.Equal(t, s.say(`cp /proc/$$/exe /tmp/sh && chmod 111 /tmp/sh && exec /tmp/sh -c 'echo $$; read x; `+
			`echo $x; exit 3'`), "1")
		assert.Equal(t, s.say("bye"), "bye")
		code, rest := s.exit()
		assert.Equal(t, code, 3)
		assert.Equal(t, rest, "")
		assert.Equal(t, s.stderr.String(), "to stderr\n")
		assert.Equal(t, len(e.Containers()), 0)
		_, err = e.Inspect(ctxOf(t), "talk")
		assert.ErrorIs(t, err, dockercli.ErrNoContainer)
	})
}

func TestEndOfStdinReachesTheContainer(t *testing.T) {
	eachIsolated(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{})
		s := begin(t, e, options("end", loop...))
		s.hear()
		s.stdin.Close()
		code, _ := s.exit()
		assert.Equal(t, code, 7)

		// So it does when the client is killed, although the host still holds the pipe.
		s = begin(t, e, options("end", loop...))
		s.hear()
		assert.NilError(t, s.cmd.Process.Kill())
		eventually(t, "the container is gone", func() bool { return len(e.Containers()) == 0 })
	})
}

func TestContainerOutlivesItsClient(t *testing.T) {
	eachIsolated(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{})
		// It also prints more than any pipe holds, which must neither stop nor end it.
		s := begin(t, e, options("stay", "sh", "-c",
			"echo ready; cat; head -c 1000000 /dev/zero; echo done >/tmp/done; exec sleep 1000"))
		s.hear()
		pid := e.Pid("stay")
		assert.NilError(t, syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL))
		s.wait()
		eventually(t, "it has printed all", func() bool {
			code, _, err := e.Exec(ctxOf(t),
				dockercli.ExecOptions{Container: "stay", Command: []string{"test", "-e", "/tmp/done"}})
			return err == nil && code == 0
		})
		assert.Equal(t, e.Pid("stay"), pid)
		names, err := e.PS(ctxOf(t), map[string]string{"cofferdam.test": "yes"})
		assert.NilError(t, err)
		assert.DeepEqual(t, names, []string{"stay"})
		assert.NilError(t, e.Remove(ctxOf(t), "stay"))
		assert.Equal(t, e.Pid("stay"), 0)
	})
}

func TestRemoveEndsEveryProcess(t *testing.T) {
	eachIsolated(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{})
		s := begin(t, e, options("tree", loop...))
		s.hear()
		mark := fmt.Sprintf("1%09d", time.Now().UnixNano()%1e9)
		s.say(fmt.Sprintf(`trap "" TERM; setsid sh -c 'trap "" TERM HUP; sleep %s & sleep %[1]s' & nohup sleep `+
			`%[1]s >/tmp/nohup 2>&1 & echo done`, mark))
		eventually(t, "its processes run", func() bool { return len(processesWith(mark)) == 4 })
		stranger := exec.Command("sleep", "9"+mark[1:])
		assert.NilError(t, stranger.Start())
		defer stranger.Wait()
		defer stranger.Process.Kill()

		assert.NilError(t, e.Remove(ctxOf(t), "tree"))
		assert.Equal(t, len(processesWith(mark)), 0)
		assert.Equal(t, len(processesWith("9"+mark[1:])), 1)
		code, _ := s.exit()
		assert.Equal(t, code, 137)
		eventually(t, "no file of it is left", func() bool {
			dirs, _ := filepath.Glob(e.state.path("*", "*"))
			return !slices.ContainsFunc(dirs, func(dir string) bool { return filepath.Base(filepath.Dir(dir)) != callsDir })
		})
		assert.NilError(t, e.Remove(ctxOf(t), "tree"))
	})
}

// processesWith returns the processes one of whose arguments holds the text.
func processesWith(text string) []string {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var found []string
	for _, file := range files {
		cmdline, _ := os.ReadFile(file)
		if bytes.Contains(cmdline, []byte(text)) && !bytes.Contains(cmdline, []byte("echo done")) {
			found = append(found, string(cmdline))
		}
	}
	return found
}

func TestNothingButAContainerIsKilled(t *testing.T) {
	NeedIsolation(t)
	enginetest.Check(t)
	stranger := exec.Command("sleep", "1000")
	assert.NilError(t, stranger.Start())
	defer stranger.Wait()
	defer stranger.Process.Kill()
	p := identify(stranger.Process.Pid)
	assert.Assert(t, p.alive())
	// The number is right, and the process is another.
	p.Start = "1"
	assert.Assert(t, !p.alive())
	assert.ErrorIs(t, p.signal("KILL"), os.ErrProcessDone)
	assert.NilError(t, p.end())
	for _, pid := range []int{-1, 0, 1, os.Getpid()} {
		assert.ErrorIs(t, process{Pid: pid, Start: identify(pid).Start}.signal("KILL"), os.ErrProcessDone)
	}
	assert.Assert(t, identify(stranger.Process.Pid).alive())
}

func TestRootIsTheContainersOwn(t *testing.T) {
	eachIsolated(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{})
		workspace := filepath.Join(t.TempDir(), `with, "comma"`)
		assert.NilError(t, os.Mkdir(workspace, 0o755))
		readable := filepath.Join(t.TempDir(), "file")
		assert.NilError(t, os.WriteFile(readable, []byte("of the host\n"), 0o644))
		o := options("root", "sh")
		o.Env = []string{"FAKE_SECRET", "FAKE_UNSET"}
		o.ReadOnly = true
		o.CapDrop = []string{"ALL"}
		o.SecurityOpt = []string{"no-new-privileges"}
		o.User = "1234:5678"
		o.Workdir = "/workspace"
		o.Hostname = "inside"
		o.Mounts = []dockercli.Mount{{Source: workspace, Target: "/workspace", Writable: true},
			{Source: readable, Target: "/workspace/sub/file"}}
		o.Tmpfs = []dockercli.Tmpfs{{Target: "/tmp", SizeBytes: 1 << 20}, {Target: "/.cofferdam", Exec: true, Mode: 0o1777}}
		assert.NilError(t, os.Chmod(workspace, 0o777))
		s := begin(t, e, o, "FAKE_SECRET=a b=c")
		for _, c := range []struct{ say, want string }{
			{"echo $$ $(id -u) $(id -g) $(id -G) $(pwd) $(cat /proc/sys/kernel/hostname)", "1 1234 5678 5678 /workspace inside"},
			{`echo "$FAKE_SECRET" "${FAKE_UNSET-unset}" "$HOME"`, "a b=c unset /"},
			{"grep -E 'CapPrm|CapEff|CapBnd|NoNewPrivs' /proc/self/status | tr -d '\\n\\t'; echo",
				"CapPrm:0000000000000000CapEff:0000000000000000CapBnd:0000000000000000NoNewPrivs:1"},
			{"echo out >/proc/self/fd/1; true", "out"},
			{"cat sub/file; (: >sub/file) 2>/dev/null && echo written", "of the host"},
			{"echo kept >mine; echo done", "done"},
			{"for d in / /usr /etc /dev /sys /proc/sys/kernel/hostname; do [ ! -w $d ] || echo $d; done; echo done", "done"},
			{"head -c 2000000 /dev/zero 2>/dev/null >/tmp/full; stat -c %s /tmp/full", "1048576"},
			{"cp /bin/true /tmp; cp /bin/true /.cofferdam; rm /tmp/full; cp /bin/true /tmp; /tmp/true 2>/dev/null || " +
				"/.cofferdam/true && echo only one", "only one"},
			{"echo $(ls /dev)", "fd full null random shm stderr stdin stdout urandom zero"},
			{"echo $(cat /proc/net/dev | grep -c :)", "1"},
			{"echo $(ls -d /root/* /home /work /proc/[0-9]*/root 2>/dev/null | grep -v '^/proc/')", ""},
		} {
			assert.Equal(t, s.say(c.say+" 2>&1"), c.want, c.say)
		}
		s.stdin.Close()
		code, _ := s.exit()
		assert.Equal(t, code, 0)
		kept, err := os.ReadFile(filepath.Join(workspace, "mine"))
		assert.NilError(t, err)
		assert.Equal(t, string(kept), "kept\n")
	})
}

// Root inside has nothing by which it could reach the machine.
func TestRootInsideIsHarmless(t *testing.T) {
	eachIsolated(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{})
		o := options("harmless", "sh")
		o.CapAdd = []string{"ALL"}
		s := begin(t, e, o)
		for _, try := range []string{
			"mount -t tmpfs none /mnt", "mknod /tmp/vda b 254 0", "echo 1 >/proc/sys/vm/drop_caches",
			"echo h >/proc/sysrq-trigger", "touch /usr/x", "touch /etc/x",
			"mount -o remount,rw /usr", "kill -0 2", "unshare -m true",
		} {
			assert.Equal(t, s.say(try+" 2>/dev/null && echo yes || echo no"), "no", try)
		}
		assert.Equal(t, s.say("touch /x && echo yes"), "yes")
		_, err := os.Stat("/x")
		assert.ErrorIs(t, err, os.ErrNotExist)
	})
}

func TestExec(t *testing.T) {
	eachIsolated(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{})
		o := options("exec", loop...)
		o.User = "1234"
		o.CapDrop = []string{"ALL"}
		s := begin(t, e, o)
		s.hear()
		run := func(command ...string) (int, string, error) {
			code, out, err := e.Exec(ctxOf(t), dockercli.ExecOptions{Container: "exec", Workdir: "/tmp", Command: command})
			return code, string(out), err
		}
		code, out, err := run("sh", "-c",
			"echo $(id -u) $(pwd) $(tr '\\0' ' ' </proc/1/cmdline | cut -c1-5); grep CapBnd /proc/self/status; exit 4")
		assert.NilError(t, err)
		assert.Equal(t, code, 4)
		said, bound, _ := strings.Cut(out, "\n")
		assert.Equal(t, said, "1234 /tmp sh -c")
		// In a user namespace it is only the container's process 1 that has a lower one.
		assert.Assert(t, bound == "CapBnd:\t0000000000000000\n" || os.Geteuid() != 0, bound)
		// The user may open its streams anew, and so may its other processes.
		code, out, err = run("sh", "-c", "echo out >/proc/self/fd/1; echo err >/proc/self/fd/2")
		assert.NilError(t, err)
		assert.Equal(t, code, 0)
		assert.Equal(t, out, "out\n")
		_, _, err = run("no-such-command")
		assert.ErrorIs(t, err, dockercli.ErrNoCommand)
		_, _, err = e.Exec(ctxOf(t), dockercli.ExecOptions{Container: "nothing", Command: []string{"true"}})
		assert.ErrorIs(t, err, dockercli.ErrNoContainer)

		// What is stopped neither stops its client, nor keeps the container from being
		// removed.
		code, _, err = run("sh", "-c", "kill -STOP -1; exit 4")
		assert.NilError(t, err)
		assert.Equal(t, code, 4)
		_, err = abandoned(t, func(ctx context.Context) error {
			_, _, err := e.Exec(ctx, dockercli.ExecOptions{Container: "exec",
				Command: []string{"sh", "-c", "echo $$ >/tmp/stopped; kill -STOP $$"}})
			return err
		}, func() bool { return s.say("until [ -s /tmp/stopped ]; do sleep 0.01; done; echo there") == "there" })
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		// It is killed with its container, and not with its client.
		_, err = abandoned(t, func(ctx context.Context) error {
			_, _, err := e.Exec(ctx, dockercli.ExecOptions{Container: "exec",
				Command: []string{"sh", "-c", "echo $$ >/tmp/pid; sleep 1000"}})
			return err
		}, func() bool { return s.say("until [ -s /tmp/pid ]; do sleep 0.01; done; echo there") == "there" })
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, s.say("kill -0 $(cat /tmp/pid) && echo alive"), "alive")
		code, _, err = e.Exec(ctxOf(t),
			dockercli.ExecOptions{Container: "exec", User: "0", Command: []string{"kill", "-9", "-1"}})
		assert.Assert(t, err == nil || code != 0)
	})
}

// Nothing of the host can be written to through /sys, whoever the engine's user is.
func TestSysIsReadOnly(t *testing.T) {
	eachIsolated(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{})
		for _, network := range []string{"none", ""} {
			o := options("sys"+network, loop...)
			o.Network = network
			s := begin(t, e, o)
			s.hear()
			assert.Equal(t, s.say(`grep '^[^ ]* /sys' /proc/mounts | grep -vc '^[^ ]* [^ ]* [^ ]* ro'`), "0")
			assert.Equal(t, s.say(`grep -q '^[^ ]* /sys' /proc/mounts && echo yes`), "yes")
		}
	})
}

func TestKill(t *testing.T) {
	eachIsolated(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{})
		o := options("kill", "sh", "-c", "trap 'echo caught' USR1; echo ready; while :; do read x; done")
		o.Remove = false
		s := begin(t, e, o)
		s.hear()
		assert.NilError(t, e.Kill(ctxOf(t), "kill", "USR1"))
		assert.Equal(t, s.hear(), "caught")
		// Process 1 has no handler for it.
		assert.NilError(t, e.Kill(ctxOf(t), "kill", "TERM"))
		assert.Assert(t, e.Pid("kill") != 0)
		assert.NilError(t, e.Kill(ctxOf(t), "kill", "SIGKILL"))
		code, _ := s.exit()
		assert.Equal(t, code, 137)
		c, err := e.Inspect(ctxOf(t), "kill")
		assert.NilError(t, err)
		assert.Assert(t, !c.Running && c.Started)
		assert.Equal(t, c.Status, "exited")
		assert.Equal(t, c.ExitCode, 137)
		assert.ErrorIs(t, e.Kill(ctxOf(t), "kill", "KILL"), dockercli.ErrNotRunning)
		assert.NilError(t, e.Remove(ctxOf(t), "kill"))
		assert.ErrorIs(t, e.Kill(ctxOf(t), "kill", "KILL"), dockercli.ErrNoContainer)
	})
}

func TestRefusals(t *testing.T) {
	eachIsolated(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{})
		taken := begin(t, e, options("taken", loop...))
		taken.hear()
		byEngine := func(docker, podman int) int {
			if kind == dockercli.Podman {
				return podman
			}
			return docker
		}
		for name, c := range map[string]struct {
			change func(*dockercli.RunOptions)
			code   int
			class  error
		}{
			"name in use": {func(o *dockercli.RunOptions) { o.Name = "taken" }, 125, dockercli.ErrNameInUse},
			"no such command": {func(o *dockercli.RunOptions) { o.Command = []string{"no-such-command"} }, 127,
				dockercli.ErrNoCommand},
			"no such path": {func(o *dockercli.RunOptions) { o.Command = []string{"/no/such"} }, 127, dockercli.ErrNoCommand},
			"directory":    {func(o *dockercli.RunOptions) { o.Command = []string{"/tmp"} }, 126, dockercli.ErrNoCommand},
			"no command":   {func(o *dockercli.RunOptions) { o.Command = nil }, 125, dockercli.ErrNoCommand},
			"user": {func(o *dockercli.RunOptions) { o.User = "nosuchuser" }, byEngine(125, 126),
				dockercli.ErrArgument},
			"capability": {func(o *dockercli.RunOptions) { o.CapAdd = []string{"NOSUCH"} }, 125, dockercli.ErrArgument},
			"flag": {func(o *dockercli.RunOptions) { o.Extra = []string{"--nosuchflag"} }, 125,
				dockercli.ErrArgument},
			"privileged": {func(o *dockercli.RunOptions) { o.Extra = []string{"--privileged"} }, 125,
				dockercli.ErrArgument},
			"cgroup parent": {func(o *dockercli.RunOptions) { o.Extra = []string{"--cgroup-parent=x"} }, 125,
				dockercli.ErrArgument},
			"mount source": {func(o *dockercli.RunOptions) {
				o.Mounts = []dockercli.Mount{{Source: "/nonexistent/dir", Target: "/x"}}
			}, 125, dockercli.ErrArgument},
			"file on directory": {func(o *dockercli.RunOptions) {
				o.Mounts = []dockercli.Mount{{Source: "/etc/hostname", Target: "/usr"}}
			}, 126, dockercli.ErrArgument},
		} {
			t.Run(name, func(t *testing.T) {
				o := options("refused", "true")
				c.change(&o)
				argv, err := e.RunArgs(o)
				assert.NilError(t, err)
				s := begin(t, e, o)
				code, out := s.exit()
				assert.Equal(t, code, c.code, s.stderr.String())
				assert.Equal(t, out, "")
				assert.ErrorIs(t, dockercli.NewRunError(argv, code, []byte(s.stderr.String()), nil), c.class)
				assert.DeepEqual(t, e.Containers(), []string{"taken"})
			})
		}
	})
}

func TestPlainFlagsAreReadToo(t *testing.T) {
	eachIsolated(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{})
		dir := t.TempDir()
		cmd := exec.Command(e.Path, "run", "-i", "--rm", "--network", "none", "-v", dir+":"+dir, "-w", dir, "-e",
			"A=1", "--memory", "1000000", "--cpus", "1.5", "image:1",
			"sh", "-c", "echo $A $(pwd) $*", "-", "-x", "--", "y")
		cmd.Env = e.Env
		out, err := cmd.CombinedOutput()
		assert.NilError(t, err, "%s", out)
		assert.Equal(t, string(out), "1 "+dir+" -x -- y\n")

		cmd = exec.Command(e.Path, "run", "-d", "--name=detached", "image:1", "sleep", "1000")
		cmd.Env = e.Env
		out, err = cmd.CombinedOutput()
		assert.NilError(t, err, "%s", out)
		c, err := e.Inspect(ctxOf(t), "detached")
		assert.NilError(t, err)
		assert.Equal(t, strings.TrimSpace(string(out)), c.ID)
		assert.NilError(t, e.Remove(ctxOf(t), c.ID))
	})
}

func TestSignalsOfTheClient(t *testing.T) {
	eachIsolated(t, func(t *testing.T, kind dockercli.Kind) {
		e := New(t, kind, Faults{})
		s := begin(t, e, options("signals", "sh", "-c", "trap 'echo term' TERM; echo ready; while :; do read x; done"))
		s.hear()
		for range 2 {
			assert.NilError(t, s.cmd.Process.Signal(syscall.SIGTERM))
			assert.Equal(t, s.hear(), "term")
		}
		assert.NilError(t, s.cmd.Process.Signal(syscall.SIGTERM))
		if kind == dockercli.Podman {
			assert.Equal(t, s.hear(), "term")
		} else {
			code, _ := s.exit()
			assert.Equal(t, code, 1)
		}
		assert.Assert(t, e.Pid("signals") != 0)
		assert.NilError(t, e.Remove(ctxOf(t), "signals"))
	})
}

func TestWithoutAStateDirectory(t *testing.T) {
	enginetest.Check(t)
	e := New(t, dockercli.Docker, Faults{})
	e.Env = []string{}
	_, err := e.PS(ctxOf(t), anyLabel)
	var failed *dockercli.Error
	assert.Assert(t, errors.As(err, &failed))
	assert.Equal(t, failed.ExitCode, 125)
}

// The engine's processes are no child of the test that is killed.
func TestNothingOutlivesTheTest(t *testing.T) {
	if os.Getenv("FAKE_ENGINE_OWNER") != "" {
		e := New(t, dockercli.Docker, Faults{CreateDelay: 0})
		begin(t, e, options("orphan", "sh", "-c", "echo ready; exec sleep 1000")).hear()
		fmt.Printf("pid %d\n", e.Pid("orphan"))
		time.Sleep(time.Hour)
	}
	NeedIsolation(t)
	enginetest.Check(t)
	owner := exec.Command(os.Args[0], "-test.run=^TestNothingOutlivesTheTest$", "-test.v")
	owner.Env = append(os.Environ(), "FAKE_ENGINE_OWNER=1", "TMPDIR="+t.TempDir())
	out, err := owner.StdoutPipe()
	assert.NilError(t, err)
	assert.NilError(t, owner.Start())
	defer owner.Wait()
	defer owner.Process.Kill()
	var pid int
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if n, _ := fmt.Sscanf(lines.Text(), "pid %d", &pid); n == 1 {
			break
		}
	}
	p := identify(pid)
	assert.Assert(t, p.alive())
	assert.NilError(t, owner.Process.Kill())
	eventually(t, "the container is gone", func() bool { return !p.alive() })
}
