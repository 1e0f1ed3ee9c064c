package attest_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/attest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

// foreignGroup is a control group of the tests' own, which engines make and leave.
const foreignGroup = "cofferdam-foreign"

// Each argument that only AllowUnsafeArgs lets in is named, and no session is opened
// where all protections are required. What is also seen from inside or said by the engine
// is in the report.
func TestUnsafeArgsAreNamed(t *testing.T) {
	t.Cleanup(removeForeignGroup)
	for _, c := range []struct {
		flag    string
		seen    string            // in the row, from inside or by the engine
		also    attest.Protection // that is not in force for it either
		refused string            // by docker, in its words
	}{
		// On version 1 of control groups both engines do so unasked.
		{flag: "cgroupns=host"},
		{flag: "userns=host", seen: "the host's users"},
		{flag: "ipc=shareable", also: attest.PrivateIPC},
		{flag: "security-opt=seccomp=", also: attest.Seccomp,
			refused: `Invalid --security-opt: "seccomp="`},
		{flag: "security-opt=apparmor=unconfined", seen: "apparmor=unconfined"},
		{flag: "oom-kill-disable", seen: "nothing is killed for want of memory"},
		{flag: "group-add=0", also: attest.User},
		{flag: "ulimit=core=-1", seen: "core dumps of up to unlimited"},
		{flag: "ulimit=nofile=2048:2048"},
		{flag: "cgroup-parent=/" + foreignGroup},
		{flag: "sysctl=kernel.msgmax=1"},
		{flag: "env=BASH_ENV=/dev/null"},
		{flag: "add-host=a:192.0.2.1"},
	} {
		name, value, _ := strings.Cut(c.flag, "=")
		t.Run(c.flag, func(t *testing.T) {
			enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
				p, spec := hardened(e)
				p.ExtraRunArgs, p.AllowUnsafeArgs = []string{"--" + c.flag}, []string{name}
				o := attest.Options{Require: possible(t, e)}
				s, r, err := attest.Start(t.Context(), p, spec, o)
				assert.Assert(t, s == nil)
				if c.refused != "" && e.Kind == dockercli.Docker {
					assert.ErrorContains(t, err, c.refused)
					return
				}
				if e.Rootless && r == nil {
					leftout.Skip(t, "the engine refuses it: %v", err)
				}
				assert.ErrorIs(t, err, attest.ErrNotInForce)
				assert.Check(t, slices.Contains(r.Missing, attest.NoUnsafeArgs))
				f := r.Finding(attest.NoUnsafeArgs)
				t.Logf("%+v", f)
				assert.Check(t, cmp.Equal(f.InForce, attest.No))
				assert.Check(t, cmp.Contains(f.Note, "a weakness: --"+name+" "))
				assert.Check(t, c.also == "" || slices.Contains(r.Missing, c.also), "%v", r.Missing)
				info, err := e.Info(t.Context())
				assert.NilError(t, err)
				switch {
				case name == "userns" && e.Kind == dockercli.Podman:
					// It does not say whose the users are.
				case name == "oom-kill-disable" && info.CgroupVersion != "1":
					// There is no such setting.
				default:
					assert.Check(t, cmp.Contains(f.Inside+" "+f.Outside, c.seen))
				}
				if name == "env" {
					assert.Check(t, !strings.Contains(r.String(), value), "a value may be secret")
				}
				if c.also != "" {
					return
				}
				// Whoever means it requires the rest.
				i := slices.Index(o.Require, attest.NoUnsafeArgs)
				o.Require = slices.Delete(o.Require, i, i+1)
				s, r, err = attest.Start(t.Context(), p, spec, o)
				assert.NilError(t, err)
				assert.Check(t, cmp.Contains(r.Finding(attest.NoUnsafeArgs).Note, "--"+name))
				assert.NilError(t, s.Close())
			})
		})
	}
}

// removeForeignGroup removes control groups without processes: the kernel refuses to
// remove others.
func removeForeignGroup() {
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		for _, below := range []string{"/*/*", "/*", ""} {
			found, _ := filepath.Glob(pattern + foreignGroup + below)
			for _, dir := range found {
				_ = os.Remove(dir)
			}
		}
	}
}

// An argument that is harmless, or has a value that is, is none that weakens.
func TestUnsafeArgs(t *testing.T) {
	p := execpolicy.DockerPolicy{ExtraRunArgs: []string{
		"--hostname=x", "--ulimit=core=0", "-e", "A=secret", "--env=B=secret",
		"--oom-score-adj=5", "--ipc=host", "--no-such", "--label=a=b",
	}}
	for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman} {
		var names []string
		for _, text := range p.UnsafeArgs(kind) {
			name, why, _ := strings.Cut(text, " ")
			assert.Check(t, why != "" && !strings.Contains(text, "secret"), text)
			names = append(names, name)
		}
		assert.DeepEqual(t, names, []string{"--env", "--ipc"})
	}
}
