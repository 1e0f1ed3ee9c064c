// Package kube runs sessions in the pods of a Kubernetes cluster, through the kubectl
// program alone: nothing is installed in the cluster, and placement, queues, quotas and
// lost nodes stay the cluster's business. A [Policy] is used as an
// [execpolicy.DockerPolicy] is:
//
//	p := kube.Policy{
//		Cluster:       kube.Cluster{Context: "lab", Namespace: "sandboxes"},
//		Image:         "registry.example/python:3.12",
//		NetworkPolicy: "deny-all",
//	}
//	s, err := execpolicy.Start(ctx, p, execpolicy.Spec{})
//
// # What it needs
//
// It needs kubectl 1.25 or later, configured for the cluster, and a namespace. To keep
// the network away, the namespace needs a NetworkPolicy, and the cluster something that
// enforces it:
//
//	apiVersion: networking.k8s.io/v1
//	kind: NetworkPolicy
//	metadata: {name: deny-all}
//	spec:
//	  podSelector: {matchLabels: {cofferdam.network: none}}
//	  policyTypes: [Ingress, Egress]
//
// The user needs this Role in the namespace:
//
//	rules:
//	- apiGroups: [""]
//	  resources: [pods]
//	  verbs: [create, get, list, watch, delete]
//	- apiGroups: [""]
//	  resources: [pods/attach, pods/exec] # pods/exec only for jobs
//	  verbs: [get, create]
//	- apiGroups: [networking.k8s.io]
//	  resources: [networkpolicies]
//	  verbs: [list]
//
// A report of package attest has the versions of the nodes too, if the user may list the
// cluster's nodes.
//
// The namespace may enforce the Pod Security Standard "restricted": the zero Policy's
// pods are within it.
//
// # How it works
//
// Spawn creates the pod and returns. Process.Ready, for which [execpolicy.Start] waits
// while others start, follows the pod until it runs, and attaches to it. A state that
// does not pass by itself fails the start at once. The error has the cluster's own words
// and wraps one of this package's.
//
// The cluster may change a pod that it admits, or drop fields that it does not know. So
// the pod that came back is compared with what was sent, when it was created and again
// when it runs: see [Policy.AllowAdmitted].
//
// A session ends when the stdin of its process 1 ends. The library then asks the cluster
// to delete the pod, and never deletes it by force. It says that the pod is gone only
// when the kubelet of its node has said so. If the node does not answer, Close returns an
// error that wraps [execpolicy.ErrStillThere] and says whether the cluster considers the
// node lost. When the node is back, the cluster deletes the pod. If somebody else deletes
// a pod by force, as the cluster does with those of a node that was taken out of it,
// nobody knows whether it still runs.
//
// The kubelet ends a session's pod some time after the policy's Lifetime, unless that is
// negative, even if this program and the API are gone. When this program ends, a guard
// process deletes the pods that it leaves, and [Sweep] deletes the rest.
//
// A pod may come into being after the answer to its creation was lost. Kill looks for it
// for three seconds, and the guard for about eight. If it is a session's and comes
// later, it runs nothing but a shell that waits, until its time is over, or until
// [Sweep].
//
// # What is different from docker
//
//   - The node writes all that the command prints into a log, up to a limit of the
//     kubelet's, until the pod is deleted. Whoever may read the logs of pods can read it,
//     with secrets as they were printed, before [execpolicy.Spec.Filter].
//   - Whoever may get pods sees the pod's object, but not what a session runs: its
//     environment, secrets and scripts are sent over stdin. Whoever may exec or attach in
//     the namespace can do in the pod what the command can.
//   - With cgroup v2, kubelets kill all of a container if it is short of memory, unless
//     they are told otherwise (singleProcessOOMKill). One such kill then ends the
//     session. With docker it ends the command alone.
//   - The limit of processes is RLIMIT_NPROC of the pod's own user, which does not bind
//     root: see [Policy.User].
//   - The image's own shell and programs set the limit of processes and try the network.
//     So the trial tells whether the cluster does what the NetworkPolicy says, if the
//     image is honest. An image that is hostile can skip both: then only the cluster
//     keeps the network away, and only the kubelet's podPidsLimit bounds the processes.
//   - The command can write to the volumes that the image declares. Where containerd runs
//     the pod they are directories on the node's disk that no limit counts.
//   - The command can write to /dev/termination-log, a file on the node's disk that no
//     limit counts.
//   - A NetworkPolicy may let a pod reach the node that it runs on: the standard allows
//     that. Then no session starts, because the node was reached. Policies of the whole
//     cluster, such as AdminNetworkPolicy, are not read: the pod's own trial is all that
//     is known of them. Nobody looks again when a policy changes later.
//   - The seccomp filter is the node's RuntimeDefault, and not the library's own.
//   - A workspace is never mounted. Package execpolicy/workspace copies it.
//   - A start takes one to three seconds, and a close about one, by the kubelet's pace. A
//     kubectl takes about 50 MB of memory and a tenth of a second of a processor. One
//     runs for as long as the session. A start runs four more, one after the other, and a
//     close two.
//   - The command of a Spawn without a session has to read from its stdin before it
//     prints or ends: see [Policy.Spawn].
//   - The link with a session is the cluster's network: see [Policy.KeepAlive].
//   - The node logs each line by itself, which makes short ones slow: on a machine with
//     two processors, lines of one byte came at 0.7 MB a second, and lines of 1000 bytes
//     at 13. What a background job prints stands before the answers. So to end a command
//     beside a job that floods may cost the shell, and the result then says StateLost.
//   - Megabytes may be on their way to the pod. A long script that was sent can't be
//     taken back, and the request to end its command arrives after it. So to end such a
//     command may cost the session. With docker the command would not run at all.
//
// The names of the library's labels begin with "cofferdam.". [execpolicy.Spec.Labels]
// become labels of the pod too, so a cluster has to accept them. Services and others
// select pods by labels: choose keys that nothing in the namespace selects.
package kube
