// Package pods runs tests of sessions in the pods of a real cluster, which is the one
// that package kubeplug tells of.
package pods

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/kube"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/kubeplug"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
)

// A Place is where sessions of a test run. Its pods are those with its labels.
type Place struct {
	Policy kube.Policy
	Labels map[string]string
}

// New returns a place whose pods have that label.
func New(label, value string) Place {
	return Place{Policy(), map[string]string{label: value}}
}

// Policy returns the policy of pods without a network.
func Policy() kube.Policy {
	return kube.Policy{
		Image: os.Getenv(kubeplug.ImageVar), PullPolicy: "Never",
		NetworkPolicy:  os.Getenv(kubeplug.NetworkPolicyVar),
		EphemeralBytes: -1, // the cluster's nodes count no disk
	}
}

// In returns a place for one test, which fails on what is left behind. It comes first in
// a test, as [enginetest.Check] does.
func In(t *testing.T) Place {
	t.Helper()
	p := New("cofferdam-test", fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano()))
	enginetest.Check(t)
	t.Cleanup(func() {
		if left, err := p.Left(); len(left) > 0 || err != nil {
			t.Errorf("left behind: %q, %v", left, err)
			p.Remove()
		}
	})
	return p
}

// Left waits for the place's pods to be gone, and returns those that stay.
func (p Place) Left() (left []string, err error) {
	leftover.Patient.Until(func() bool {
		left, err = p.Names()
		return len(left) == 0 && err == nil
	})
	return left, err
}

// Spec returns a spec whose pods are the place's.
func (p Place) Spec() execpolicy.Spec {
	return execpolicy.Spec{Labels: maps.Clone(p.Labels)}
}

// Open opens a session, which is closed with the test.
func (p Place) Open(t *testing.T) *execpolicy.Session {
	t.Helper()
	s, err := execpolicy.Start(t.Context(), p.Policy, p.Spec())
	assert.NilError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// Names returns the names of the place's pods.
func (p Place) Names() ([]string, error) {
	out, err := p.List("{.items[*].metadata.name}")
	return strings.Fields(out), err
}

// List returns what a template of kubectl's JSONPath makes of the place's pods.
func (p Place) List(template string) (string, error) {
	return Kubectl("get", "pod", "--output=jsonpath="+template, p.selector())
}

// Remove asks the cluster to remove the place's pods.
func (p Place) Remove() error {
	_, err := Kubectl("delete", "pod", "--now", "--wait=false", p.selector())
	return err
}

func (p Place) selector() string {
	var all []string
	for label, value := range p.Labels {
		all = append(all, label+"="+value)
	}
	return "--selector=" + strings.Join(all, ",")
}

// kubectlTimeout is for a busy machine, and for a cluster that comes back.
const kubectlTimeout = time.Minute

// Kubectl runs kubectl, and returns what it prints.
func Kubectl(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), kubectlTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "kubectl", args...).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("kubectl %q: %w: %s", args, err, failed.Stderr)
	}
	return string(out), err
}
