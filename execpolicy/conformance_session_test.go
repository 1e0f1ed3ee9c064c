package execpolicy_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/kube"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

// A placeCase is one that needs sessions of its own.
type placeCase struct {
	name string // with the ids of the reference that it stands for
	do   func(t *testing.T, p place)
}

func TestConformanceOfSessions(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		for _, c := range sessionCases {
			if why := notOnTheFake[c.name]; why != "" && p.fake != nil {
				leftout.Note(t, "on the fake engine, %s: %s", c.name, why)
				continue
			}
			if why := notInACluster[c.name]; why != "" && p.engine == clusterEngine {
				leftout.Note(t, "in a cluster, %s: %s", c.name, why)
				continue
			}
			if mounting[c.name] && p.engine.Remote {
				leftout.Note(t, "%s: %s", c.name, mountsNothing)
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.do(t, p)
			})
		}
	})
}

// mounting names the cases whose engine mounts a directory of this machine.
var mounting = map[string]bool{
	"3.1.14 3.1.17 the client has this program's environment, and nothing of the workspace": true,
	"3.2.6 3.2.17 3.2.18 startup and shutdown scripts":                                      true,
	"3.4.22 D30 D31 workspaces of awkward names":                                            true,
	"3.4.22 D30 a relative workspace":                                                       true,
	"Compat has sessions too":                                                               true,
	"WorkspaceReadOnly":                                                                     true,
}

// notOnTheFake names the cases that the fake engine can't be made to do, and why.
var notOnTheFake = map[string]string{
	"D5 D36 an image that is missing":                 "it has every image",
	"memory over the limit is told":                   "it limits no memory",
	"a fork bomb stays within the limit and is ended": "it limits no processes",
}

// notInACluster names the cases that are not about pods, and why.
var notInACluster = map[string]string{
	"3.4.23 D35 the image -x is refused":      "an image's name stands in no command line there",
	"D30 workspaces that no engine can mount": "a pod mounts none",
	"D33 D34 the zero policy is in force":     "package attest looks at more, and every pod has a link",
}

var sessionCases = []placeCase{
	{"3.2.2 D17 Restart loses all state", func(t *testing.T, p place) {
		spec := p.spec()
		spec.Env, spec.Startup = sessionEnv, []string{"FROM=startup"}
		s := open(t, p.policy(), spec)
		name, ended := s.Name(), s.Done()
		s.ok("export FOO=bar; >/tmp/file")
		assert.NilError(t, s.Restart(t.Context()))
		<-ended
		assert.Assert(t, s.Name() != name)
		assert.Equal(t, s.ok("echo ${FOO:-unset} $FROM $NUM; ls /tmp"), "unset startup 42")
		select {
		case <-s.Done():
			t.Error("the new session has ended")
		default:
		}
	}},
	{"D17 D24 Restart waits for the command that runs", func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		c := s.start(t.Context(), execpolicy.Command{Script: "echo begun; sleep 0.2; echo end"})
		assert.NilError(t, s.Restart(t.Context()))
		<-c.done
		assert.NilError(t, c.err)
		assert.Equal(t, string(c.result.Stdout), "begun\nend\n")
		assert.Equal(t, s.ok("echo next"), "next")
	}},
	{"3.2.6 3.2.17 3.2.18 startup and shutdown scripts", func(t *testing.T, p place) {
		// The limit is that of each shutdown script, and one has to pass it.
		unhurried(t, 3*short, func(limit time.Duration) error {
			dir := newWorkspace(t, "workspace-"+limit.String())
			spec := p.spec()
			spec.Workspace = dir
			spec.Startup = []string{"touch startup.txt", "x=5"}
			spec.Shutdown = []string{"exit 1", "sleep 4720", "touch shutdown.txt"}
			policy := p.policy()
			policy.CommandTimeout = limit
			s := open(t, policy, spec)
			for _, c := range []struct{ script, out string }{
				{"ls; echo $x", "startup.txt\n5\n"},
				// A new shell is started up again.
				{"x=6; exit 3", ""},
				{"echo $x", "5\n"},
			} {
				r := s.run(execpolicy.Command{Script: c.script, Timeout: time.Minute})
				assert.Equal(t, string(r.Stdout), c.out)
				assert.Equal(t, r.StateLost, strings.Contains(c.script, "exit"))
			}
			err := s.Close()
			assert.ErrorIs(t, err, execpolicy.ErrScript)
			_, missing := os.Stat(filepath.Join(dir, "shutdown.txt"))
			if missing != nil || !strings.Contains(err.Error(), "exit code 1") || !strings.Contains(err.Error(), "sleep 4720") {
				return err
			}
			return nil
		})
	}},
	{"the directory that the shell could not go back to", func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		s.ok("mkdir /tmp/a; cd /tmp/a")
		r := s.run(execpolicy.Command{Script: "rmdir /tmp/a", Dir: "/tmp"})
		assert.Equal(t, r.Dir, "/tmp")
		assert.Equal(t, s.ok("pwd"), "/tmp")
	}},
	{"a startup script's directory stays", func(t *testing.T, p place) {
		spec := p.spec()
		spec.Startup = []string{"cd /tmp"}
		s := open(t, p.policy(), spec)
		r, err := s.result(s.job(execpolicy.Command{Script: "pwd"}))
		assert.NilError(t, err)
		assert.Equal(t, string(r.Stdout), "/tmp\n")
		r = s.run(execpolicy.Command{Script: "pwd", Dir: "/"})
		assert.Equal(t, string(r.Stdout), "/\n")
		assert.Equal(t, s.ok("pwd"), "/tmp")
	}},
	{"3.2.16 a startup script that fails", func(t *testing.T, p place) {
		spec := p.spec()
		spec.Startup = []string{"echo no >&2; exit 1"}
		_, err := execpolicy.Start(t.Context(), p.policy(), spec)
		assert.ErrorIs(t, err, execpolicy.ErrStart)
		assert.ErrorIs(t, err, execpolicy.ErrScript)
		assert.ErrorContains(t, err, "exit code 1: no")
	}},
	{"3.2.16 a startup script that hangs", func(t *testing.T, p place) {
		spec := p.spec()
		spec.Startup = []string{"sleep 4721"}
		policy := p.policy()
		// The limit is also that of what comes before the script.
		unhurried(t, time.Second, func(limit time.Duration) error {
			policy.StartupTimeout = limit
			_, err := execpolicy.Start(t.Context(), policy, spec)
			assert.ErrorIs(t, err, execpolicy.ErrStart)
			assert.ErrorContains(t, err, "deadline")
			if !errors.Is(err, execpolicy.ErrScript) {
				return err
			}
			return nil
		})
	}},
	{"3.2.12 scripts are checked before anything starts", func(t *testing.T, p place) {
		_, err := execpolicy.Start(t.Context(), p.policy(),
			execpolicy.Spec{Startup: []string{""}, Shutdown: []string{"\x00"}, Command: []string{"a\nb"}})
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		for _, want := range []string{"Startup[0]", "Shutdown[0]", "NUL byte or a newline"} {
			assert.ErrorContains(t, err, want)
		}
	}},
	{"D24 Close during Run", func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		ended := s.Done()
		c := s.start(t.Context(), execpolicy.Command{Script: "echo begun; trap '' TERM; sleep 4722"})
		assert.NilError(t, s.Close())
		<-c.done
		assert.ErrorIs(t, c.err, execpolicy.ErrClosed)
		assert.Equal(t, c.result.Outcome, execpolicy.OutcomeCanceled)
		assert.Equal(t, string(c.result.Stdout), "begun\n")
		<-ended
		// Run after Close, and everything else.
		r, err := s.Run(t.Context(), execpolicy.Command{Script: "echo after"})
		assert.ErrorIs(t, err, execpolicy.ErrClosed)
		assert.Assert(t, r == nil)
		assert.ErrorIs(t, s.Restart(t.Context()), execpolicy.ErrClosed)
		assert.NilError(t, s.Close())
	}},
	{"two Closes at once", func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		second := make(chan error)
		go func() { second <- s.Close() }()
		assert.NilError(t, s.Close())
		assert.NilError(t, <-second)
		<-s.Done()
	}},
	{"D23 a container that is gone, and Restart after it", func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		c := s.start(t.Context(), execpolicy.Command{Script: "echo begun; sleep 4723"})
		p.remove(t, s.Name())
		<-c.done
		assert.ErrorIs(t, c.err, execpolicy.ErrEnded, "%+v", c.result)
		assert.Equal(t, c.result.Outcome, execpolicy.OutcomeSessionLost)
		assert.Equal(t, c.result.ExitCode, -1)
		assert.Assert(t, c.result.StateLost)
		assert.Equal(t, c.result.Text(), "begun\n\nThe session was lost.")
		<-s.Done()
		_, err := s.Run(t.Context(), execpolicy.Command{Script: "echo after"})
		assert.ErrorIs(t, err, execpolicy.ErrEnded)
		assert.NilError(t, s.Restart(t.Context()))
		assert.Equal(t, s.ok("echo again"), "again")
	}},
	{"D1 a client that is killed", func(t *testing.T, p place) {
		s := open(t, p.attached(), p.spec())
		name := s.Name()
		c := s.start(t.Context(), execpolicy.Command{Script: "echo begun; trap '' TERM; sleep 4724"})
		client := p.client(t, name)
		defer client.Release()
		assert.NilError(t, client.Kill())
		<-c.done
		assert.ErrorIs(t, c.err, execpolicy.ErrEnded)
		assert.Equal(t, c.result.Outcome, execpolicy.OutcomeSessionLost)
		<-s.Done()
		assert.Assert(t, !slices.Contains(p.names(t), name))
	}},
	{"3.4.22 D30 D31 workspaces of awkward names", func(t *testing.T, p place) {
		for _, name := range []string{"a b:c", `it's, "quoted"`, "langchain-shell-case", "ünï,code;=&", "two\nlines"} {
			dir := newWorkspace(t, name)
			spec := p.spec()
			spec.Workspace = dir
			p.writesInto(t, spec, dir)
		}
	}},
	{"3.4.22 D30 a relative workspace", func(t *testing.T, p place) {
		dir := newWorkspace(t, "workspace")
		here, err := os.Getwd()
		assert.NilError(t, err)
		spec := p.spec()
		spec.Workspace, err = filepath.Rel(here, dir)
		assert.NilError(t, err)
		p.writesInto(t, spec, dir)
	}},
	{"D30 workspaces that no engine can mount", func(t *testing.T, p place) {
		for name, why := range map[string]string{"a line\n": "would cut the white space",
			"two\r\nlines": "would drop its carriage return"} {
			spec := p.spec()
			spec.Workspace = newWorkspace(t, name)
			_, err := execpolicy.Start(t.Context(), p.policy(), spec)
			assert.ErrorIs(t, err, execpolicy.ErrInvalid)
			assert.ErrorContains(t, err, why)
		}
	}},
	{"D31 a workspace that is not there", func(t *testing.T, p place) {
		for _, dir := range []string{"/no/such/directory", "conformance_test.go", "/"} {
			spec := p.spec()
			spec.Workspace = dir
			_, err := execpolicy.Start(t.Context(), p.policy(), spec)
			assert.ErrorIs(t, err, execpolicy.ErrInvalid, dir)
		}
	}},
	{"WorkspaceReadOnly", func(t *testing.T, p place) {
		spec := p.spec()
		spec.Workspace = newWorkspace(t, "workspace")
		policy := p.policy()
		policy.WorkspaceReadOnly = true
		s := open(t, policy, spec)
		assert.Assert(t, s.script("echo x >file").ExitCode != 0)
	}},
	{"3.4.23 D35 the image -x is refused", func(t *testing.T, p place) {
		policy := p.policy()
		policy.Image = "-x"
		_, err := execpolicy.Start(t.Context(), policy, p.spec())
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
	}},
	{"D5 D36 an image that is missing", func(t *testing.T, p place) {
		policy := p.policy()
		policy.Image, policy.Pull = "localhost/no-such-image:1", dockercli.PullNever
		_, err := execpolicy.Start(t.Context(), policy, p.spec())
		assert.ErrorIs(t, err, execpolicy.ErrStart)
		missing := dockercli.ErrImageMissing
		if p.engine == clusterEngine {
			missing = kube.ErrImageMissing
		}
		assert.ErrorIs(t, err, missing)
	}},
	{"D7 a shell that the image does not have", func(t *testing.T, p place) {
		for _, shell := range []string{"/no/such/shell", "no-such-shell"} {
			spec := p.spec()
			spec.Command = []string{shell}
			_, err := execpolicy.Start(t.Context(), p.policy(), spec)
			assert.ErrorIs(t, err, execpolicy.ErrStart)
			assert.ErrorContains(t, err, "the worker shell ended with status 127 (127: it is not there; ")
			assert.Assert(t, !errors.Is(err, context.DeadlineExceeded), "%v", err)
		}
	}},
	{"D5 D7 a command that is no shell", func(t *testing.T, p place) {
		spec := p.spec()
		spec.Command = []string{"sleep", "4725"}
		policy := p.policy()
		// The limit is also that of what comes before the shell is asked.
		unhurried(t, time.Second, func(limit time.Duration) error {
			policy.StartupTimeout = limit
			_, err := execpolicy.Start(t.Context(), policy, spec)
			assert.ErrorIs(t, err, execpolicy.ErrStart)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			if !strings.Contains(err.Error(), "if the command is not a shell, it can't be a session's") {
				return err
			}
			return nil
		})
	}},
	{"3.4.24 D3 D32 labels are there and values are not", func(t *testing.T, p place) {
		const secret = "hunter2\nof two lines"
		spec := p.spec()
		spec.Env = map[string]string{"TOKEN": secret}
		s := open(t, p.attached(), spec)
		assert.Equal(t, s.ok(`printf %s "$TOKEN"`), secret)
		seen := p.inspect(t, s.Name())
		for _, want := range []string{"cofferdam.pid", "cofferdam.boot", "cofferdam.host", "cofferdam.pid-start",
			"cofferdam.created"} {
			assert.Assert(t, strings.Contains(seen, `"`+want+`"`), want)
		}
		assert.Assert(t, !strings.Contains(seen, "hunter2"))
		client := p.client(t, s.Name())
		defer client.Release()
		cmdline, err := os.ReadFile("/proc/" + strconv.Itoa(client.Pid) + "/cmdline")
		assert.NilError(t, err)
		assert.Assert(t, !strings.Contains(string(cmdline), "hunter2"))
	}},
	{"3.3.5 D37 nothing of the host's environment", func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		for line := range strings.Lines(s.ok("env")) {
			name, _, _ := strings.Cut(line, "=")
			switch name {
			case "HOME", "HOSTNAME", "PATH", "PWD", "OLDPWD", "SHLVL", "_", "container", "TERM", "LANG", "GPG_KEY":
			default:
				known := strings.HasSuffix(strings.ToUpper(name), "_PROXY") || strings.HasPrefix(name, "PYTHON") ||
					p.engine == clusterEngine && strings.HasPrefix(name, "KUBERNETES_")
				assert.Check(t, known, line)
			}
		}
	}},
	{"D33 D34 the zero policy is in force", func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		status := s.ok("cat /proc/self/status; id -u")
		for _, want := range []string{"CapEff:\t0000000000000000", "NoNewPrivs:\t1", "\n65534"} {
			assert.Assert(t, strings.Contains(status, want), want)
		}
		assert.Assert(t, s.script("echo x >/etc/passwd").ExitCode != 0)
		assert.Assert(t, s.script("echo x >/file").ExitCode != 0)
		assert.Equal(t, strings.TrimSpace(s.ok("tail -n +3 /proc/net/dev | cut -d: -f1 | grep -v lo; :")), "")
		assert.Equal(t, s.ok("echo x >/tmp/file; echo x >/workspace/file; pwd"), "/workspace")
	}},
	{"one command in a session of its own", func(t *testing.T, p place) {
		const script = "x=out; echo $x; exit 5"
		for _, c := range []execpolicy.Command{{Argv: []string{"sh", "-c", script}}, {Script: script}} {
			r, err := execpolicy.Run(t.Context(), p.policy(), p.spec(), c)
			assert.NilError(t, err)
			assert.Equal(t, r.Outcome, execpolicy.OutcomeExited)
			assert.Equal(t, r.ExitCode, 5)
			assert.Equal(t, r.StateLost, c.Script != "")
			assert.Equal(t, r.Text(), "out\n\nExit code: 5")
		}
	}},
	{"signals to process 1 from inside", func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		for _, name := range []string{"KILL", "STOP", "TERM", "HUP", "USR1", "PIPE"} {
			s.script("kill -" + name + " 1")
		}
		assert.Equal(t, s.ok("echo lives"), "lives")
		// A shell that reads a script takes this one; then the session is over, and says
		// so.
		_, err := s.Run(t.Context(), execpolicy.Command{Script: "kill -INT 1; sleep 4726", Timeout: short})
		assert.Assert(t, err == nil || errors.Is(err, execpolicy.ErrEnded), "%v", err)
	}},
	{"memory over the limit is told", func(t *testing.T, p place) {
		enginetest.NeedLimits(t, p.engine, dockercli.LimitMemory)
		policy := p.policy()
		policy.MemoryBytes = 64 << 20
		s := open(t, policy, p.spec())
		s.ok("kept=5; cp $(command -v busybox) /tmp")
		// What runs from memory can't be dropped and read again, with which the kernel
		// could spend minutes. A machine under load may take its time to find no memory
		// all the same.
		r := s.run(execpolicy.Command{
			Script: "exec 2>/dev/null; cd /tmp; ./busybox head -c 200000000 /dev/zero | ./busybox tail -c 150000000 | wc -c; " +
				"./busybox dd if=/dev/zero of=/dev/null bs=150M count=1",
			Timeout: time.Minute,
		})
		assert.Equal(t, r.Outcome, execpolicy.OutcomeOOMKilled, "%+v", r)
		assert.Assert(t, r.OOMAfter > r.OOMBefore)
		assert.Assert(t, strings.HasSuffix(r.Text(), "Killed: out of memory."))
		// It is the kernel that chooses whom it kills.
		if !r.StateLost {
			assert.Equal(t, s.ok("echo $kept"), "5")
		}
		// A kill by the program's own hand is none of the kernel's.
		r = s.script("sh -c 'kill -9 $$'")
		assert.Equal(t, r.Outcome, execpolicy.OutcomeExited)
		assert.Equal(t, r.ExitCode, 137)
		assert.Equal(t, r.OOMAfter, r.OOMBefore)
	}},
	{"a fork bomb stays within the limit and is ended", func(t *testing.T, p place) {
		policy := p.policy()
		policy.PidsLimit = 64
		spec := p.spec()
		told := map[int][]execpolicy.Outcome{} // by the record of the command
		spec.Audit = func(e execpolicy.Event) error {
			switch e.Kind {
			case execpolicy.EventCommand:
				told[e.Seq] = nil
			case execpolicy.EventResult:
				told[e.Of] = append(told[e.Of], e.Outcome)
			}
			return nil
		}
		s := open(t, policy, spec)
		s.ok("kept=5")
		r := s.run(execpolicy.Command{Script: "b() { b | b & sleep 4727; }; b", Timeout: short})
		assert.Assert(t, r.Outcome == execpolicy.OutcomeTimedOut || r.Outcome == execpolicy.OutcomeExited, r.Text())
		assert.Equal(t, r.ExitCode < 0, r.Outcome == execpolicy.OutcomeTimedOut)
		lost := r.StateLost
		wait(t, func() bool {
			r := s.script("echo next")
			lost = lost || r.StateLost
			return r.Text() == "next\n"
		}, "the session does not answer")
		// One that has ended by itself leaves its jobs behind.
		if r.Outcome == execpolicy.OutcomeTimedOut {
			s.gone("sleep 4727")
		}
		for i := range 10 {
			assert.Equal(t, s.ok(fmt.Sprint("echo ", i)), strconv.Itoa(i))
		}
		assert.Equal(t, s.ok("echo ${kept-lost}"), map[bool]string{true: "lost", false: "5"}[lost])
		assert.NilError(t, s.Close())
		// The bomb was the second command.
		commands := slices.Sorted(maps.Keys(told))
		assert.DeepEqual(t, told[commands[1]], []execpolicy.Outcome{r.Outcome})
		for _, of := range commands {
			assert.Equal(t, len(told[of]), 1, "%v", told)
		}
	}},
	{"3.1.1 a limit of no lines is the default", func(t *testing.T, p place) {
		for limit, want := range map[int]string{0: "\n100\n\n... Output truncated at 100 lines (observed 101).",
			-1: "\n101\n"} {
			policy := p.policy()
			policy.MaxOutputLines = limit
			s := open(t, policy, p.spec())
			text := s.script("seq 1 101").Text()
			assert.Assert(t, strings.HasSuffix(text, want), text)
		}
	}},
	{"3.1.14 3.1.17 the client has this program's environment, and nothing of the workspace", func(t *testing.T, p place) {
		// LangChain's works in the workspace, of which nobody knows what is in it.
		want, err := os.Getwd()
		assert.NilError(t, err)
		if p.engine.Kind == dockercli.Podman {
			want = "/proc"
		}
		for _, name := range []string{"workspace", "langchain-shell-case"} {
			policy := execpolicy.Compat()
			policy.Engine, policy.Image, policy.Limits = p.engine, p.image, p.policy().Limits
			spec := p.spec()
			spec.Workspace, spec.Env = newWorkspace(t, name),
				map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin", "ONLY": "inside"}
			s := open(t, policy, spec)
			assert.Equal(t, s.ok(`echo "$PATH $ONLY"`), "/usr/local/bin:/usr/bin:/bin inside")
			client := p.client(t, s.Name())
			defer client.Release()
			proc := filepath.Join("/proc", strconv.Itoa(client.Pid))
			dir, err := os.Readlink(filepath.Join(proc, "cwd"))
			assert.NilError(t, err)
			assert.Equal(t, dir, want)
			environ, err := os.ReadFile(filepath.Join(proc, "environ"))
			assert.NilError(t, err)
			words := strings.Split(string(environ), "\x00")
			assert.Assert(t, slices.Contains(words, "PATH="+os.Getenv("PATH")))
			assert.Assert(t, !slices.Contains(words, "ONLY=inside"))
		}
	}},
	{"Compat has sessions too", func(t *testing.T, p place) {
		policy := execpolicy.Compat()
		policy.Engine, policy.Image, policy.Limits = p.engine, p.image, p.policy().Limits
		spec := p.spec()
		spec.Workspace, spec.Env = newWorkspace(t, "workspace"), map[string]string{"A": "1 2"}
		s := open(t, policy, spec)
		assert.Equal(t, s.ok(`pwd; echo "$A"; id -u; touch file`), spec.Workspace+"\n1 2\n0")
	}},
}

// writesInto checks that a session works in the host's directory, and that what it makes
// there belongs to the directory's owner.
func (p place) writesInto(t *testing.T, spec execpolicy.Spec, dir string) {
	t.Helper()
	s := open(t, p.policy(), spec)
	assert.Equal(t, s.ok("pwd; echo hello >file; mkdir sub"), "/workspace")
	assert.NilError(t, s.Close())
	text, err := os.ReadFile(filepath.Join(dir, "file"))
	assert.NilError(t, err)
	assert.Equal(t, string(text), "hello\n")
	uid, gid, err := ownerOf(dir)
	assert.NilError(t, err)
	for _, name := range []string{"file", "sub"} {
		u, g, err := ownerOf(filepath.Join(dir, name))
		assert.NilError(t, err)
		assert.Equal(t, u, uid)
		assert.Equal(t, g, gid)
	}
}

// client returns the engine's client that this test started for a container.
func (p place) client(t *testing.T, name string) *os.Process {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	assert.NilError(t, err)
	for _, file := range files {
		// The name is new and was given to one program.
		text, err := os.ReadFile(file)
		words := strings.Split(string(text), "\x00")
		if err == nil && (slices.Contains(words, "--name="+name) || slices.Contains(words, "attach") && slices.Contains(words, name)) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			assert.NilError(t, err)
			client, err := os.FindProcess(pid)
			assert.NilError(t, err)
			return client
		}
	}
	t.Fatalf("no client for %s", name)
	return nil
}
