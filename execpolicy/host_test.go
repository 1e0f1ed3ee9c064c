//go:build linux

package execpolicy_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/hostproc"
)

// hostWorkers are the shells of this machine.
func hostWorkers(t *testing.T, f func(t *testing.T, command []string)) {
	for name, command := range workers {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(command[0]); err != nil {
				leftout.Skip(t, "%v", err)
			}
			enginetest.Check(t)
			f(t, command)
		})
	}
}

// bystander starts a process of the same user that nothing may signal, and whose end
// fails the test.
func bystander(t *testing.T) {
	t.Helper()
	in, out, err := os.Pipe()
	assert.NilError(t, err)
	cmd := exec.Command("sh", "-c",
		"trap 'echo signalled; exit 1' HUP INT QUIT TERM USR1 USR2 ALRM; read line; echo lives")
	cmd.Stdin = in
	var said strings.Builder
	cmd.Stdout = &said
	assert.NilError(t, cmd.Start())
	in.Close()
	t.Cleanup(func() {
		out.WriteString("end\n")
		out.Close()
		assert.Check(t, cmd.Wait())
		assert.Check(t, said.String() == "lives\n", said.String())
	})
}

func TestHost(t *testing.T) {
	hostWorkers(t, func(t *testing.T, command []string) {
		bystander(t)
		runCases(t, execpolicy.HostPolicy{Limits: hostLimits}, execpolicy.Spec{Command: command, Env: sessionEnv},
			hostCases())
	})
}

// hostCases are those of the conformance suite that need no namespace, and those of the
// host alone.
func hostCases() []conformanceCase {
	cases := []conformanceCase{
		{name: "the environment is the host's way to programs and no more", do: func(t *testing.T, s session) {
			for _, entry := range strings.Split(strings.TrimSuffix(s.ok("cat /proc/self/environ"), "\x00"), "\x00") {
				name, _, _ := strings.Cut(entry, "=")
				_, ours := sessionEnv[name]
				known := regexp.MustCompile("^(PATH|HOME|USER|LANG|TZ|TMPDIR|PWD|OLDPWD|SHLVL|_)$").MatchString(name)
				assert.Check(t, ours || known, entry)
			}
		}},
		{name: "it works in a directory of its own", do: func(t *testing.T, s session) {
			info, err := os.Stat(s.ok("pwd"))
			assert.NilError(t, err)
			assert.Equal(t, info.Mode().Perm(), os.FileMode(0o700))
		}},
		{name: "a timeout ends the group and keeps the state", do: func(t *testing.T, s session) {
			r := s.byStep(execpolicy.EscalationTerm, "kept=5", "echo begun; sleep 4731 & sleep 4732")
			assert.Assert(t, !r.StateLost)
			assert.Equal(t, s.ok("echo $kept"), "5")
			noProcess(t, "sleep 4731")
			noProcess(t, "sleep 4732")
		}},
	}
	for _, c := range protocolCases {
		// Whoever goes through /proc there sees the host.
		if !strings.Contains(c.name, "old marks") && !strings.Contains(c.name, "the directory and variables") {
			cases = append(cases, c)
		}
	}
	return slices.Concat(cases, outputCases, shellCases)
}

// byStep runs a script to its deadline, which is to be ended on that step when it has
// said that it has begun. On a busy machine the deadline may come before that, and the
// end after the step's time: then what was before is made again, and the script has more
// time.
func (s session) byStep(want execpolicy.Escalation, before, script string) *execpolicy.Result {
	s.t.Helper()
	limit := short / 2
	begun := func(r *execpolicy.Result) bool { return r.Escalation == want && string(r.Stdout) == "begun\n" }
	return s.until(begun, func() { s.ok(before) }, func() (*execpolicy.Result, error) {
		limit = min(2*limit, 4*time.Second)
		r := s.run(execpolicy.Command{Script: script, Timeout: limit})
		assert.Equal(s.t, r.Outcome, execpolicy.OutcomeTimedOut, r.Text())
		assert.Equal(s.t, r.ExitCode, -1)
		return r, nil
	})
}

// noProcess waits until this machine has no process of that command line.
func noProcess(t *testing.T, line string) {
	t.Helper()
	wait(t, func() bool { return len(pids(line)) == 0 }, "%q lives on", line)
}

func pids(line string) []int {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var found []int
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err == nil && strings.TrimSpace(strings.ReplaceAll(string(text), "\x00", " ")) == line {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			found = append(found, pid)
		}
	}
	return found
}

func TestHostLimitsAreInForceBeforeTheCommandStarts(t *testing.T) {
	hostWorkers(t, func(t *testing.T, command []string) {
		policy := execpolicy.HostPolicy{Limits: hostLimits, CPUTimeSeconds: 1, MemoryBytes: 512 << 20}
		s := open(t, policy, execpolicy.Spec{Command: command})
		// Soft and hard, for the shell itself and for what it starts.
		limits := s.ok("cat /proc/$$/limits; cat /proc/self/limits")
		assert.Equal(t, len(regexp.MustCompile(`(?m)^Max cpu time +1 +1 +seconds`).FindAllString(limits, -1)), 2, limits)
		assert.Equal(t, len(regexp.MustCompile(`(?m)^Max address space +536870912 +536870912 +bytes`).FindAllString(limits, -1)), 2, limits)
		// 128 and the number of SIGXCPU or SIGKILL: the kernel's own.
		r := s.script("sh -c 'while :; do :; done'")
		assert.Equal(t, r.Outcome, execpolicy.OutcomeExited)
		assert.Assert(t, r.ExitCode == 128+int(syscall.SIGXCPU) || r.ExitCode == 128+int(syscall.SIGKILL), r.Text())
		assert.Equal(t, s.ok("echo next"), "next")
		r = s.script("dd if=/dev/zero of=/dev/null bs=600M count=1")
		assert.Assert(t, r.ExitCode != 0, r.Text())
	})
}

func TestHostSpawnSetsLimits(t *testing.T) {
	enginetest.Check(t)
	p, err := execpolicy.HostPolicy{CPUTimeSeconds: 7, MemoryBytes: 64 << 20}.Spawn(t.Context(),
		execpolicy.Spec{Command: []string{"cat", "/proc/self/limits"}})
	assert.NilError(t, err)
	defer func() { assert.Check(t, p.Kill(t.Context())) }()
	assert.NilError(t, p.Stdin.Close())
	text := readAll(t, p.Stdout)
	readAll(t, p.Stderr)
	<-p.Done
	assert.Equal(t, p.ExitCode(), 0)
	assert.Assert(t, regexp.MustCompile(`(?m)^Max cpu time +7 +7 `).MatchString(text), text)
	assert.Assert(t, regexp.MustCompile(`(?m)^Max address space +67108864 +67108864 `).MatchString(text), text)
}

// A relative name of a program is one in the workspace, with limits and without.
func TestHostSpawnsAProgramOfTheWorkspace(t *testing.T) {
	enginetest.Check(t)
	t.Chdir(t.TempDir())
	dir := t.TempDir()
	assert.NilError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "bin", "run"), []byte("#!/bin/sh\necho ran\n"), 0o755))
	for _, policy := range []execpolicy.HostPolicy{{}, {CPUTimeSeconds: 7}} {
		for _, name := range []string{"./bin/run", "bin/run"} {
			p, err := policy.Spawn(t.Context(), execpolicy.Spec{Workspace: dir, Command: []string{name}})
			assert.NilError(t, err)
			assert.NilError(t, p.Stdin.Close())
			assert.Equal(t, readAll(t, p.Stdout), "ran\n")
			assert.Equal(t, readAll(t, p.Stderr), "")
			<-p.Done
			assert.NilError(t, p.Kill(t.Context()))
		}
	}
}

// Without a workspace there is no program of such a name, but PATH may have one.
func TestHostSpawnsNoRelativeNameWithoutAWorkspace(t *testing.T) {
	enginetest.Check(t)
	dir := t.TempDir()
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "run"), []byte("#!/bin/sh\n>"+dir+"/ran\n"), 0o755))
	t.Chdir(dir)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, policy := range []execpolicy.HostPolicy{{}, {CPUTimeSeconds: 7}} {
		for _, spec := range []execpolicy.Spec{
			{Command: []string{"./run"}},
			{Command: []string{"../run"}},
			{Command: []string{"sh"}, Supervisor: []string{"./run"}},
			{Command: []string{"./run"}, Supervisor: []string{"sh", "-c", `"$@"`, "sh", "./run"}},
		} {
			p, err := policy.Spawn(t.Context(), spec)
			if err == nil {
				p.Stdin.Close()
				readAll(t, p.Stdout)
				readAll(t, p.Stderr)
				<-p.Done
				assert.Check(t, p.Kill(t.Context()))
			}
			assert.Check(t, errors.Is(err, execpolicy.ErrInvalid), "%q, %v", spec.Command, err)
			known := execpolicy.Check(t.Context(), policy, spec)
			assert.Check(t, errors.Is(known, execpolicy.ErrInvalid) == strings.HasSuffix(spec.Command[0], "/run"), "%q, %v", spec.Command, known)
			_, err = os.Lstat(filepath.Join(dir, "ran"))
			assert.Check(t, errors.Is(err, os.ErrNotExist), "%q ran", spec.Command)
		}
	}
}

func TestHostLimitThatCannotBeSetFailsTheCommand(t *testing.T) {
	enginetest.Check(t)
	// Each limited command sets the limits of the one behind it, which can't be raised by
	// an ordinary user's shell.
	argv := hostproc.Limited([]string{"sh", "-c", "echo ran"}, 1<<62, 0)
	out, err := exec.Command("sh",
		append([]string{"-c", `ulimit -t 5 && exec setpriv --bounding-set=-sys_resource --inh-caps=-sys_resource "$@"`,
			"sh"}, argv...)...).Output()
	assert.Assert(t, err != nil)
	assert.Equal(t, string(out), "")
}

// What is in the group ends with the session; what has left it is not touched, as nothing
// else of the user is.
func TestHostSignalsItsGroupAndNothingElse(t *testing.T) {
	enginetest.Check(t)
	bystander(t)
	s := open(t, execpolicy.HostPolicy{Limits: hostLimits}, execpolicy.Spec{})
	s.ok("(setsid sleep 4733 >/dev/null 2>&1 &); sleep 4734 >/dev/null 2>&1 & :")
	wait(t, func() bool { return len(pids("sleep 4733")) == 1 }, "the daemon has not started")
	left := pids("sleep 4733")[0]
	s.timeout("sleep 4735")
	assert.DeepEqual(t, pids("sleep 4733"), []int{left})
	assert.NilError(t, s.Close())
	noProcess(t, "sleep 4734")
	assert.DeepEqual(t, pids("sleep 4733"), []int{left})
	// It is this test's own, so it can be ended here.
	assert.NilError(t, syscall.Kill(left, syscall.SIGKILL))
	noProcess(t, "sleep 4733")
}

func TestHostCommandThatIgnoresTermEndsWithItsSession(t *testing.T) {
	enginetest.Check(t)
	bystander(t)
	policy := execpolicy.HostPolicy{Limits: hostLimits}
	s := open(t, policy, execpolicy.Spec{})
	r := s.byStep(execpolicy.EscalationContainer, ":", "sh -c 'trap \"\" TERM; echo begun; while :; do sleep 4736; done'")
	assert.Assert(t, r.StateLost)
	noProcess(t, "sleep 4736")
	<-s.Done()
	_, err := s.Run(t.Context(), execpolicy.Command{Script: ":"})
	assert.ErrorIs(t, err, execpolicy.ErrEnded)
	assert.NilError(t, s.Restart(t.Context()))
	assert.Equal(t, s.ok("echo again"), "again")
}

func TestHostLeavesNoDirectory(t *testing.T) {
	enginetest.Check(t)
	s := open(t, execpolicy.HostPolicy{Limits: hostLimits}, execpolicy.Spec{})
	r := s.run(execpolicy.Command{Script: "cat; echo x >file; mkdir -p a/b; pwd", Stdin: strings.NewReader("in\n")})
	dir := strings.TrimSpace(strings.TrimPrefix(string(r.Stdout), "in\n"))
	assert.NilError(t, s.Close())
	_, err := os.Stat(filepath.Dir(dir))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestHostKeepsTheWorkspace(t *testing.T) {
	enginetest.Check(t)
	dir := t.TempDir()
	r, err := execpolicy.Run(t.Context(), execpolicy.HostPolicy{Limits: hostLimits}, execpolicy.Spec{Workspace: dir},
		execpolicy.Command{Script: "echo hello >file"})
	assert.NilError(t, err)
	assert.Equal(t, r.ExitCode, 0)
	text, err := os.ReadFile(filepath.Join(dir, "file"))
	assert.NilError(t, err)
	assert.Equal(t, string(text), "hello\n")
}

// A recorder is a policy that keeps what is sent to the process.
type recorder struct {
	execpolicy.Policy
	mu   sync.Mutex
	sent strings.Builder
}

type recorded struct {
	io.WriteCloser
	*recorder
}

func (r *recorder) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	p, err := r.Policy.Spawn(ctx, spec)
	if err == nil {
		r.sent.WriteString(strings.Join(spec.Supervisor, "\n"))
		p.Stdin = recorded{p.Stdin, r}
	}
	return p, err
}

func (r recorded) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent.Write(p)
	return r.WriteCloser.Write(p)
}

// The text that is sent where the library made no namespace can signal nothing but its
// own group: the only operand is 0.
func TestHostSupervisorHoldsNoKillButOfItsGroup(t *testing.T) {
	enginetest.Check(t)
	r := &recorder{Policy: execpolicy.HostPolicy{Limits: hostLimits}}
	s := open(t, r, execpolicy.Spec{})
	s.ok("true")
	s.byStep(execpolicy.EscalationTerm, ":", "echo begun; sleep 4737")
	s.script("exit 3")
	s.ok("true")
	assert.NilError(t, s.Close())
	r.signalsItsGroupOnly(t)
}

func (r *recorder) signalsItsGroupOnly(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	sent := r.sent.String()
	r.mu.Unlock()
	kills := regexp.MustCompile(`\bkill\b[^\n;}|&]*`).FindAllString(sent, -1)
	assert.Assert(t, len(kills) > 0)
	for _, k := range kills {
		if k = strings.TrimSpace(k); k != "kill -TERM 0" && k != "kill -CONT 0" && k != "kill -KILL 0" {
			t.Errorf("%q is sent", k)
		}
	}
	for _, other := range []string{"pkill", "killall", "[0-9]"} {
		assert.Assert(t, !strings.Contains(sent, other), other)
	}
}

// A container that was allowed the host's process namespace is no better than the host:
// nothing of the host's is signalled from inside.
func TestContainerInTheHostsNamespaceSignalsItsGroupOnly(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		bystander(t)
		policy := p.policy()
		policy.ExtraRunArgs, policy.AllowUnsafeArgs = []string{"--pid=host"}, []string{"pid"}
		r := &recorder{Policy: policy}
		s := open(t, r, p.spec())
		assert.Assert(t, s.ok("echo $$") != "1")
		s.byStep(execpolicy.EscalationTerm, ":", "echo begun; sleep 4738")
		s.ok("true")
		assert.NilError(t, s.Close())
		r.signalsItsGroupOnly(t)
	})
}

// A shell that ends while the next command's stdin is read is replaced, and not waited for.
func TestShellEndsWhileStdinIsRead(t *testing.T) {
	hostWorkers(t, func(t *testing.T, command []string) {
		s := open(t, execpolicy.HostPolicy{Limits: hostLimits}, execpolicy.Spec{Command: command})
		pid := strings.TrimSpace(s.ok("echo $$"))
		begin := filepath.Join(t.TempDir(), "begin")
		s.script("(until [ -e " + begin + " ]; do sleep 0.01; done; kill -9 $$) >/dev/null 2>&1 &")
		r := s.run(execpolicy.Command{Script: "cat", Stdin: io.MultiReader(readerFunc(func([]byte) (int, error) {
			assert.Check(t, os.WriteFile(begin, nil, 0o600))
			wait(t, func() bool {
				_, err := os.Stat("/proc/" + pid)
				return errors.Is(err, os.ErrNotExist)
			}, "the shell lives")
			return 0, io.EOF
		}), strings.NewReader("input"))})
		// What is read of its end as the command begins passes for the command's.
		assert.Equal(t, r.Outcome, execpolicy.OutcomeExited)
		assert.Assert(t, r.StateLost && (string(r.Stdout) == "input" || r.ExitCode == 137), "%d %q", r.ExitCode, r.Stdout)
		assert.Equal(t, s.ok("echo still"), "still")
	})
}
