package execpolicy_test

import (
	"context"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/pods"
)

// clusterTest begins the names of the tests that run in a cluster.
const clusterTest = "TestCluster"

// clusterEngine stands in a DockerPolicy for the cluster.
var clusterEngine = &dockercli.Engine{Path: "kubernetes", Remote: true}

// inCluster reports whether a test's sessions are to be a cluster's.
func inCluster(t *testing.T) bool { return strings.HasPrefix(t.Name(), clusterTest) }

// onCluster runs f in the cluster, and fails on what is left behind.
func onCluster(t *testing.T, f func(t *testing.T, p place)) {
	t.Run("kubernetes", func(t *testing.T) {
		in := pods.In(t)
		f(t, place{engine: clusterEngine, image: in.Policy.Image, labels: in.Labels})
	})
}

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := pods.Kubectl(args...)
	assert.NilError(t, err)
	return out
}

// names returns the names of all containers of the engine, or of the place's pods.
func (p place) names(t *testing.T) []string {
	t.Helper()
	if p.engine == clusterEngine {
		names, err := pods.Place{Labels: p.labels}.Names()
		assert.NilError(t, err)
		return names
	}
	return strings.Fields(p.cli(t, "ps", "--all", "--format={{.Names}}"))
}

// inspect returns what the engine says of a container, or the cluster of a pod.
func (p place) inspect(t *testing.T, name string) string {
	t.Helper()
	if p.engine == clusterEngine {
		return kubectl(t, "get", "pod", "--output=json", name)
	}
	return p.cli(t, "inspect", name)
}

// remove removes a session's container or pod, as somebody else would.
func (p place) remove(t *testing.T, name string) {
	t.Helper()
	if p.engine == clusterEngine {
		kubectl(t, "delete", "pod", "--now", name)
		return
	}
	assert.Check(t, p.engine.Remove(t.Context(), name))
}

// over returns the policy in whose place a DockerPolicy stands.
func over(p execpolicy.DockerPolicy) execpolicy.Policy {
	if p.Engine != clusterEngine {
		return p
	}
	pod := pods.Policy()
	pod.Limits, pod.Image, pod.User, pod.KeepAlive = p.Limits, p.Image, p.User, p.KeepAlive
	pod.MemoryBytes, pod.CPUs, pod.PidsLimit = p.MemoryBytes, p.CPUs, p.PidsLimit
	pod.Tmpfs = p.Tmpfs
	pod.WritableRootfs, pod.AllowNewPrivileges = p.WritableRootfs, p.AllowNewPrivileges
	pod.AddCapabilities = p.AddCapabilities
	if pod.NetworkEnabled = p.NetworkEnabled; p.NetworkEnabled {
		pod.NetworkPolicy = ""
	}
	return pod
}

func (p placePolicy) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	return over(p.DockerPolicy).Spawn(ctx, spec)
}

func (p placePolicy) Check(ctx context.Context, spec execpolicy.Spec) error {
	return over(p.DockerPolicy).(execpolicy.Checker).Check(ctx, spec)
}
