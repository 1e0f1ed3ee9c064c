//go:build linux

package execpolicy_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// bystanderScript says that it is there, then which signals it gets, of those that can be
// caught, and at the end of its stdin that it lives.
const bystanderScript = `for s in HUP INT QUIT USR1 USR2 PIPE ALRM TERM CONT; do trap "echo $0 got $s" $s; done
	echo "$0 is $$"; while read line; do :; done; echo "$0 lives"`

// nobody is the user of the containers.
func nobody() *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	return &syscall.Credential{Uid: 65534, Gid: 65534}
}

// flock starts processes beside the library's own, by which it is seen at the end of the
// test that a signal went astray: some in the group of this program, in groups and in
// sessions of their own, its children and such whose parent has ended, and one in each of
// the groups.
func flock(t *testing.T, as *syscall.Credential, groups ...int) {
	t.Helper()
	in, hold, err := os.Pipe()
	assert.NilError(t, err)
	told, tell, err := os.Pipe()
	assert.NilError(t, err)
	var want []string
	add := func(name string, attributes syscall.SysProcAttr, script string) {
		attributes.Credential = as
		cmd := exec.Command("sh", "-c", script, name, bystanderScript)
		cmd.Stdin, cmd.Stdout, cmd.SysProcAttr = in, tell, &attributes
		assert.NilError(t, cmd.Start())
		want = append(want, name+" lives")
		t.Cleanup(func() { assert.Check(t, cmd.Wait()) })
	}
	kinds := map[string]syscall.SysProcAttr{"this group": {}, "its own group": {Setpgid: true},
		"its own session": {Setsid: true}}
	for _, pgid := range groups {
		kinds["group "+strconv.Itoa(pgid)] = syscall.SysProcAttr{Setpgid: true, Pgid: pgid}
	}
	for kind, attributes := range kinds {
		add("a child in "+kind, attributes, bystanderScript)
		add("an orphan in "+kind, attributes, `exec 3<&0; sh -c "$1" "$0" <&3 &`)
	}
	in.Close()
	tell.Close()

	lines := make(chan string)
	go func() {
		defer close(lines)
		rest := ""
		buf := make([]byte, 4096)
		for {
			n, err := told.Read(buf)
			rest += string(buf[:n])
			for line, after, ok := strings.Cut(rest, "\n"); ok; line, after, ok = strings.Cut(rest, "\n") {
				lines <- line
				rest = after
			}
			if err != nil {
				return
			}
		}
	}()
	pids := map[string]int{}
	for range want {
		name, pid, _ := strings.Cut(<-lines, " is ")
		pids[name], err = strconv.Atoi(pid)
		assert.NilError(t, err)
	}
	// This comes before their parents wait for them.
	t.Cleanup(func() {
		hold.Close()
		late := time.After(patience)
		var said []string
		for {
			select {
			case line, ok := <-lines:
				if ok {
					said = append(said, line)
					continue
				}
			case <-late:
				// They are this test's own, and their numbers still theirs: they have not
				// ended.
				for name, pid := range pids {
					if !slices.Contains(said, name+" lives") {
						syscall.Kill(pid, syscall.SIGKILL)
						t.Errorf("%s does not answer", name)
					}
				}
				for range lines {
				}
			}
			break
		}
		told.Close()
		slices.Sort(said)
		slices.Sort(want)
		assert.Check(t, slices.Equal(said, want), "%q", said)
	})
}

// everyStep ends commands and sessions in every way in which the library does.
func everyStep(t *testing.T, policy execpolicy.Policy, spec execpolicy.Spec) {
	s := open(t, policy, spec)
	ignoring := `echo begun; sh -c 'trap "" TERM; while :; do sleep 0.01; done'`
	for _, c := range []execpolicy.Command{
		{Script: "sleep 4841 & sleep 4841", Timeout: short},
		{Script: "(setsid sh -c 'trap \"\" TERM; sleep 1' >/dev/null 2>&1 &); sleep 4841", Timeout: short},
		{Script: "yes", OutputLimit: 1000},
		{Script: "exit 3"},
		{Script: "kill -9 $$"},
		{Script: "sh -c 'kill -STOP $$'", Timeout: short},
		{Script: ignoring, Timeout: short},
		{Script: "while :; do :; done", Timeout: short},
		{Script: "kill -STOP $$", Timeout: short},
	} {
		r, err := s.Run(t.Context(), c)
		if errors.Is(err, execpolicy.ErrEnded) && r == nil {
			assert.NilError(t, s.Restart(t.Context()))
			r, err = s.Run(t.Context(), c)
		}
		assert.NilError(t, err, c.Script)
		assert.Assert(t, r.Outcome != 0, c.Script)
	}
	assert.NilError(t, s.Restart(t.Context()))
	ctx, cancel := context.WithCancelCause(t.Context())
	c := s.start(ctx, execpolicy.Command{Script: ignoring})
	cancel(errGone)
	<-c.done
	assert.ErrorIs(t, c.err, errGone)
	assert.NilError(t, s.Restart(t.Context()))
	c = s.start(t.Context(), execpolicy.Command{Script: ignoring})
	assert.NilError(t, s.Close())
	<-c.done
	assert.ErrorIs(t, c.err, execpolicy.ErrClosed)

	spec.Startup = []string{"sleep 4841 & " + ignoring}
	ctx, cancel = context.WithCancelCause(t.Context())
	time.AfterFunc(soon, func() { cancel(errGone) })
	_, err := execpolicy.Start(ctx, policy, spec)
	assert.ErrorIs(t, err, errGone)
}

// Whatever way a session on the host is ended, nothing of the user's is signalled but
// what the session's own group holds.
func TestHostSignalsNobody(t *testing.T) {
	hostWorkers(t, func(t *testing.T, command []string) {
		flock(t, nil)
		everyStep(t, execpolicy.HostPolicy{Limits: hostLimits}, execpolicy.Spec{Command: command})
		noProcess(t, "sleep 4841")
	})
}

// A daemon that holds both streams open outlives the session, which ends in time all the
// same.
func TestHostDaemonThatHoldsTheStreams(t *testing.T) {
	enginetest.Check(t)
	limits := hostLimits
	limits.TerminationTimeout = ample
	s := open(t, execpolicy.HostPolicy{Limits: limits}, execpolicy.Spec{})
	daemon, err := strconv.Atoi(s.ok("setsid sh -c 'echo $$ >daemon; exec sleep 4846' & until [ -s daemon ]; " +
		"do sleep 0.01; done; cat daemon"))
	assert.NilError(t, err)
	// It is this test's own, so it can be ended here.
	defer syscall.Kill(daemon, syscall.SIGKILL)
	enginetest.Within(t, prompt, "Close", func() { assert.NilError(t, s.Close()) })
	<-s.Done()
	assert.DeepEqual(t, pids("sleep 4846"), []int{daemon})
}

// So it is when the program that holds the session is killed: its own group is another
// one.
func TestHostSignalsNobodyWhenItsProgramIsKilled(t *testing.T) {
	enginetest.Check(t)
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	// Nobody removes what the policy made for the session.
	cmd.Env = append(os.Environ(), holderVar+"="+hostHolder, "TMPDIR="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := cmd.StdoutPipe()
	assert.NilError(t, err)
	assert.NilError(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	flock(t, nil, cmd.Process.Pid)
	said := make([]byte, 6)
	_, err = io.ReadFull(stdout, said)
	assert.NilError(t, err)
	assert.Equal(t, string(said), "begun\n")
	assert.NilError(t, cmd.Process.Kill())
	noProcess(t, "sleep 4842")
}

// So it is in a container that was allowed the host's process namespace, whose user could
// signal them.
func TestContainerInTheHostsNamespaceSignalsNobody(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		policy := p.policy()
		policy.ExtraRunArgs, policy.AllowUnsafeArgs = []string{"--pid=host"}, []string{"pid"}
		t.Run("it could", func(t *testing.T) {
			decoy := exec.Command("sleep", "4843")
			decoy.SysProcAttr = &syscall.SysProcAttr{Credential: nobody()}
			assert.NilError(t, decoy.Start())
			defer decoy.Process.Kill()
			policy := policy
			if uid := os.Getuid(); uid != 0 {
				policy.User = strconv.Itoa(uid)
			}
			s := open(t, policy, p.spec())
			s.ok("kill -TERM " + strconv.Itoa(decoy.Process.Pid))
			assert.ErrorContains(t, decoy.Wait(), "terminated")
		})
		flock(t, nobody())
		everyStep(t, policy, p.spec())
		p.killHolder(t, "shared", holdings["shared"])
	})
}

// Podman's configuration can put every container into the host's process namespace.
func TestPodmansConfigurationGivesNoHostsProcesses(t *testing.T) {
	onPodman(t, func(t *testing.T, p place) {
		conf := filepath.Join(t.TempDir(), "containers.conf")
		assert.NilError(t, os.WriteFile(conf, []byte("[containers]\npidns = \"host\"\n"), 0o644))
		e := *p.engine
		e.Env = append(os.Environ(), "CONTAINERS_CONF="+conf)
		policy := p.policy()
		policy.Engine = &e
		assert.Equal(t, open(t, policy, p.spec()).ok("[ $(ls -d /proc/[0-9]* | wc -l) -lt 20 ] && echo own"), "own")
		compat := execpolicy.Compat()
		compat.Engine, compat.Image = &e, p.image
		argv, err := compat.Argv(&e, execpolicy.Spec{}, "name")
		assert.NilError(t, err)
		assert.Assert(t, slices.Contains(argv, "--pid=private"))
	})
}

// A removal that hangs is helped by a kill of everything inside, but never where inside
// is the host.
func TestOnlyAnOwnNamespaceIsEndedFromInside(t *testing.T) {
	fakeengine.NeedIsolation(t)
	enginetest.Check(t)
	for name, extra := range map[string][]string{"own": nil, "the host's": {"--pid=host"}} {
		t.Run(name, func(t *testing.T) {
			fake := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{})
			policy := execpolicy.DockerPolicy{Engine: fake.Engine, ExtraRunArgs: extra, AllowUnsafeArgs: []string{"pid"}}
			policy.TerminationTimeout = 3 * patience // at its end the client would be ended anyway
			s := open(t, policy, execpolicy.Spec{})
			client := place{}.client(t, s.Name())
			defer client.Release()
			fake.Set(fakeengine.Faults{Hang: []string{"run", "rm", "container inspect"}})
			closed := make(chan error, 1)
			go func() { closed <- s.Close() }()
			// To end it is the other help, which comes before.
			wait(t, func() bool { return errors.Is(client.Signal(syscall.Signal(0)), os.ErrProcessDone) }, "nothing is helped")
			helped := func() bool {
				return slices.ContainsFunc(fake.Calls(), func(call []string) bool { return slices.Contains(call, "exec") })
			}
			if extra == nil {
				wait(t, helped, "it is not helped from inside")
			} else {
				time.Sleep(soon) // it would have come
				assert.Assert(t, !helped(), "%q", fake.Calls())
			}
			fake.Set(fakeengine.Faults{})
			assert.NilError(t, <-closed)
			wait(t, func() bool { return len(fake.Containers()) == 0 }, "the container is left")
		})
	}
}
