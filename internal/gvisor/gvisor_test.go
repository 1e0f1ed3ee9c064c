package gvisor

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/attest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/private"
)

// policy returns one whose containers run under gVisor, on a docker daemon of the test's
// own.
func policy(t *testing.T) (execpolicy.DockerPolicy, *private.Daemon) {
	t.Helper()
	dir := t.TempDir()
	runsc := filepath.Join(dir, "runsc")
	build := exec.Command("go", "build", "-o", runsc, "gvisor.dev/gvisor/runsc")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	assert.NilError(t, err, "%s", out)
	// It has no driver for control groups of the first version beside the second.
	script := filepath.Join(dir, "runtime")
	assert.NilError(t, os.WriteFile(script, []byte("#!/bin/sh\nexec "+runsc+" --ignore-cgroups \"$@\"\n"), 0o755))
	d, err := private.Start(t.Context(), os.Stderr, "--add-runtime=runsc="+script)
	if errors.Is(err, errors.ErrUnsupported) {
		leftout.Skip(t, "%v", err)
	}
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, d.Close()) })
	return execpolicy.DockerPolicy{
		Engine: d.Engine(), Image: d.Image(), Runtime: "runsc",
		Limits: execpolicy.Limits{StartupTimeout: time.Minute, TerminationTimeout: time.Minute, CommandTimeout: time.Minute},
	}, d
}

func TestGVisor(t *testing.T) {
	if testing.Short() {
		leftout.Note(t, "gVisor would have to be compiled")
		return
	}
	p, d := policy(t)
	s, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
	assert.NilError(t, err)
	defer s.Close()
	run := func(script string) *execpolicy.Result {
		t.Helper()
		r, err := s.Run(t.Context(), execpolicy.Command{Script: script})
		assert.NilError(t, err, script)
		return r
	}
	assert.Assert(t, strings.Contains(run("cat /proc/version").Text(), "gvisor"))
	assert.Equal(t, s.Transport(), execpolicy.TransportAttach)

	// A session is one.
	run("x=3; cd /tmp")
	assert.Equal(t, run("echo $x $PWD").Text(), "3 /tmp\n")
	r := run("exit 3")
	assert.Assert(t, r.StateLost && r.ExitCode == 3)
	// Right behind the start of a worker, and later.
	for range 4 {
		r, err = s.Run(t.Context(), execpolicy.Command{Script: "sleep 1000 & sleep 1000", Timeout: time.Second})
		assert.NilError(t, err)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
		assert.Assert(t, r.Gone && !r.StateLost)
	}
	assert.Equal(t, run("for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$f; done | grep -c '[s]leep 1000'").Text(), "0\n\nExit code: 1")

	// What holds, and what does not.
	assert.Equal(t, run("touch /x").ExitCode, 1)
	assert.Equal(t, run("id -u").Text(), "65534\n")
	assert.Equal(t, run("[ -r /proc/1/environ ] && [ -e /proc/1/fd/0 ] && echo readable").Text(), "readable\n")

	report, err := attest.Check(t.Context(), s, p, execpolicy.Spec{}, attest.Options{Require: []attest.Protection{
		attest.ReadOnlyRoot, attest.NoCapabilities, attest.NoNewPrivileges, attest.User, attest.PIDNamespace, attest.MaskedProc,
	}})
	assert.NilError(t, err, "%v", report)
	// Its own kernel has more devices and mounts than the host's gives.
	assert.Equal(t, report.Finding(attest.NoDevices).InForce, attest.No)
	assert.Equal(t, report.Finding(attest.NoHostMounts).InForce, attest.No)
	assert.Equal(t, report.Finding(attest.Lifeline).InForce, attest.No)
	assert.NilError(t, s.Close())
	_, err = p.Engine.Inspect(t.Context(), s.Name())
	assert.ErrorIs(t, err, dockercli.ErrNoContainer)
	left, err := d.Others()
	assert.NilError(t, err)
	assert.Equal(t, len(left), 0, "%q", left)
}
