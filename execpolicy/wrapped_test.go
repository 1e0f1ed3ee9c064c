package execpolicy_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/attest"
	"github.com/seed-64a260eb/cofferdam/execpolicy/codeblock"
	"github.com/seed-64a260eb/cofferdam/execpolicy/kube"
	"github.com/seed-64a260eb/cofferdam/execpolicy/python"
	"github.com/seed-64a260eb/cofferdam/execpolicy/workspace"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// A wrapped policy has Spawn, and none of the other methods of the policy in it.
type wrapped struct{ execpolicy.Policy }

// dockerPolicies returns every DockerPolicy that the package makes, by what makes it.
func dockerPolicies() map[string]execpolicy.DockerPolicy {
	fetch, build := execpolicy.BuildPolicies()
	return map[string]execpolicy.DockerPolicy{
		"zero": {}, "Notebook": execpolicy.Notebook(), "fetch": fetch, "build": build,
		"Compat": execpolicy.Compat(),
	}
}

// refusedInEveryMode opens sessions with a workspace that a policy refuses to show.
func refusedInEveryMode(t *testing.T, p execpolicy.Policy, dir, why string) {
	t.Helper()
	spec := execpolicy.Spec{Workspace: dir}
	_, err := execpolicy.Start(t.Context(), wrapped{p}, spec)
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
	assert.ErrorContains(t, err, why)
	for _, mode := range []workspace.Mode{workspace.Auto, workspace.Mounted} {
		_, err := workspace.Start(t.Context(), wrapped{p}, spec, workspace.Options{Mode: mode})
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.ErrorContains(t, err, why)
	}
	// No policy is asked about a copy but by the methods that wrapped does not have.
	_, err = workspace.Start(t.Context(), wrapped{p}, spec, workspace.Options{Mode: workspace.Copied})
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
	assert.ErrorContains(t, err, "execpolicy.WorkspacePolicy")
}

// What a policy refuses, it refuses also as a part of another one, before anything is
// started.
func TestWrappedPolicyRefuses(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for name, policy := range dockerPolicies() {
		t.Run(name, func(t *testing.T) {
			e := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{})
			policy.Engine = e.Engine
			refusedInEveryMode(t, policy, "/etc", "would show /etc")
			refusedInEveryMode(t, &policy, "/etc", "would show /etc")
			refusedInEveryMode(t, policy, missing, "can't be used")

			for why, weaken := range map[string]func(*execpolicy.DockerPolicy, *execpolicy.Spec){
				"--privileged": func(p *execpolicy.DockerPolicy, _ *execpolicy.Spec) {
					p.ExtraRunArgs = []string{"--privileged"}
				},
				"Mounts": func(p *execpolicy.DockerPolicy, _ *execpolicy.Spec) {
					p.Mounts = []dockercli.Mount{{Source: "/etc", Target: "/mnt"}}
				},
				"CPUTimeSeconds": func(p *execpolicy.DockerPolicy, _ *execpolicy.Spec) {
					p.CPUTimeSeconds = 1
				},
				"another machine": func(p *execpolicy.DockerPolicy, spec *execpolicy.Spec) {
					remote := *p.Engine
					remote.Remote = true
					p.Engine, spec.Workspace = &remote, t.TempDir()
				},
			} {
				weak, spec := policy, execpolicy.Spec{}
				weaken(&weak, &spec)
				_, bare := execpolicy.Start(t.Context(), weak, spec)
				_, err := execpolicy.Start(t.Context(), wrapped{weak}, spec)
				assert.ErrorIs(t, err, execpolicy.ErrInvalid)
				assert.Error(t, err, bare.Error(), why)
			}
			assert.Equal(t, len(e.Calls()), 0)
		})
	}
	t.Run("host", func(t *testing.T) {
		refusedInEveryMode(t, execpolicy.HostPolicy{}, missing, "can't be used")
		_, err := execpolicy.Start(t.Context(), wrapped{execpolicy.HostPolicy{MemoryBytes: -1}}, execpolicy.Spec{})
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.ErrorContains(t, err, "MemoryBytes is -1")
	})
	t.Run("kube", func(t *testing.T) {
		// A kubectl that is asked anything would be missed.
		policy := kube.Policy{Cluster: kube.Cluster{Path: missing}, NetworkPolicy: "deny-all"}
		refusedInEveryMode(t, policy, "/etc", "would show /etc")
		refusedInEveryMode(t, policy, missing, "can't be used")
		policy.NetworkPolicy, policy.MemoryBytes = "", -1
		_, bare := execpolicy.Start(t.Context(), policy, execpolicy.Spec{})
		_, err := execpolicy.Start(t.Context(), wrapped{policy}, execpolicy.Spec{})
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.Error(t, err, bare.Error())
		assert.ErrorContains(t, err, "NetworkPolicy is empty")
		assert.ErrorContains(t, err, "MemoryBytes is -1")
	})
}

// A workspace that is mounted read-only stays so.
func TestWrappedPolicyMountsReadOnly(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		if p.engine.Remote {
			leftout.Skip(t, "a remote engine can mount nothing of this machine")
		}
		policy, spec := p.policy(), p.spec()
		policy.WorkspaceReadOnly, spec.Workspace = true, newWorkspace(t, "work")
		w, err := workspace.Start(t.Context(), wrapped{policy}, spec, workspace.Options{})
		assert.NilError(t, err)
		defer w.Close()
		s := session{w.Session, t}
		assert.Assert(t, s.script("echo new >file").ExitCode != 0)
		_, err = w.Save(t.Context())
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.NilError(t, w.Close())
		left, err := os.ReadDir(spec.Workspace)
		assert.NilError(t, err)
		assert.Equal(t, len(left), 0)
	})
}

// What is measured in a session does not depend on the type of its policy.
func TestWrappedPolicyIsAttested(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		strong := p.policy()
		weak := strong
		weak.AllowNewPrivileges, weak.WritableRootfs = true, true
		for _, protection := range []attest.Protection{attest.NoNewPrivileges, attest.ReadOnlyRoot} {
			o := attest.Options{Require: []attest.Protection{protection}}
			_, err := attest.Check(t.Context(), open(t, wrapped{strong}, p.spec()).Session, strong, p.spec(), o)
			assert.NilError(t, err)
			s := open(t, wrapped{weak}, p.spec())
			for _, claimed := range []placePolicy{weak, strong} {
				_, err = attest.Check(t.Context(), s.Session, claimed, p.spec(), o)
				assert.ErrorIs(t, err, attest.ErrNotInForce)
				assert.ErrorContains(t, err, string(protection))
			}
		}
	})
	t.Run("weak engine", func(t *testing.T) {
		fakeengine.NeedIsolation(t)
		e := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{})
		policy := execpolicy.DockerPolicy{Engine: e.Engine}
		s := open(t, wrapped{policy}, execpolicy.Spec{})
		_, err := attest.Check(t.Context(), s.Session, policy, execpolicy.Spec{}, attest.Options{RefuseWeakEngine: true})
		assert.ErrorIs(t, err, attest.ErrWeakEngine)
	})
}

// Packages codeblock and python see no policy: what they refuse hangs on the session.
func TestWrappedPolicyRefusesCode(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		no := errors.New("not today")
		spec := p.spec()
		spec.Approve = func(context.Context, execpolicy.Request) error { return no }
		s := open(t, wrapped{p.policy()}, spec)
		block := codeblock.Block{Language: "sh", Code: "echo ran"}

		report, err := codeblock.Run(t.Context(), s.Session, []codeblock.Block{block}, codeblock.Options{})
		assert.NilError(t, err)
		assert.Equal(t, report.Steps[0].Result.Outcome, execpolicy.OutcomeRefused)
		assert.ErrorIs(t, report.Steps[0].Result.Cause, no)

		called, err := codeblock.Call(t.Context(), s.Session, block, nil, codeblock.Options{})
		assert.NilError(t, err)
		assert.Equal(t, called.Outcome, execpolicy.OutcomeRefused)
		assert.ErrorIs(t, called.Cause, no)

		interpreter, err := python.Start(t.Context(), s.Session, python.Options{})
		assert.NilError(t, err)
		result, err := interpreter.Run(t.Context(), python.Snippet{Code: "1"})
		assert.NilError(t, err)
		assert.Equal(t, result.Outcome, execpolicy.OutcomeRefused)
		assert.ErrorIs(t, result.Cause, no)
	})
}
