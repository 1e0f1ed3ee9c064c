package attest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/attest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// hardened returns the zero policy on an engine, but with all the time to end, and with
// the engine's own filter where that takes no other, and a spec by which a container that
// is left behind is found.
func hardened(e enginetest.Engine) (execpolicy.DockerPolicy, execpolicy.Spec) {
	return execpolicy.DockerPolicy{Engine: e.Engine, Image: e.Image, AllowMissingLimits: len(e.MissingLimits) > 0,
			EngineSeccomp: places.NoFilter(e.Engine), Limits: execpolicy.Limits{TerminationTimeout: places.Patience}},
		execpolicy.Spec{Labels: maps.Clone(e.Labels)}
}

// possible returns the protections that an engine can give. Without root's rights some
// can set no limits.
func possible(t *testing.T, e enginetest.Engine) []attest.Protection {
	t.Helper()
	info, err := e.Info(t.Context())
	assert.NilError(t, err)
	able := map[attest.Protection]bool{
		attest.MemoryLimit: info.MemoryLimit, attest.NoSwap: info.MemoryLimit, attest.CPULimit: info.CPULimit,
		attest.PidsLimit: info.PidsLimit,
	}
	return slices.DeleteFunc(attest.Protections(), func(p attest.Protection) bool {
		can, isLimit := able[p]
		return isLimit && !can
	})
}

func TestZeroPolicyIsInForce(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		p, spec := hardened(e)
		for _, shell := range []string{"bash", "dash", "busybox"} {
			t.Run(shell, func(t *testing.T) {
				t.Parallel()
				spec := spec
				spec.Command = []string{shell}
				if shell == "busybox" {
					spec.Command = append(spec.Command, "sh")
				}
				required := attest.Options{Require: possible(t, e)}
				s, r, err := attest.Start(t.Context(), p, spec, required)
				if err != nil && strings.Contains(err.Error(), "not found") {
					leftout.Skip(t, "the image has no %s", shell)
				}
				assert.NilError(t, err)
				defer s.Close()
				t.Logf("\n%s", r)
				assert.Equal(t, len(r.Findings), len(attest.Protections()))
				for _, f := range r.Findings {
					assert.Check(t, !slices.Contains(required.Require, f.Protection) || f.InForce == attest.Yes, "%+v", f)
					assert.Check(t, f.Asked != "", "%+v", f)
				}
				assert.Equal(t, len(r.Missing), 0)
				assert.Equal(t, r.Container, s.Name())
				assert.Equal(t, r.Engine, e.Kind.String())
				assert.Assert(t, r.ImageID != "")
				assert.Assert(t, slices.ContainsFunc(r.Versions,
					func(c dockercli.Component) bool { return c.Version != "" && c.Name == e.Kind.String() }))
				assert.Assert(t, time.Since(r.Time) < time.Minute)

				again, err := attest.Check(t.Context(), s, p, spec, required)
				assert.NilError(t, err)
				assert.DeepEqual(t, again.Findings, r.Findings)
				// Nothing of it is left in the session's shell.
				res, err := s.Run(t.Context(),
					execpolicy.Command{Script: `echo "${l-}${f-}${d-}${n-}${r-}$-"; pwd; type lines name value`})
				assert.NilError(t, err)
				assert.Assert(t, !strings.Contains(string(res.Stdout), "mountinfo"), res.Text())
				assert.Assert(t, strings.Contains(string(res.Stdout), "/workspace\n"), res.Text())
			})
		}
	})
}

// What a policy allows is in force as it was asked for, whatever its limits on output.
// fifos is what is asked for besides if the session has FIFOs.
func fifos(r *attest.Report) string {
	if r.Transport == "fifo" {
		return ", /.cofferdam-io ro, which has only FIFOs in it"
	}
	return ""
}

func TestPolicyIsInForceAsAsked(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		if e.Remote {
			leftout.Skip(t, "a remote engine can mount nothing of this machine")
		}
		p, spec := hardened(e)
		spec.Workspace = enginetest.OrdinaryDir(t)
		uid, gid := os.Getuid(), os.Getgid()
		if uid == 0 {
			uid, gid = enginetest.UID, enginetest.GID
		}
		p.WorkspaceReadOnly = true
		p.Mounts = []dockercli.Mount{{Source: t.TempDir(), Target: "/opt/in put/"},
			{Source: enginetest.OrdinaryDir(t), Target: "/opt/out", Writable: true}}
		p.Tmpfs = map[string]int64{"/var/cache/": 1 << 20}
		p.AddCapabilities = []string{"CAP_CHOWN", "net_raw"}
		p.MemoryBytes, p.CPUs, p.PidsLimit = 64<<20, "0.3", 64
		p.MaxOutputBytes, p.MaxOutputLines = 16, 1
		s, r, err := attest.Start(t.Context(), p, spec, attest.Options{Require: possible(t, e)})
		assert.NilError(t, err)
		defer s.Close()
		for name, asked := range map[attest.Protection]string{
			attest.User: "the workspace's owner, or 65534:65534", attest.NoCapabilities: "none but CHOWN NET_RAW",
			attest.MemoryLimit: "64 MiB", attest.CPULimit: "0.3",
			attest.TmpfsFlags:   "/.cofferdam 36 MiB, /var/cache 1 MiB, nosuid, nodev",
			attest.NoHostMounts: "none but /opt/in put ro, /opt/out rw, /workspace ro" + fifos(r),
		} {
			assert.Check(t, cmp.Equal(r.Finding(name).Asked, asked))
		}
		inside := r.Finding(attest.User).Inside
		assert.Assert(t, e.Rootless && e.Kind == dockercli.Docker ||
			strings.HasPrefix(inside, fmt.Sprintf("uid %d, gid %d, ", uid, gid)), inside)
	})
}

// What a policy does not ask for need not be in force.
func TestNotAsked(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		p, spec := hardened(e)
		p.NetworkEnabled, p.WritableRootfs, p.AllowNewPrivileges, p.User = true, true, true, "0:0"
		s, r, err := attest.Start(t.Context(), p, spec, attest.Options{})
		if len(possible(t, e)) < len(attest.Protections()) {
			leftout.Skip(t, "the engine can't give all protections")
		}
		assert.NilError(t, err)
		defer s.Close()
		for _, name := range []attest.Protection{
			attest.NoNetwork, attest.ReadOnlyRoot, attest.NoNewPrivileges, attest.User,
		} {
			assert.Check(t, cmp.Equal(r.Finding(name).Asked, ""))
			assert.Check(t, cmp.Equal(r.Finding(name).InForce, attest.No))
		}
		_, err = attest.Check(t.Context(), s, p, spec, attest.Options{Require: []attest.Protection{attest.User}})
		assert.ErrorIs(t, err, attest.ErrNotInForce)
	})
}

// A container with all rights of the host is seen to have them.
func TestPrivileged(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		p, spec := hardened(e)
		p.ExtraRunArgs, p.AllowUnsafeArgs = []string{"--privileged"}, []string{"privileged"}
		s, r, err := attest.Start(t.Context(), p, spec, attest.Options{})
		assert.Assert(t, s == nil)
		assert.ErrorIs(t, err, attest.ErrNotInForce)
		t.Log(r.Missing)
		for _, name := range []attest.Protection{attest.Seccomp, attest.MaskedProc, attest.NoDevices} {
			assert.Check(t, slices.Contains(r.Missing, name), "%s", name)
		}
	})
}

// A weakening is a policy with one protection switched off.
type weakening struct {
	name   string
	off    attest.Protection
	change func(p *execpolicy.DockerPolicy)
	flag   string // of the engine's run, without dashes
	podman string // in its place there
}

var weakenings = []weakening{
	{name: "a network", off: attest.NoNetwork, change: func(p *execpolicy.DockerPolicy) { p.NetworkEnabled = true }},
	{name: "a writable root", off: attest.ReadOnlyRoot,
		change: func(p *execpolicy.DockerPolicy) { p.WritableRootfs = true }},
	{name: "a capability", off: attest.NoCapabilities,
		change: func(p *execpolicy.DockerPolicy) { p.AddCapabilities = []string{"NET_BIND_SERVICE"} }},
	{name: "new privileges", off: attest.NoNewPrivileges,
		change: func(p *execpolicy.DockerPolicy) { p.AllowNewPrivileges = true }},
	{name: "no seccomp", off: attest.Seccomp, flag: "security-opt=seccomp=unconfined"},
	{name: "the engine's seccomp", off: attest.Seccomp,
		change: func(p *execpolicy.DockerPolicy) { p.EngineSeccomp = true }},
	{name: "another seccomp", off: attest.Seccomp, change: func(p *execpolicy.DockerPolicy) {
		p.SeccompProfile = `{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["swapon"], "action": ` +
			`"SCMP_ACT_ERRNO"}]}`
	}},
	{name: "root", off: attest.User, change: func(p *execpolicy.DockerPolicy) { p.User = "0:0" }},
	{name: "another user", off: attest.User, change: func(p *execpolicy.DockerPolicy) { p.User = "1234:1234" }},
	{name: "more memory", off: attest.MemoryLimit, change: func(p *execpolicy.DockerPolicy) { p.MemoryBytes = 1 << 30 }},
	{name: "swap", off: attest.NoSwap, flag: "memory-swap=-1"},
	{name: "more processors", off: attest.CPULimit, change: func(p *execpolicy.DockerPolicy) { p.CPUs = "1.5" }},
	{name: "any number of processors", off: attest.CPULimit, flag: "cpus=0"},
	{name: "more processes", off: attest.PidsLimit, change: func(p *execpolicy.DockerPolicy) { p.PidsLimit = 300 }},
	{name: "any number of processes", off: attest.PidsLimit, flag: "pids-limit=-1"},
	{name: "the host's processes", off: attest.PIDNamespace, flag: "pid=host"},
	{name: "the host's shared memory", off: attest.PrivateIPC, flag: "ipc=host", podman: "volume=/dev/shm:/dev/shm"},
	{name: "a larger tmpfs", off: attest.TmpfsFlags,
		change: func(p *execpolicy.DockerPolicy) { p.Tmpfs = map[string]int64{"/tmp": 128 << 20} }},
	{name: "no tmpfs", off: attest.TmpfsFlags, change: func(p *execpolicy.DockerPolicy) { p.Tmpfs = map[string]int64{} }},
	{name: "an open /proc", off: attest.MaskedProc, flag: "security-opt=systempaths=unconfined",
		podman: "security-opt=unmask=ALL"},
	{name: "a device", off: attest.NoDevices, flag: "device=/dev/zero:/dev/another"},
	{name: "a device of Devices", off: attest.NoDevices, change: func(p *execpolicy.DockerPolicy) {
		p.Devices = []dockercli.Device{{Source: "/dev/zero", Target: "/dev/another"}}
	}},
	{name: "a device's rule", off: attest.NoDevices, flag: "device-cgroup-rule=c 1:11 r"},
	{name: "a host's directory", off: attest.NoHostMounts, change: func(p *execpolicy.DockerPolicy) {
		p.Mounts = []dockercli.Mount{{Source: "/usr/share", Target: "/opt/share"}}
	}},
	{name: "a host's directory in memory", off: attest.NoHostMounts, flag: "volume=/dev/shm:/opt/shm:ro"},
	{name: "a readable process 1", off: attest.Lifeline, change: func(p *execpolicy.DockerPolicy) {
		p.User, p.AddCapabilities = "0:0", []string{"SYS_PTRACE", "DAC_OVERRIDE"}
	}},
	{name: "core dumps", off: attest.NoUnsafeArgs, flag: "ulimit=core=-1"},
}

func (w weakening) apply(p execpolicy.DockerPolicy) execpolicy.DockerPolicy {
	if w.change != nil {
		w.change(&p)
	}
	flag := w.flag
	if w.podman != "" && p.Engine.Kind == dockercli.Podman {
		flag = w.podman
	}
	if flag != "" {
		name, _, _ := strings.Cut(flag, "=")
		p.ExtraRunArgs, p.AllowUnsafeArgs = []string{"--" + flag}, []string{name}
	}
	return p
}

// What a filter lets root do with podman is a weakness that the report names.
func TestFreezingIsSeen(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		p, spec := hardened(e)
		p.EngineSeccomp, p.User = true, "0:0"
		s, r, err := attest.Start(t.Context(), p, spec, attest.Options{Require: []attest.Protection{attest.NoNetwork}})
		assert.NilError(t, err)
		defer s.Close()
		info, err := e.Info(t.Context())
		assert.NilError(t, err)
		noted := strings.Contains(r.Finding(attest.Seccomp).Note, "freeze the container")
		assert.Equal(t, noted, e.Kind == dockercli.Podman && info.CgroupVersion == "1" && !e.Rootless, "%v", r)
	})
}

// Each protection is switched off, and missed by somebody who wants the zero policy's.
func TestWeakeningIsCaught(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		var mu sync.Mutex
		caught := map[attest.Protection]bool{}
		t.Run("each", func(t *testing.T) {
			for _, w := range weakenings {
				if e.Rootless && strings.HasPrefix(w.flag, "device-cgroup-rule") {
					continue // it has no effect there
				}
				t.Run(w.name, func(t *testing.T) {
					t.Parallel()
					zero, spec := hardened(e)
					o := attest.Options{Require: []attest.Protection{w.off}}
					s, err := execpolicy.Start(t.Context(), w.apply(zero), spec)
					if err != nil && e.Rootless {
						leftout.Skip(t, "it takes root's rights: %v", err)
					}
					assert.NilError(t, err)
					defer s.Close()
					r, err := attest.Check(t.Context(), s, zero, spec, o)
					assert.ErrorIs(t, err, attest.ErrNotInForce)
					assert.ErrorContains(t, err, string(w.off))
					assert.DeepEqual(t, r.Missing, []attest.Protection{w.off})
					f := r.Finding(w.off)
					t.Logf("%+v", f)
					assert.Equal(t, f.InForce, attest.No)
					mu.Lock()
					caught[w.off] = true
					mu.Unlock()
					// Each is seen from inside alone, whatever the engine says: else one
					// that is dropped in silence would be missed.
					res, err := s.Run(t.Context(), execpolicy.Command{Script: attest.InsideScript})
					assert.NilError(t, err)
					assert.Assert(t, attest.Inside(zero, spec, w.off, string(res.Stdout)) != attest.Yes)
				})
			}
		})
		for _, p := range attest.Protections() {
			assert.Check(t, caught[p] || e.Rootless, "%s has no weakening that is caught", p)
		}
	})
}

func TestStartRefuses(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		if e.Remote {
			leftout.Skip(t, "a remote engine can mount nothing of this machine")
		}
		p, spec := hardened(e)
		dir := t.TempDir()
		assert.NilError(t, os.Chmod(dir, 0o777)) // for whoever the session's user is
		spec.Workspace = dir
		p.ExtraRunArgs, p.AllowUnsafeArgs = []string{"--pids-limit=-1"}, []string{"pids-limit"}
		spec.Startup = []string{"echo ran >/workspace/ran"}
		prepared := false
		spec.Prepare = func(context.Context, *execpolicy.Session) error { prepared = true; return nil }
		s, r, err := attest.Start(t.Context(), p, spec,
			attest.Options{Require: []attest.Protection{attest.NoNetwork, attest.PidsLimit}})
		assert.Assert(t, s == nil)
		assert.ErrorIs(t, err, attest.ErrNotInForce)
		assert.ErrorIs(t, err, execpolicy.ErrStart)
		assert.ErrorContains(t, err, "pids limit (inside: ")
		assert.DeepEqual(t, r.Missing, []attest.Protection{attest.PidsLimit})
		_, err = e.Inspect(t.Context(), r.Container)
		assert.ErrorIs(t, err, dockercli.ErrNoContainer)

		// Nothing had run before.
		_, err = readFile(dir, "ran")
		assert.ErrorContains(t, err, "no such file")
		assert.Assert(t, !prepared)

		// What is not required may be missing.
		s, r, err = attest.Start(t.Context(), p, spec,
			attest.Options{Require: []attest.Protection{attest.Seccomp, attest.NoHostMounts}})
		assert.NilError(t, err)
		defer s.Close()
		assert.Equal(t, r.Finding(attest.PidsLimit).InForce, attest.No)
		assert.Equal(t, r.Finding(attest.NoHostMounts).Asked, "none but /workspace rw"+fifos(r))
		_, err = readFile(dir, "ran")
		assert.NilError(t, err)
		assert.Assert(t, prepared)
	})
}

// A session is looked at again when it is restarted.
func TestRestartAttestsAgain(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		p, spec := hardened(e)
		count := 0
		spec.Prepare = func(context.Context, *execpolicy.Session) error { count++; return nil }
		s, _, err := attest.Start(t.Context(), p, spec, attest.Options{Require: possible(t, e)})
		assert.NilError(t, err)
		defer s.Close()
		calls := count
		assert.NilError(t, s.Restart(t.Context()))
		assert.Equal(t, count, calls+1)
	})
}

func TestPolicyLeavesNothing(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		p, _ := hardened(e)
		r, err := attest.Policy(t.Context(), p, attest.Options{Require: possible(t, e)})
		assert.NilError(t, err)
		_, err = e.Inspect(t.Context(), r.Container)
		assert.ErrorIs(t, err, dockercli.ErrNoContainer)
	})
}

// The fake engine takes limits and drops them, as real ones do where they can't set them.
func TestDroppedInSilence(t *testing.T) {
	for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman} {
		t.Run(kind.String(), func(t *testing.T) {
			fakeengine.NeedIsolation(t)
			enginetest.Check(t)
			e := fakeengine.New(t, kind, fakeengine.Faults{DropLimits: true})
			p := execpolicy.DockerPolicy{Engine: e.Engine}
			limits := []attest.Protection{attest.MemoryLimit, attest.NoSwap, attest.CPULimit, attest.PidsLimit}
			o := attest.Options{Require: append(limits, attest.User)}
			s, r, err := attest.Start(t.Context(), p, execpolicy.Spec{}, o)
			assert.Assert(t, s == nil)
			assert.ErrorIs(t, err, attest.ErrNotInForce)
			t.Logf("\n%s", r)
			assert.DeepEqual(t, r.Missing, limits)
			for _, name := range limits {
				assert.Check(t, cmp.Contains(r.Finding(name).Note, "dropped in silence"))
				assert.Check(t, cmp.ErrorContains(err, string(name)))
			}
			assert.Equal(t, len(e.Containers()), 0)

			// An engine that says that it has set them is not believed.
			e.Set(fakeengine.Faults{})
			s, r, err = attest.Start(t.Context(), p, execpolicy.Spec{}, attest.Options{Require: limits})
			assert.Assert(t, s == nil)
			assert.ErrorIs(t, err, attest.ErrNotInForce)
			assert.DeepEqual(t, r.Missing, limits)
			assert.Equal(t, r.Finding(attest.MemoryLimit).InForce, attest.Unknown)
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	_, _, err := attest.Start(t.Context(), execpolicy.DockerPolicy{Engine: &dockercli.Engine{Path: "/nonexistent"}},
		execpolicy.Spec{},
		attest.Options{Require: []attest.Protection{"no bugs", attest.User, "no time"}})
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
	assert.ErrorContains(t, err, `"no bugs" is not a protection; Protections and PodProtections have their names; Require: "no time" is not`)
}

func TestReportRoundTrip(t *testing.T) {
	r := sample
	text, err := json.Marshal(&r)
	assert.NilError(t, err)
	var back attest.Report
	assert.NilError(t, json.Unmarshal(text, &back))
	assert.DeepEqual(t, back, r)
	for _, tag := range []string{`"time":"2026-01-02T03:04:05Z"`, `"engine":"docker"`,
		`"versions":[{"name":"runc","version":"1.1.5"}]`, `"image":"alpine"`,
		`"image_id":"sha256:0"`, `"container":"cofferdam-1"`, `"protection":"no swap"`, `"asked":"none"`,
		`"in_force":"no"`, `"inside":"in"`, `"outside":"out"`,
		`"note":"why"`, `"missing":["no swap"]`, `"egress":["a.example:443","b.example:443"]`,
		`"weaknesses":[{"component":"runc","version":"1.1.5","advisory":"CVE-1",` +
			`"summary":"escape","source":"https://example.org"}]`} {
		assert.Check(t, cmp.Contains(string(text), tag))
	}
}

var sample = attest.Report{
	Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Engine: "docker",
	Versions: []dockercli.Component{{Name: "runc", Version: "1.1.5"}},
	Image:    "alpine", ImageID: "sha256:0", Container: "cofferdam-1",
	Findings: []attest.Finding{
		{Protection: attest.NoSwap, Asked: "none", InForce: attest.No, Inside: "in", Outside: "out", Note: "why"},
		{Protection: attest.User, InForce: attest.Yes, Inside: "uid 1\n\x1b[2J"},
	},
	Missing: []attest.Protection{attest.NoSwap},
	Egress:  []string{"a.example:443", "b.example:443"},
	Weaknesses: []attest.Weakness{{Component: "runc", Version: "1.1.5", Advisory: "CVE-1", Summary: "escape",
		Source: "https://example.org"}},
}

func TestReportString(t *testing.T) {
	assert.Equal(t, sample.String(), `docker: runc 1.1.5
image alpine, sha256:0
container cofferdam-1, 2026-01-02T03:04:05Z

PROTECTION  ASKED          IN FORCE  INSIDE      OUTSIDE
no swap     none           no        in          out
user        not asked for  yes       uid 1??[2J  -

required and not in force:
  no swap

notes:
  no swap: why

what may be reached by Egress:
  a.example:443
  b.example:443

published escapes of these versions (a distribution may have fixed them without another number):
  runc 1.1.5: CVE-1, escape (https://example.org)
`)
}

// readFile reads a file of a directory that a container could write to.
func readFile(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.ReadFile(name)
}
