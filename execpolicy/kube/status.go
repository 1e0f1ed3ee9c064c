package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/seed-64a260eb/cofferdam/internal/kubectl"
	"github.com/seed-64a260eb/cofferdam/internal/reach"
)

// A pod is what the cluster knows of one.
type pod struct {
	Metadata struct {
		Name, UID         string
		CreationTimestamp time.Time
		DeletionTimestamp *time.Time
		Labels            map[string]string
	}
	Spec struct {
		NodeName string
	}
	Status struct {
		Phase, Reason, Message     string
		Conditions                 []condition
		ContainerStatuses          []containerStatus
		InitContainerStatuses      []containerStatus
		EphemeralContainerStatuses []containerStatus
	}
}

type condition struct {
	Type, Status, Reason, Message string
	LastTransitionTime            time.Time
}

type containerStatus struct {
	Name, ImageID string
	State         struct {
		Waiting    *struct{ Reason, Message string }
		Running    *struct{}
		Terminated *terminated
	}
}

// terminated is how a container has ended.
type terminated struct {
	ExitCode        int
	Reason, Message string
}

func readPod(text []byte) (*pod, error) {
	p := new(pod)
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("the pod that the cluster tells of: %w", err)
	}
	return p, nil
}

// container returns what the cluster knows of the pod's container.
func (p *pod) container() containerStatus {
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == containerName {
			return c
		}
	}
	return containerStatus{}
}

// ended reports whether the pod's container has ended, by the kubelet's word.
func (p *pod) ended() bool { return p.container().State.Terminated != nil }

// oomKilled tells whether the kernel has killed the container for memory. The reason
// alone may be that of a process inside that it has killed before.
func (p *pod) oomKilled() (killed, known bool) {
	if p.Status.Reason != "" || p.Metadata.DeletionTimestamp != nil {
		// It was evicted, perhaps for memory, or somebody has deleted it.
		return false, false
	}
	t := p.container().State.Terminated
	return t != nil && t.Reason == "OOMKilled" && t.ExitCode == 128+9, true
}

// over reports whether nothing runs in the pod any more, by the kubelet's word. Others
// may have added containers to it.
func (p *pod) over() bool {
	// A phase alone may be that of a pod whose node nobody has heard of.
	if p.Spec.NodeName == "" && p.Status.Phase == "Failed" {
		return true
	}
	runs := func(c containerStatus) bool { return c.State.Terminated == nil }
	return p.ended() && !slices.ContainsFunc(p.Status.ContainerStatuses, runs) &&
		!slices.ContainsFunc(p.Status.InitContainerStatuses, runs) &&
		!slices.ContainsFunc(p.Status.EphemeralContainerStatuses, runs)
}

// nodeLost returns since when the cluster takes the pod's node for lost, if it does: then
// it says that the pod is not ready. A kubelet that says so gives a reason.
func (p *pod) nodeLost() (since time.Time, lost bool) {
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" && c.Status == "False" && c.Reason == "" {
			return c.LastTransitionTime, true
		}
	}
	return time.Time{}, false
}

// end returns why a pod has ended, in the cluster's words.
func (p *pod) end() error {
	var class error
	words := strings.TrimSuffix(p.Status.Reason+": "+p.Status.Message, ": ")
	if t := p.container().State.Terminated; t != nil {
		// The message may be the container's own.
		message := strings.Map(func(r rune) rune {
			if !unicode.IsPrint(r) {
				return ' '
			}
			return r
		}, t.Message)
		words = strings.Trim(words+"; "+t.Reason+": "+message, ":; ")
		switch {
		case (t.ExitCode == reach.Reached || t.ExitCode == reach.Untried) && strings.HasPrefix(t.Message, reach.Trial):
			class = kubectl.ErrNetworkOpen
		case t.ExitCode == 126 || t.ExitCode == 127,
			t.Reason == "StartError" && (strings.Contains(t.Message, "executable file not found") || strings.Contains(t.Message, "no such file")):
			class = kubectl.ErrNoCommand
		case t.Reason == "StartError" || t.Reason == "ContainerCannotRun":
			class = kubectl.ErrRuntime
		}
		words = strings.TrimSuffix(
			fmt.Sprintf("the container exited with %d: %s", t.ExitCode, words), ": ")
	}
	if class == nil {
		return errors.New(words)
	}
	return fmt.Errorf("%w: %s", class, words)
}

// hopeless are the reasons for which a container waits that do not pass. What else a
// container waits for, such as ContainerCreating, may pass.
var hopeless = map[string]error{
	"ErrImagePull":               kubectl.ErrPull,
	"ImagePullBackOff":           kubectl.ErrPull,
	"RegistryUnavailable":        kubectl.ErrPull,
	"SignatureValidationFailed":  kubectl.ErrPull,
	"ErrImageNeverPull":          kubectl.ErrImageMissing,
	"ImageInspectError":          kubectl.ErrRuntime,
	"InvalidImageName":           kubectl.ErrArgument,
	"CreateContainerConfigError": kubectl.ErrArgument,
	"CreateContainerError":       kubectl.ErrRuntime,
	"PreCreateHookError":         kubectl.ErrRuntime,
	"RunContainerError":          kubectl.ErrRuntime,
}

// await returns whether a pod runs, or why it never will, and else what it waits for. It
// wraps ErrNoRoom of a pod for which there is no room now.
func (p *pod) await() (runs bool, state string, err error) {
	c := p.container()
	switch {
	case p.Metadata.DeletionTimestamp != nil:
		return false, "", errors.New("somebody has deleted the pod")
	case p.ended() || p.Status.Phase == "Failed" || p.Status.Phase == "Succeeded":
		return false, "", p.end()
	case c.State.Running != nil:
		return true, "Running", nil
	case c.State.Waiting != nil:
		state = strings.TrimSuffix(c.State.Waiting.Reason+": "+c.State.Waiting.Message, ": ")
		if class := hopeless[c.State.Waiting.Reason]; class != nil {
			return false, state, fmt.Errorf("%w: %s", class, state)
		}
		return false, state, nil
	}
	for _, condition := range p.Status.Conditions {
		if condition.Type == "PodScheduled" && condition.Status == "False" {
			state = condition.Reason + ": " + condition.Message
			if condition.Reason == "Unschedulable" {
				return false, state, fmt.Errorf("%w: %s", kubectl.ErrNoRoom, condition.Message)
			}
		}
	}
	if state == "" {
		state = p.Status.Phase
	}
	return false, state, nil
}
