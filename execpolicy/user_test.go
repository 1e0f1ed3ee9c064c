//go:build linux

package execpolicy_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// onLocalEngines runs f on each real engine that can mount directories of root's.
func onLocalEngines(t *testing.T, f func(t *testing.T, p place)) {
	onEngines(t, func(t *testing.T, p place) {
		if os.Geteuid() != 0 || p.engine.Remote || p.engine.Rootless {
			leftout.Skip(t, "only root has directories of root's, and only a local engine of root's mounts them")
		}
		f(t, p)
	})
}

// dirOf makes a directory with that owner and mode.
func dirOf(t *testing.T, uid, gid int, mode os.FileMode) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "directory")
	assert.NilError(t, os.Mkdir(dir, 0o700))
	assert.NilError(t, os.Chown(dir, uid, gid))
	assert.NilError(t, os.Chmod(dir, mode))
	return dir
}

// Nothing inside is root, or in root's group, because the caller is root or owns what is
// mounted.
func TestNobodyIsRootUnasked(t *testing.T) {
	onLocalEngines(t, func(t *testing.T, p place) {
		roots, readable, everybodys, groups := dirOf(t, 0, 0, 0o755), dirOf(t, 0, 0, 0o555), dirOf(t, 0, 0, 0o777),
			dirOf(t, 4711, 0, 0o700)
		for _, c := range []struct {
			name, user, workspace string
			readOnly              bool
			uid, gid              string
		}{
			{"no workspace", "", "", false, "65534", "65534"},
			{"a number without a group", "1000", "", false, "1000", "1000"},
			{"root's, which everybody may write to", "", everybodys, false, "65534", "65534"},
			{"root's, which is only read", "", readable, true, "65534", "65534"},
			{"a user's with root's group", "", groups, false, "4711", "65534"},
			{"root by name", "0:0", roots, false, "0", "0"},
			{"root by its name", "root", roots, false, "0", "0"},
			{"root's group by name", "4711:0", groups, false, "4711", "0"},
		} {
			t.Run(c.name, func(t *testing.T) {
				policy, spec := p.policy(), p.spec()
				policy.User, policy.WorkspaceReadOnly, spec.Workspace = c.user, c.readOnly, c.workspace
				s := open(t, policy, spec)
				got := map[string][]string{}
				for line := range strings.Lines(s.ok("cat /proc/self/status")) {
					if kind, ids, ok := strings.Cut(line, ":"); ok {
						got[kind] = strings.Fields(ids)
					}
				}
				assert.DeepEqual(t, got["Uid"], []string{c.uid, c.uid, c.uid, c.uid})
				assert.DeepEqual(t, got["Gid"], []string{c.gid, c.gid, c.gid, c.gid})
				assert.Assert(t, c.gid == "0" || !slices.Contains(got["Groups"], "0"), "%q", got["Groups"])
				if c.workspace != "" && !c.readOnly {
					s.ok("echo x >made && cat made")
				}
			})
		}
	})
}

// A workspace or a mount that the user inside can't use is refused with what can be done
// about it, and nothing is started.
func TestUnusableIsRefused(t *testing.T) {
	onLocalEngines(t, func(t *testing.T, p place) {
		roots, closed := dirOf(t, 0, 0, 0o755), dirOf(t, 0, 0, 0o700)
		script := filepath.Join(roots, "script")
		assert.NilError(t, os.WriteFile(script, nil, 0o600))
		others := dirOf(t, 4711, 4712, 0o700)
		refused := func(what execpolicy.DockerPolicy, workspace string, noMount bool, words ...string) {
			t.Helper()
			what.Engine, what.Image = p.engine, p.image
			spec := p.spec()
			spec.Workspace = workspace
			spec.Audit = func(e execpolicy.Event) error {
				assert.Check(t, e.Kind != execpolicy.EventSpawn)
				return nil
			}
			_, err := execpolicy.Start(t.Context(), what, spec)
			assert.ErrorIs(t, err, execpolicy.ErrInvalid)
			assert.Equal(t, errors.Is(err, execpolicy.ErrNoMount), noMount, "%v", err)
			for _, word := range words {
				assert.ErrorContains(t, err, word)
			}
		}
		zero, mount := execpolicy.DockerPolicy{}, func(writable bool, sources ...string) execpolicy.DockerPolicy {
			var p execpolicy.DockerPolicy
			for _, source := range sources {
				p.Mounts = append(p.Mounts,
					dockercli.Mount{Source: source, Target: "/" + filepath.Base(filepath.Dir(source)), Writable: writable})
			}
			return p
		}
		refused(zero, roots, true, "user 65534:65534", "can't read and write", "of 0:0", "chown",
			"WorkspaceReadOnly", "execpolicy/workspace", `"0:0"`)
		refused(execpolicy.DockerPolicy{User: "1000"}, roots, true, "user 1000:1000")
		refused(execpolicy.DockerPolicy{WorkspaceReadOnly: true}, closed, true, "can't read", "chown")
		refused(execpolicy.DockerPolicy{User: "1000:1000"}, others, true, "of 4711:4712")
		refused(mount(false, closed), "", false, "user 65534:65534", "can't read", "chmod or chown", "CopyFS",
			"WriteFile", `"0:0"`)
		refused(mount(false, script), "", false, "can't read", script)
		refused(mount(true, roots), "", false, "can't read and write")
		refused(mount(false, others, dirOf(t, 4713, 4713, 0o700)), "", false, "of 4711:4712", "of 4713:4713")
		refused(mount(false, others), dirOf(t, 4714, 4714, 0o755), false, "user 4714:4714", "of 4711:4712")
		// All at once, with what else is wrong.
		all := mount(false, closed, "/etc")
		all.MemoryBytes = -1
		refused(all, roots, true, "can't read and write", "can't read \"", "would show /etc", "MemoryBytes")
		refused(execpolicy.DockerPolicy{User: ":1000"}, "", false, `"0:1000"`)
	})
}

// The tutorial's first program: a directory that was made for the code, and that only its
// owner may enter, is mounted. A session that names no user runs as that owner.
func TestMountOfAPrivateDirectory(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		if p.engine.Remote {
			leftout.Skip(t, "a remote engine can mount nothing of this machine")
		}
		dir := privateDir(t)
		policy := p.policy()
		policy.Mounts = []dockercli.Mount{{Source: dir, Target: "/code"}, {Source: "/usr/bin", Target: "/tools"}}
		policy.MemoryBytes = 256 << 20
		r, err := execpolicy.Run(t.Context(), policy, p.spec(),
			execpolicy.Command{Argv: []string{"python3", "/code/script.py"}, Dir: "/code"})
		assert.NilError(t, err)
		assert.Equal(t, r.ExitCode, 0, r.Text())
		assert.Equal(t, string(r.Stdout), "Hello from sandbox!\n4\n")
	})
}

// privateDir makes a directory with the tutorial's script, both of them only for an
// ordinary user.
func privateDir(t *testing.T) string {
	t.Helper()
	dir := enginetest.OrdinaryDir(t)
	assert.NilError(t, os.Chmod(dir, 0o700))
	script := filepath.Join(dir, "script.py")
	assert.NilError(t, os.WriteFile(script, []byte("print('Hello from sandbox!')\nprint(2 + 2)\n"), 0o600))
	enginetest.GiveAway(t, script)
	return dir
}

// makeSandbox is what the tutorial's Dockerfile does, and those of others that work in
// /workspace.
const makeSandbox = `echo sandbox:x:1234:1235::/home/sandbox:/bin/sh >>/etc/passwd
	mkdir -p /home/sandbox /sandbox /workspace /data /.cofferdam; chown 1234:1235 /home/sandbox`

// Directories in memory belong to the container's user, also where the image has
// directories of root's.
func TestTmpfsOverTheImagesDirectories(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		p := place{engine: e.Engine, image: e.Derive(t, makeSandbox, "WORKDIR /workspace", "USER sandbox"), labels: e.Labels}
		for user, ids := range map[string]string{
			"": "65534 65534", "sandbox": "1234 1235", "sandbox:": "1234 1235", "sandbox:1236": "1234 1236",
			"1234": "1234 1234", "1234:1235": "1234 1235", "0:0": "0 0",
		} {
			policy := p.policy()
			policy.User = user
			policy.Tmpfs = map[string]int64{"/data": 1 << 20, "/tmp": 1 << 20, "/new": 1 << 20}
			s := open(t, policy, p.spec())
			assert.Equal(t, s.ok(`for d in /workspace /data /tmp /new; do touch $d/x || exit; done; echo $(id -u) $(id -g); pwd`), ids+"\n/workspace", user)
			assert.NilError(t, s.Close())
		}
		// The tutorial's second program: its own image, and the code where the image
		// works.
		dir := privateDir(t)
		for user, mount := range map[string]string{"": dir, "sandbox": "/usr/bin"} {
			policy := p.policy()
			policy.User = user
			policy.Image = e.Derive(t, makeSandbox, "WORKDIR /sandbox", "USER sandbox")
			policy.Mounts = []dockercli.Mount{{Source: mount, Target: "/sandbox"}}
			if e.Remote {
				leftout.Note(t, "a remote engine can mount nothing of this machine")
				break
			}
			s := open(t, policy, p.spec())
			if user == "" {
				assert.Equal(t, s.ok("cd /sandbox && python3 script.py"), "Hello from sandbox!\n4")
			} else {
				assert.NilError(t, s.WriteFile(t.Context(), "script.py", []byte("print(2 + 2)"), 0o644))
				assert.Equal(t, s.ok("python3 script.py; id -un"), "4\nsandbox")
			}
			assert.NilError(t, s.Close())
		}
	})
}

// The numbers of a user with a name are looked up once, where the engine needs them, and
// every container that is started for it has its record.
func TestNumbersOfANameAreLookedUpOnce(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		p := place{engine: e.Engine, image: e.Derive(t, makeSandbox), labels: e.Labels}
		policy := p.policy()
		policy.User = "sandbox"
		looks := e.Kind == dockercli.Docker && !e.PodmanService
		for try := range 2 {
			line, err := policy.Explain(t.Context(), execpolicy.Spec{})
			assert.NilError(t, err)
			assert.Equal(t, strings.Contains(line, "uid=1234,gid=1235"), looks && try > 0, line)
			var mu sync.Mutex
			var spawned []string
			spec := p.spec()
			spec.Audit = func(e execpolicy.Event) error {
				mu.Lock()
				defer mu.Unlock()
				if e.Kind == execpolicy.EventSpawn {
					spawned = append(spawned, e.Name)
				}
				return nil
			}
			s := open(t, policy, spec)
			assert.NilError(t, s.Close())
			want := 1
			if looks && try == 0 {
				want = 2
			}
			assert.Equal(t, len(spawned), want)
			assert.Equal(t, spawned[len(spawned)-1], s.Name())
		}
		// Many at once wait for the one that looks.
		again := policy
		again.Image = e.Derive(t, makeSandbox)
		var spawns atomic.Int32
		spec := p.spec()
		spec.Audit = func(e execpolicy.Event) error {
			if e.Kind == execpolicy.EventSpawn {
				spawns.Add(1)
			}
			return nil
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				s, err := execpolicy.Start(t.Context(), again, spec)
				if assert.Check(t, err) {
					assert.Check(t, s.Close())
				}
			})
		}
		wg.Wait()
		want := 4
		if looks {
			want = 5
		}
		assert.Equal(t, int(spawns.Load()), want)
		// What is wrong is said by the container that was asked for.
		policy.User = "nosuchuser"
		_, err := execpolicy.Start(t.Context(), policy, p.spec())
		assert.ErrorIs(t, err, dockercli.ErrArgument)
		assert.ErrorContains(t, err, "unable to find user nosuchuser")
		policy.Image, policy.Pull = "localhost/no-such-image:1", dockercli.PullNever
		_, err = execpolicy.Start(t.Context(), policy, p.spec())
		assert.ErrorIs(t, err, dockercli.ErrImageMissing)
	})
}

// A look that hangs ends with the time that a session has to answer, or with the
// caller's.
func TestLookForNumbersIsBounded(t *testing.T) {
	fakeengine.NeedIsolation(t)
	enginetest.Check(t)
	e := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{Hang: []string{"run"}})
	policy := execpolicy.DockerPolicy{Engine: e.Engine, User: "daemon",
		Limits: execpolicy.Limits{StartupTimeout: short, TerminationTimeout: 4 * time.Second}}
	_, err := execpolicy.Start(t.Context(), policy, execpolicy.Spec{})
	assert.ErrorIs(t, err, execpolicy.ErrStart)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, `the numbers of the user "daemon"`)
	looks := func() (n int) {
		for _, call := range e.Calls() {
			if call[0] == "run" {
				n++
			}
		}
		return n
	}
	before := looks()
	policy.StartupTimeout = ample
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := execpolicy.Start(ctx, policy, execpolicy.Spec{})
		ended <- err
	}()
	wait(t, func() bool { return looks() > before }, "nobody looks")
	cancel()
	select {
	case err = <-ended:
	case <-time.After(patience):
		t.Fatal("it waits on")
	}
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorContains(t, err, `the numbers of the user "daemon"`)
	e.Set(fakeengine.Faults{})
	// On a busy machine it takes long until the container of a look is gone.
	policy.Limits = hostLimits
	policy.TerminationTimeout = patience
	s := open(t, policy, execpolicy.Spec{})
	assert.Equal(t, s.ok("id -un"), "daemon")
}
