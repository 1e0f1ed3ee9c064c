package private_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/owner"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/private"
)

// image is the file with the image, also for an owner.
var image string

func TestMain(m *testing.M) {
	owner.Main(own)
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "image-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		image = filepath.Join(dir, "image")
		private.KeepImage(image)
		return m.Run()
	}())
}

func own(file string) error {
	private.KeepImage(file)
	d, err := private.Start(context.Background(), io.Discard)
	if err != nil {
		return err
	}
	run := append(d.Engine().Global, "run", "--detach", "--network=none", "--", d.Image(), "sleep", "4752")
	return exec.Command(d.Engine().Path, run...).Run()
}

// patience is for what takes a moment on an idle machine.
const patience = time.Minute

// start starts a daemon, or skips the test where there can be none. It is closed when the
// test ends.
func start(t *testing.T) *private.Daemon {
	t.Helper()
	begin := time.Now()
	d, err := private.Start(t.Context(), os.Stderr)
	if errors.Is(err, errors.ErrUnsupported) {
		leftout.Skip(t, "%v", err)
	}
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, d.Close()) })
	t.Logf("started within %v", time.Since(begin).Round(time.Millisecond))
	return d
}

// client returns a run of the daemon's client, which is killed if it hangs.
func client(t *testing.T, d *private.Daemon, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	e := d.Engine()
	return exec.CommandContext(ctx, e.Path, slices.Concat(e.Global, args)...)
}

func docker(t *testing.T, d *private.Daemon, args ...string) string {
	t.Helper()
	out, err := client(t, d, args...).CombinedOutput()
	assert.NilError(t, err, "%s: %s", args[0], out)
	return strings.TrimSpace(string(out))
}

// sleeper runs a container in the background.
func sleeper(t *testing.T, d *private.Daemon, name string) {
	t.Helper()
	// As process 1 it is not ended by a SIGTERM, for which a daemon that stops would wait
	// 10 s.
	docker(t, d, "run", "--detach", "--rm", "--stop-signal=KILL", "--name="+name, "--pull=never", "--network=none", "--",
		d.Image(), "sleep", "4751")
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if len(sleeps(t, d)) == 1 {
			return poll.Success()
		}
		return poll.Continue("it has not become what it was told to be")
	}, poll.WithTimeout(patience), poll.WithDelay(10*time.Millisecond))
}

// sleeps returns the processes of sleepers.
func sleeps(t *testing.T, d *private.Daemon) []string {
	t.Helper()
	others, err := d.Others()
	assert.NilError(t, err)
	return slices.DeleteFunc(others, func(line string) bool { return !strings.HasSuffix(line, " sleep 4751") })
}

func none(t *testing.T, d *private.Daemon) {
	t.Helper()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		others, err := d.Others()
		if err != nil {
			return poll.Error(err)
		}
		if len(others) > 0 {
			return poll.Continue("left: %q", others)
		}
		return poll.Success()
	}, poll.WithTimeout(patience), poll.WithDelay(10*time.Millisecond))
}

func TestDaemon(t *testing.T) {
	enginetest.Check(t)
	d := start(t)
	e := d.Engine()
	assert.Equal(t, e.Kind, dockercli.Docker)
	assert.Assert(t, !e.Remote && !e.Rootless && filepath.IsAbs(e.Path) && e.ServerVersion != "")
	none(t, d)

	run := func() {
		t.Helper()
		out := docker(t, d, "run", "--rm", "--pull=never", "--network=none", "--", d.Image(), "sh", "-c",
			"echo $$; ls /sys/class/net")
		assert.Equal(t, out, "1\nlo")
	}
	t.Run("it runs containers that the machine's engine does not know", func(t *testing.T) {
		run()
		sleeper(t, d, "cofferdam-private-test")
		out, err := exec.Command(e.Path, "ps", "--all", "--format={{.Names}}").CombinedOutput()
		assert.NilError(t, err)
		assert.Assert(t, !strings.Contains(string(out), "cofferdam-private-test"))
		docker(t, d, "rm", "--force", "cofferdam-private-test")
		none(t, d)
	})
	t.Run("while it is paused nothing answers", func(t *testing.T) {
		assert.NilError(t, d.Pause())
		resumed := false
		defer func() {
			if !resumed {
				d.Resume()
			}
		}()
		ps := client(t, d, "ps")
		assert.NilError(t, ps.Start())
		ended := make(chan error, 1)
		go func() { ended <- ps.Wait() }()
		select {
		case err := <-ended:
			t.Errorf("the client ended: %v", err)
		case <-time.After(500 * time.Millisecond):
		}
		assert.NilError(t, d.Resume())
		resumed = true
		assert.NilError(t, <-ended)
		run()
	})
	t.Run("it is killed and started again", func(t *testing.T) {
		sleeper(t, d, "cofferdam-private-test")
		assert.NilError(t, d.Kill())
		assert.ErrorIs(t, e.Remove(t.Context(), "cofferdam-private-test"), dockercli.ErrEngineDown)
		assert.Equal(t, len(sleeps(t, d)), 1) // it is on its own now
		assert.ErrorContains(t, d.Kill(), "is it running?")
		assert.NilError(t, d.Start(t.Context()))
		assert.ErrorContains(t, d.Start(t.Context()), "runs already")
		run()
		none(t, d)
	})
	t.Run("it is stopped and started again", func(t *testing.T) {
		sleeper(t, d, "cofferdam-private-test")
		assert.NilError(t, d.Pause())
		assert.NilError(t, d.Restart(t.Context()))
		none(t, d)
		run()
	})
}

// host returns all that a daemon could leave on the machine, but for processes and its
// cgroups.
func host(t *testing.T) []string {
	t.Helper()
	var all []string
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	assert.NilError(t, err)
	for _, line := range strings.Split(string(mounts), "\n") {
		// Those of other engines come and go.
		if !strings.Contains(line, "/var/lib/") && !strings.Contains(line, "/run/") {
			all = append(all, "mount "+line)
		}
	}
	interfaces, err := net.Interfaces()
	assert.NilError(t, err)
	for _, i := range interfaces {
		// Podman makes its bridges, and removes them, as others test.
		if name := strings.TrimPrefix(i.Name, "cni-"); !strings.HasPrefix(name, "veth") &&
			!strings.HasPrefix(name, "podman") {
			all = append(all, "interface "+i.Name)
		}
	}
	for _, pattern := range []string{"/etc/docker/*", "/run/docker*", "/run/containerd*"} {
		files, _ := filepath.Glob(pattern)
		all = append(all, files...)
	}
	return all
}

// processes returns those of a process namespace.
func processes(namespace string) []string {
	links, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
	return slices.DeleteFunc(links, func(link string) bool {
		target, _ := os.Readlink(link)
		return target != namespace
	})
}

func TestCloseLeavesNothing(t *testing.T) {
	for name, prepare := range map[string]func(d *private.Daemon) error{
		"running": func(d *private.Daemon) error { return nil },
		"paused":  (*private.Daemon).Pause,
		"killed":  (*private.Daemon).Kill,
		"stopped": func(d *private.Daemon) error { return d.Stop(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			enginetest.Check(t)
			before := host(t)
			d := start(t)
			sleeper(t, d, "cofferdam-private-test")
			namespace := owner.NamespaceOf(t, os.Getpid())
			assert.Assert(t, len(processes(namespace)) >= 4,
				"process 1, the daemon, its containerd and what looks after the container")
			assert.Assert(t, len(d.Cgroups()) > 0)
			assert.NilError(t, prepare(d))
			begin := time.Now()
			assert.NilError(t, d.Close())
			t.Logf("closed within %v", time.Since(begin).Round(time.Millisecond))
			assert.Equal(t, len(processes(namespace)), 0)
			assert.DeepEqual(t, host(t), before)
			assert.Equal(t, len(d.Cgroups()), 0, "%q", d.Cgroups())
			assert.NilError(t, d.Close())
		})
	}
}

// Whatever happens to the program, nothing of its daemon runs on.
func TestDaemonEndsWithItsProgram(t *testing.T) {
	enginetest.Check(t)
	temp, err := os.MkdirTemp("", "owner-")
	assert.NilError(t, err)
	defer os.RemoveAll(temp)
	namespace, kill := owner.Start(t, image, temp)
	defer kill()
	assert.Assert(t, len(processes(namespace)) >= 4)
	kill()
	begin := time.Now()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if left := processes(namespace); len(left) > 0 {
			return poll.Continue("left: %q", left)
		}
		return poll.Success()
	}, poll.WithTimeout(patience), poll.WithDelay(10*time.Millisecond))
	t.Logf("ended within %v", time.Since(begin).Round(time.Millisecond))
	dirs, err := filepath.Glob(filepath.Join(temp, "*"))
	assert.NilError(t, err)
	assert.Equal(t, len(dirs), 1)
	assert.NilError(t, private.RemoveCgroups(private.CgroupOf(dirs[0])))
}
