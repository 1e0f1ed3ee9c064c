//go:build linux

package workspace_test

import (
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/workspace"
)

type (
	// A mute policy wraps another and says nothing of workspaces; a frank one says what
	// the other says.
	mute  struct{ execpolicy.Policy }
	frank struct{ execpolicy.WorkspacePolicy }
)

// A policy that wraps another refuses what the other refuses, or copies nothing at all.
func TestWrappedPolicyIsAsked(t *testing.T) {
	engine := &dockercli.Engine{Path: "true", Remote: true}
	dir := t.TempDir()
	for _, bare := range []execpolicy.WorkspacePolicy{
		execpolicy.DockerPolicy{Engine: engine}, &execpolicy.DockerPolicy{Engine: engine}, execpolicy.HostPolicy{},
	} {
		_, onHost := bare.(execpolicy.HostPolicy)
		for _, mode := range []workspace.Mode{workspace.Auto, workspace.Copied} {
			for _, dir := range []string{dir, "/etc"} {
				if onHost && mode == workspace.Auto {
					continue // it mounts everything
				}
				_, err := workspace.Start(t.Context(), mute{bare}, execpolicy.Spec{Workspace: dir}, workspace.Options{Mode: mode})
				assert.ErrorIs(t, err, execpolicy.ErrInvalid)
				assert.ErrorContains(t, err, "workspace_test.mute")
				assert.ErrorContains(t, err, "execpolicy.WorkspacePolicy")
			}
			for _, p := range []execpolicy.Policy{bare, frank{bare}} {
				for dir, why := range map[string]string{"/etc": "would show /etc", dir + "/none": "can't be used"} {
					if onHost && dir == "/etc" {
						continue // all of the host is open to it
					}
					_, err := workspace.Start(t.Context(), p, execpolicy.Spec{Workspace: dir}, workspace.Options{Mode: mode})
					assert.ErrorIs(t, err, execpolicy.ErrInvalid)
					assert.ErrorContains(t, err, why)
				}
			}
		}
	}
}

func TestWrappedPolicyKeepsItsWorkspace(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		p.Policy.WorkspaceReadOnly = true
		p.Spec.Workspace = sample(t)
		started, err := workspace.Start(t.Context(), frank{p.Policy}, p.Spec, copied)
		assert.NilError(t, err)
		s := session{started, t, p.Spec.Workspace}
		s.ok("echo new >file")
		_, err = s.Save(t.Context())
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.NilError(t, s.Close())
		assert.Equal(t, s.host("file"), "old\n")
		// A mount that is refused bare is refused wrapped.
		p.Policy.Mounts = []dockercli.Mount{{Source: "/etc", Target: "/mnt"}}
		for _, w := range []execpolicy.Policy{mute{p.Policy}, frank{p.Policy}} {
			for _, mode := range []workspace.Mode{workspace.Auto, workspace.Mounted, workspace.Copied} {
				_, err := workspace.Start(t.Context(), w, p.Spec, workspace.Options{Mode: mode})
				assert.ErrorIs(t, err, execpolicy.ErrInvalid)
			}
		}
	})
}
