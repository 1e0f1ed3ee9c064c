// Package outside has what a policy tells package attest of what it starts: what it asks
// for, and what the engine says it has applied. It is the same for every kind of engine.
package outside

import (
	"context"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

// LibraryFilter is the Filter of the library itself.
const LibraryFilter = "the library's"

// A View is one policy's with one spec.
type View struct {
	// Engine is "docker", "podman" or "kubernetes".
	Engine string
	// Image is the image's name.
	Image  string
	Wanted Wanted
	// Inside returns a script that prints more of what is seen inside: lines "tried
	// reached ADDRESS", "tried silent ADDRESS" and "tried untried ADDRESS". If nil, there
	// is no more.
	Inside func(ctx context.Context, name string) (string, error)
	// Versions returns those of the client, the engine and its parts, as they report
	// them.
	Versions func(ctx context.Context) ([]Component, error)
	// Settings returns what the engine says it has applied to a container.
	Settings func(ctx context.Context, name string) (*Settings, error)
	// Info returns what the engine can do. It is nil for one that does not tell.
	Info func(ctx context.Context) (*dockercli.Info, error)
}

// Wanted is what a policy and a spec ask for, with the defaults in place of what is zero.
type Wanted struct {
	Network, WritableRoot, NewPrivileges, Devices bool
	// Caps are added capabilities as the kernel names them, without "CAP_".
	Caps []string
	// User is as the engine is told. If empty, AnyUser says in words which ordinary user
	// it may be.
	User, AnyUser string
	Memory, Pids  int64
	CPUs          string
	// Tmpfs has the sizes of directories in memory, by clean paths, and Shm is that of
	// /dev/shm.
	Tmpfs map[string]int64
	Shm   int64
	// Mounts say whether each clean path may be written to.
	Mounts map[string]bool
	// GVisor says that the runtime is gVisor's.
	GVisor bool
	// Filter says whose the filter of system calls is, and Profile is its text, which is
	// empty if it is the engine's.
	Filter, Profile string
	// DockerItself says that the engine is docker's own.
	DockerItself bool
	// Egress are the destinations that the policy's Egress lets through.
	Egress []string
	// Unsafe are the arguments that only AllowUnsafeArgs lets in, and why.
	Unsafe []string
	// Pod is what is asked of a pod. It is nil for what is not one.
	Pod *WantedPod
}

// A WantedPod is what a policy asks for a pod, besides.
type WantedPod struct {
	// NetworkPolicy names the object that keeps the network away. A pod has a network all
	// the same.
	NetworkPolicy string
	// Injected are the containers and volumes that admission may add.
	Injected []string
}

// These are what policies fill in that know of no engine.
type (
	Component  = dockercli.Component
	Container  = dockercli.Settings
	MountPoint = dockercli.MountPoint
)

// Settings are what an engine says of a container. They are docker's, whose words other
// engines use too: a pod that is not privileged has the network "none" if nothing is let
// through, and "no-new-privileges" among its security options.
type Settings struct {
	Container
	// Pod is what the API server has admitted. It is nil for what is not a pod.
	Pod *Pod
}

// A Pod is what the API server says of a pod, besides.
type Pod struct {
	// NetworkPolicies are those of the namespace that select the pod.
	NetworkPolicies []string
	// ServiceAccount is the account's name, and Token says that a volume of the pod has a
	// token of it. MayHaveToken says that a volume or a variable has secrets, which may
	// be tokens.
	ServiceAccount      string
	Token, MayHaveToken bool
	// Injected are the containers and volumes that the policy did not send.
	Injected []string
	// TerminationLog is the path of the file of the node that the container can write to.
	TerminationLog string
}
