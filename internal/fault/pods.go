//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy/kube"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/kubeplug"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/pods"
)

// kubernetes is what ENGINE says for the cluster of package kubeplug.
const kubernetes = "kubernetes"

// podTermination is the default TerminationTimeout of pods.
const podTermination = 30 * time.Second

// newPodSuite gets ready for sessions in a cluster's pods.
func newPodSuite(id string, out io.Writer) (*suite, error) {
	if os.Getenv(kubeplug.DirVar) == "" {
		return nil, errors.New(kubeplug.DirVar + " names no cluster: make test-kubernetes has one")
	}
	place := pods.New(label, id)
	s := &suite{spelled: kubernetes, id: id, out: out, pods: &place}
	s.image = place.Policy.Image
	var err error
	s.version, err = pods.Kubectl("get", "node",
		"--output=jsonpath={.items[0].status.nodeInfo.kubeletVersion}")
	return s, err
}

// podPolicy returns the policy of pods with those settings.
func (s *suite) podPolicy(set settings) kube.Policy {
	p := s.pods.Policy
	p.Limits.StartupTimeout, p.Limits.TerminationTimeout = shellTimeout, podTermination
	p.MemoryBytes, p.PidsLimit = set.memory, set.pids
	return p
}

// lookPods adds the pods to what is seen. A pod that has ended, and that nobody was left
// to remove, is not what its host's program has to answer for.
func (s *suite) lookPods(seen map[string]string) {
	out, err := s.pods.List(`{range .items[*]}{.metadata.name} {.status.phase}{"\n"}{end}`)
	if err != nil {
		out = "? " + err.Error()
	}
	for line := range strings.Lines(out) {
		name, phase, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !s.orphans || phase != "Succeeded" && phase != "Failed" {
			seen["pod "+name] = "pod " + name + ": " + phase
		}
	}
}

// containerOf returns the ID of the container in a pod; it is empty if there is none.
func (s *suite) containerOf(name string) (string, error) {
	out, err := pods.Kubectl("get", "pod", "--ignore-not-found",
		"--output=jsonpath={.status.containerStatuses[0].containerID}", name)
	_, id, _ := strings.Cut(out, "://")
	return id, err
}

// forget removes the pods of programs that were killed with their guards. They have the
// labels of the open session's, which is ended first.
func (s *suite) forget() error {
	if !s.orphans {
		return nil
	}
	if err := s.end(); err != nil {
		return err
	}
	s.orphans = false
	if err := s.pods.Remove(); err != nil {
		return err
	}
	var left []string
	var err error
	if !leftover.Patient.Until(func() bool {
		left, err = s.pods.Names()
		return err == nil && len(left) == 0
	}) {
		return fmt.Errorf("pods are not removed: %q, %w", left, err)
	}
	return nil
}
