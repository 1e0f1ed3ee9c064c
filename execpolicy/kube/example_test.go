package kube_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/kube"
)

// A program that runs a script in a container of this machine. Example_cluster is the
// same program after its move to a cluster: the policy is all that has changed.
func Example_oneMachine() {
	ctx := context.Background()
	policy := execpolicy.DockerPolicy{
		Image:       "registry.example/python:3.12",
		MemoryBytes: 256 << 20,
	}
	s, err := execpolicy.Start(ctx, policy, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	r, err := s.Run(ctx, execpolicy.Command{Script: "echo $((6 * 7))"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Outcome, r.ExitCode, string(r.Stdout))
}

// The program of Example_oneMachine after its move to a cluster.
func Example_cluster() {
	ctx := context.Background()
	policy := kube.Policy{
		Cluster:        kube.Cluster{Namespace: os.Getenv("COFFERDAM_KUBERNETES_NAMESPACE")},
		Image:          os.Getenv("COFFERDAM_KUBERNETES_IMAGE"),
		PullPolicy:     "Never",
		NetworkPolicy:  os.Getenv("COFFERDAM_KUBERNETES_NETWORK_POLICY"),
		MemoryBytes:    256 << 20,
		EphemeralBytes: -1, // the nodes of this cluster can't count it
	}
	s, err := execpolicy.Start(ctx, policy, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	r, err := s.Run(ctx, execpolicy.Command{Script: "echo $((6 * 7))"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Outcome, r.ExitCode, string(r.Stdout))
	// Output: exited 0 42
}

// Manifest shows what a policy asks of the cluster, before anything is started.
func ExamplePolicy_Manifest() {
	text, err := kube.Policy{NetworkPolicy: "deny-all"}.Manifest(execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var pod struct {
		Spec struct {
			AutomountServiceAccountToken bool
			Containers                   []struct{ SecurityContext map[string]any }
		}
	}
	if err := json.Unmarshal(text, &pod); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(pod.Spec.AutomountServiceAccountToken,
		pod.Spec.Containers[0].SecurityContext)
	// Output: false map[allowPrivilegeEscalation:false capabilities:map[drop:[ALL]] readOnlyRootFilesystem:true]
}

// A cluster is named by a context of kubectl's configuration.
func ExampleCluster() {
	c := kube.Cluster{Context: "lab", Namespace: "sandboxes"}
	fmt.Println(c)
	// Output: kubectl, context lab, namespace sandboxes
}

// A program that runs in a pod has its sessions removed with it.
func ExampleOwner() {
	policy := kube.Policy{
		NetworkPolicy: "deny-all",
		Owner: &kube.Owner{
			APIVersion: "v1",
			Kind:       "Pod",
			Name:       os.Getenv("POD_NAME"),
			UID:        os.Getenv("POD_UID"),
		},
	}
	s, err := execpolicy.Start(context.Background(), policy, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
}

// Sessions run on nodes that are set apart for them, and wait a while for room.
func ExampleToleration() {
	policy := kube.Policy{
		NetworkPolicy: "deny-all",
		NodeSelector:  map[string]string{"pool": "sandboxes"},
		Tolerations: []kube.Toleration{
			{Key: "dedicated", Operator: "Equal", Value: "sandboxes", Effect: "NoSchedule"},
		},
		RoomTimeout: 2 * time.Minute,
	}
	fmt.Println(policy.Check(context.Background(), execpolicy.Spec{}))
	// Output: <nil>
}
