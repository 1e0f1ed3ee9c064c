package execpolicy_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/kube"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/kubeplug"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
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
		p := place{engine: clusterEngine, image: os.Getenv(kubeplug.ImageVar),
			labels: map[string]string{"cofferdam-test": fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())}}
		enginetest.Check(t)
		t.Cleanup(func() {
			var left []string
			if !leftover.Patient.Until(func() bool {
				left = p.pods(t)
				return len(left) == 0
			}) {
				t.Errorf("left behind: %q", left)
				p.kubectl(t, "delete", "pod", "--now", "--wait=false", "--selector="+p.selector())
			}
		})
		f(t, p)
	})
}

// selector selects the pods of the place.
func (p place) selector() string {
	for name, value := range p.labels {
		return name + "=" + value
	}
	return "none=none"
}

// pods returns the names of the place's pods.
func (p place) pods(t *testing.T) []string {
	t.Helper()
	return strings.Fields(p.kubectl(t, "get", "pod", "--output=jsonpath={.items[*].metadata.name}",
		"--selector="+p.selector()))
}

func (p place) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), ample)
	defer cancel()
	out, err := exec.CommandContext(ctx, "kubectl", args...).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		out = failed.Stderr
	}
	assert.NilError(t, err, "%q: %s", args, out)
	return string(out)
}

// names returns the names of all containers of the engine, or of the place's pods.
func (p place) names(t *testing.T) []string {
	t.Helper()
	if p.engine == clusterEngine {
		return p.pods(t)
	}
	return strings.Fields(p.cli(t, "ps", "--all", "--format={{.Names}}"))
}

// inspect returns what the engine says of a container, or the cluster of a pod.
func (p place) inspect(t *testing.T, name string) string {
	t.Helper()
	if p.engine == clusterEngine {
		return p.kubectl(t, "get", "pod", "--output=json", name)
	}
	return p.cli(t, "inspect", name)
}

// remove removes a session's container or pod, as somebody else would.
func (p place) remove(t *testing.T, name string) {
	t.Helper()
	if p.engine == clusterEngine {
		p.kubectl(t, "delete", "pod", "--now", name)
		return
	}
	assert.Check(t, p.engine.Remove(t.Context(), name))
}

// over returns the policy in whose place a DockerPolicy stands.
func over(p execpolicy.DockerPolicy) execpolicy.Policy {
	if p.Engine != clusterEngine {
		return p
	}
	pod := kube.Policy{
		Limits: p.Limits, Image: p.Image, PullPolicy: "Never", MemoryBytes: p.MemoryBytes, CPUs: p.CPUs,
		PidsLimit: p.PidsLimit, Tmpfs: p.Tmpfs, User: p.User, WritableRootfs: p.WritableRootfs,
		AddCapabilities: p.AddCapabilities, AllowNewPrivileges: p.AllowNewPrivileges,
		NetworkEnabled: p.NetworkEnabled, KeepAlive: p.KeepAlive,
		EphemeralBytes: -1, // its nodes count no disk
	}
	if !pod.NetworkEnabled {
		pod.NetworkPolicy = os.Getenv(kubeplug.NetworkPolicyVar)
	}
	return pod
}

func (p placePolicy) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	return over(p.DockerPolicy).Spawn(ctx, spec)
}

func (p placePolicy) Check(ctx context.Context, spec execpolicy.Spec) error {
	return over(p.DockerPolicy).(execpolicy.Checker).Check(ctx, spec)
}
