package container

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
)

// A process that is not process 1 of that container is never signalled, and as long as it
// lives nothing is said to be gone.
func TestForgottenAndNotToBeKilled(t *testing.T) {
	fakeengine.NeedIsolation(t)
	for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman} {
		t.Run(kind.String(), func(t *testing.T) {
			e := fakeengine.New(t, kind, fakeengine.Faults{})
			enginetest.Check(t)                         // behind the engine, which what goes on trying needs to the end
			stranger := exec.Command("sleep", "4846.5") // the tests of execpolicy look for theirs on the host
			assert.NilError(t, stranger.Start())
			defer stranger.Wait()
			defer stranger.Process.Kill()
			start, err := strconv.ParseUint(leftover.StartOf(stranger.Process.Pid), 10, 64)
			assert.NilError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			client, err := procgroup.Start(procgroup.Cmd{Path: "/bin/true", Args: []string{"true"}})
			assert.NilError(t, err)
			<-client.Done()
			c := &Container{Engine: e.Engine, Name: "no-such-container", OwnPIDs: true}
			c.Adopt(client, true, FirstProcess{Name: c.Name, PID: stranger.Process.Pid, Start: start})
			assert.ErrorContains(t, c.Force(ctx), "live on")
			assert.Assert(t, !ended(stranger.Process.Pid, start))
		})
	}
}

// A container is removed by the engine although its process 1 lives on, if what is run
// inside is a program that lies or hangs.
func TestRemovedInSpiteOfWhatIsInside(t *testing.T) {
	lie := func(words string) fakeengine.Faults {
		return fakeengine.Faults{Fail: map[string]fakeengine.Failure{"exec": {Exit: 125, Stderr: words}}}
	}
	for _, c := range []struct {
		name   string
		kind   dockercli.Kind
		faults fakeengine.Faults
	}{
		{"docker lies", dockercli.Docker, lie("Error response from daemon: No such container: NAME\n")},
		{"podman lies", dockercli.Podman, lie("Error: no container with name or ID \"NAME\" found: no such container\n")},
		{"hangs", dockercli.Docker, fakeengine.Faults{Hang: []string{"exec"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := fakeengine.New(t, c.kind, c.faults)
			enginetest.Check(t)
			// It stands for a process 1 that can't be killed.
			stranger := exec.Command("sleep", "4849")
			assert.NilError(t, stranger.Start())
			defer stranger.Wait()
			defer stranger.Process.Kill()
			start, err := strconv.ParseUint(leftover.StartOf(stranger.Process.Pid), 10, 64)
			assert.NilError(t, err)
			client, err := procgroup.Start(procgroup.Cmd{Path: "/bin/true", Args: []string{"true"}})
			assert.NilError(t, err)
			<-client.Done()
			const name = "cofferdam-name"
			e.Add(name, nil)
			container := &Container{Engine: e.Engine, Name: name, OwnPIDs: true}
			container.Adopt(client, true, FirstProcess{Name: name, PID: stranger.Process.Pid, Start: start})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			forced := make(chan error, 1)
			go func() { forced <- container.Force(ctx) }()
			removed := leftover.Patient.Until(func() bool { return len(e.Containers()) == 0 })
			assert.NilError(t, stranger.Process.Kill())
			stranger.Wait()
			err = <-forced
			assert.Assert(t, removed, "it is not removed while its process 1 lives")
			assert.NilError(t, err)
		})
	}
}

// What runs in a container is killed from inside only where the kernel or the engine says
// that nothing of the host's is there.
func TestOnlyWhatIsInsideIsKilledFromInside(t *testing.T) {
	if os.Getuid() != 0 {
		leftout.Skip(t, "only root can start a process of another user")
	}
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		cli := func(args ...string) string {
			t.Helper()
			// The deferred ones come when the test's own context may have ended.
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, e.Path, slices.Concat(e.Global, args)...)
			cmd.Env, cmd.WaitDelay = e.Env, time.Second
			out, err := cmd.Output()
			assert.NilError(t, err, "%q: %s", args, out)
			return string(out)
		}
		const uid = 61234
		decoy := exec.Command("sleep", "4847")
		decoy.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		assert.NilError(t, decoy.Start())
		defer decoy.Wait()
		defer decoy.Process.Kill()
		for _, pids := range []string{"host", "own"} {
			args := []string{"run", "-d", fmt.Sprint("--user=", uid), "--stop-signal=KILL"}
			if pids == "host" {
				args = append(args, "--pid=host")
			}
			for name, value := range e.Labels {
				args = append(args, "--label="+name+"="+value)
			}
			id := strings.TrimSpace(cli(append(args, e.Image, "sh", "-c", "sleep 4848 & echo on; wait")...))
			defer cli("rm", "-f", id)
			assert.Assert(t, leftover.Patient.Until(func() bool { return strings.Contains(cli("logs", id), "on") }), "it does not begin")
			ctx, cancel := context.WithCancel(t.Context())
			tried := make(chan struct{})
			go (&Container{Engine: e.Engine, Name: id, OwnPIDs: true}).killAll(ctx, tried)
			<-tried
			cancel()
			running := func() bool {
				return strings.TrimSpace(cli("inspect", "--format={{.State.Running}}", id)) == "true"
			}
			if pids == "host" {
				assert.Assert(t, running())
				assert.NilError(t, decoy.Process.Signal(syscall.Signal(0)))
				assert.Assert(t, leftover.StatOf(decoy.Process.Pid)[2] != "Z")
			} else {
				// Process 1 gets no signal from inside; it ends with what it waits for.
				assert.Assert(t, leftover.Patient.Until(func() bool { return !running() }), "nothing was killed")
			}
		}
	})
}
