package kube

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/container"
)

// A Policy spawns commands in pods. The defaults are those of the zero
// [execpolicy.DockerPolicy], as far as a pod can have them: the documentation of the
// package says what differs. NetworkPolicy or NetworkEnabled must be set. The comment of
// each field says what a value other than zero allows.
//
// Everything is checked before anything is started, and every problem is reported at
// once.
type Policy struct {
	// Limits bound the session. If TerminationTimeout is zero or negative, it is 30 s: a
	// pod takes seconds to end by the kubelet's word. The trial of the network takes up
	// to 17 s of StartupTimeout: one of less than 20 s may end a start before the trial
	// can say what it has reached.
	execpolicy.Limits

	// Cluster is where the pods run. The zero Cluster is that of kubectl's own
	// configuration.
	Cluster Cluster
	// Image is the image's reference. If empty, it is [execpolicy.DefaultImage]. The
	// image needs what that of a DockerPolicy needs and, unless NetworkEnabled is set,
	// something that can try the network: bash, python3, perl, or busybox's nc. Its
	// environment and, if the node makes them, its volumes are used. Its user, entry
	// point, command and working directory are not.
	Image string
	// PullPolicy is "IfNotPresent", "Always" or "Never". If empty, it is "IfNotPresent".
	PullPolicy string
	// PullSecrets are the names of the namespace's Secrets that have the registry's
	// passwords.
	PullSecrets []string

	// ReadyTimeout is how long a pod may take from its creation until it runs: to be
	// scheduled, to have its image pulled and to be started. If zero, it is 5 min. It
	// must not be negative.
	ReadyTimeout time.Duration
	// RoomTimeout is how long a pod may wait, within ReadyTimeout, while no node has room
	// for it, for example until the cluster has got itself another node. If zero, the
	// start fails as soon as the scheduler says that there is no room. It must not be
	// negative.
	RoomTimeout time.Duration
	// Progress, if not nil, is called with the name of a pod and what the cluster says of
	// it, each time that this changes while a start waits. For one start it is called
	// once at a time, and it holds up that start until it returns.
	Progress func(pod, state string)

	// NetworkPolicy is the name of a NetworkPolicy of the namespace that selects the
	// pods, by their label cofferdam.network=none for example, and allows neither what
	// comes in nor what goes out. Spawn reads it, and every other NetworkPolicy that
	// selects the pod: none may allow anything. Before anything else runs, the pod tries
	// to reach the cluster's API, its node and the address of a cloud's metadata. If it
	// reaches one, or has no program to try with, the start fails with an error that
	// wraps [ErrNetworkOpen]. The programs are the image's: one that is hostile proves
	// nothing.
	NetworkPolicy string
	// NetworkEnabled lets the pod use the network, as far as the cluster allows. Then
	// NetworkPolicy must be empty.
	NetworkEnabled bool

	// WritableRootfs lets the command write to the container's root, on the node's disk
	// within EphemeralBytes. If false, it can write only to the workspace, to the
	// directories in Tmpfs, and to the volumes that the image declares.
	WritableRootfs bool
	// MemoryBytes is how much memory the pod may use, files in Tmpfs included. It is at
	// least 6 MiB. If zero, it is 512 MiB. The node reserves it.
	MemoryBytes int64
	// CPUs is how many processors' time the pod may use, as a decimal number from "0.01"
	// to "999999". If empty, it is "1". The node reserves it.
	CPUs string
	// EphemeralBytes is how much of the node's disk the pod may use, with the log of what
	// the command prints. The kubelet evicts a pod that uses more. If zero, it is
	// 128 MiB: more than a log has with the kubelet's own settings. If negative, there is
	// no limit, for nodes that can't count it.
	EphemeralBytes int64
	// PidsLimit is how many processes and threads the command's user may have at once
	// (RLIMIT_NPROC). It is at least 16. If zero, it is 256. The image's shell sets it.
	// It does not bind root without UserNamespace: see User.
	PidsLimit int64
	// Tmpfs maps directories in memory to their sizes in bytes, which must be positive.
	// Programs can be run from them. If nil, there is /tmp with 64 MiB. There is also
	// /workspace, with 64 MiB unless Tmpfs has it.
	Tmpfs map[string]int64
	// User is the number of the user that the command runs as, or two numbers, of a user
	// and a group, as in "1000:1000". If empty, a number is drawn for each pod, from
	// 1879048192 to 2147483646, and its group is the same: so no other pod of the node
	// has processes that count for PidsLimit. With UserNamespace it is 65534. Pods of one
	// node that have the same User share one count. For "0" without UserNamespace there
	// is no limit of processes but the kubelet's.
	User string
	// AddCapabilities are capabilities that the command may have, such as
	// "NET_BIND_SERVICE". One that runs as root has them. Any other gets them only from a
	// program whose file has them, and with AllowNewPrivileges. If empty, there are none.
	AddCapabilities []string
	// AllowNewPrivileges lets set-uid programs gain the rights of their owner. If false,
	// they run with the rights of the command.
	AllowNewPrivileges bool
	// UserNamespace gives the pod a user namespace of its own. A cluster or a node that
	// can't fails the start.
	UserNamespace bool
	// ExtraHosts are lines of the pod's /etc/hosts, each "name:address".
	ExtraHosts []string
	// Devices are what device plugins of the nodes offer, by name, with how many of it
	// the pod gets, such as "nvidia.com/gpu": 1.
	Devices map[string]int

	// RuntimeClass, PriorityClass and Scheduler are the names of the cluster's. If empty,
	// they are its defaults. A RuntimeClass with "gvisor" or "runsc" in its name is taken
	// for gVisor, which runs no program that can't be read: so code with the same user
	// can open the descriptors of process 1. If gVisor is the cluster's default, no
	// session starts: name it here.
	RuntimeClass, PriorityClass, Scheduler string
	// NodeSelector has the labels of the nodes that may run the pod. If empty, all may.
	NodeSelector map[string]string
	// Tolerations let the pod run on nodes with the taints that they name.
	Tolerations []Toleration
	// Owner is an object of the namespace, such as the pod that this program runs in:
	// when the object is removed, the cluster removes the pod. If nil, there is none.
	Owner *Owner
	// KeepAlive is how long the link with the pod may be silent before the session ends,
	// at either end, as [execpolicy.DockerPolicy.KeepAlive] says. Without it a node that
	// is lost shows only when a command's time is over. It is from 1 s to 24 h. If zero,
	// there is none.
	KeepAlive time.Duration
	// AllowAdmitted names fields of a pod in which the cluster may change what was asked
	// for, such as "spec.volumes", with all that is below. If empty, a pod with
	// containers, volumes, labels or anything else that was not asked for, or without
	// something that was, fails the start with an error that wraps [ErrAdmission] and
	// names the fields. A field that the cluster fills in with its default needs no
	// naming, nor does an annotation that comes after the creation: what makes the
	// network writes its own. A PID namespace that is shared is never allowed.
	AllowAdmitted []string
}

// A Toleration lets a pod run on nodes with a taint. The fields are Kubernetes's.
type Toleration struct{ Key, Operator, Value, Effect string }

// An Owner is an object whose pods the cluster removes with it. All fields are required.
type Owner struct{ APIVersion, Kind, Name, UID string }

// The defaults of a Policy, beside those of package limits.
const (
	defaultReadyTimeout       = 5 * time.Minute
	defaultTerminationTimeout = 30 * time.Second
	defaultEphemeral          = 128 << 20
	workspaceDir              = container.WorkspaceDir
	scratchDir                = container.ScratchDir
	// scratchBytes holds a copy of the shell, a command's text and its stdin.
	scratchBytes = 4<<20 + 2*execpolicy.MaxStdin
)

// limits returns the policy's, with its own default for the end.
func (p *Policy) limits() execpolicy.Limits {
	l := p.Limits
	if l.TerminationTimeout <= 0 {
		l.TerminationTimeout = defaultTerminationTimeout
	}
	return l
}

// gVisor reports whether the pod's kernel is gVisor.
func (p *Policy) gVisor() bool {
	return strings.Contains(p.RuntimeClass, "gvisor") || strings.Contains(p.RuntimeClass, "runsc")
}

func (p *Policy) readyTimeout() time.Duration { return cmp.Or(p.ReadyTimeout, defaultReadyTimeout) }

// Check returns the error with which Spawn would refuse the spec, or nil. It asks nothing
// of the cluster.
func (p Policy) Check(_ context.Context, spec execpolicy.Spec) error {
	_, err := p.draft(spec, "cofferdam-name")
	return err
}

// Manifest returns the pod that Spawn would create for spec, as indented JSON. Its name
// is a new one each time, and so is its user if the policy leaves that to the library.
// The error is that of Check.
func (p Policy) Manifest(spec execpolicy.Spec) ([]byte, error) {
	spec.Secrets = nil // Start sends them over the session's stdin
	return p.manifest(spec, container.NewName())
}
