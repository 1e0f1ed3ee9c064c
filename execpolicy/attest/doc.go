// Package attest shows which protections of a container are in force.
//
// What a policy asks for is not always what a container has: engines drop limits that
// they can't set, with a warning at most, and an extra flag can switch a protection off.
// [Start] opens a session, looks before any other command has run in it, and returns it
// only if everything that is required is in force. [Check] looks at a session that is
// open already. Both return a [Report], a table that can be kept as JSON.
//
//	s, report, err := attest.Start(ctx, execpolicy.DockerPolicy{}, execpolicy.Spec{}, attest.Options{})
//	if errors.Is(err, attest.ErrNotInForce) {
//		log.Print(report.Missing, err)
//	}
//
// # The evidence
//
// The package looks at each protection from both sides.
//
// From inside, it runs a script over the session's own pipes, mostly with builtins of the
// shell. The script reads the capabilities, no_new_privs, the seccomp mode, the user, the
// mounts and their flags, what can be written to, the network's links and routes, the
// limits of the cgroup, v1 or v2, the processes, the devices, what is hidden in /proc,
// and whether process 1 can be opened. If the shell is bash, or the image has Python, it
// also tries to send a datagram to 192.0.2.1, an address that is reserved for
// documentation.
//
// The script tries the seccomp filter with the programs that the image has: chmod makes a
// file of its own set-uid, unshare makes a user namespace, renice or nice lowers a
// priority, and Python sets up io_uring. The library's own filter refuses all of these
// calls: if one is allowed, that filter is not in force. For the engine's filter, or a
// caller's, the report only says what it allows.
//
// From outside, the package asks the engine, by inspect, what it says it has applied.
// Docker returns the text of the filter, which is compared with what was sent. Podman
// returns only the path from which its client has read it.
//
// A protection is in force if it is seen from inside and the engine does not say
// otherwise. A protection that can't be seen from inside is unknown. That is not enough
// where it is required.
//
// # Pods
//
// The view of a pod from outside is what the API server has admitted: what the node is
// told to do, and not what it has done. The table calls that column ADMITTED. A pod
// always has network interfaces and routes. So it counts as having no network if no
// NetworkPolicy that selects it allows anything, and if none of the addresses that answer
// in every cluster answers inside. The limit of processes is that of the user. A pod's
// directories in memory have no options, so nosuid and nodev are not asked for.
//
// A report of a pod also has [PodProtections]. [NothingInjected] can't be seen from
// inside, and is [Admitted] at best. No pod has [NoContainerLog] or [NoTerminationLog],
// so no policy asks for them: a node keeps what the container prints until the pod is
// deleted, and /dev/termination-log is a file of the node's disk that counts for no
// limit.
//
// A cluster does not tell which security module a node uses, nor the version of what
// makes the containers there, such as runc. The versions of kubelets, runtimes and
// kernels are those of all nodes, or "unknown" if these can't be listed, as few users
// may. Then nothing is told of their weaknesses either.
//
// # Flags that weaken a policy
//
// A flag that only AllowUnsafeArgs allows is a weakness. The report names it, without its
// value, in the row "no unsafe arguments", which is then not in force, because not every
// effect of a flag can be seen. So [Start] fails unless [Options] requires the other
// protections by name. A harmless flag, such as --hostname, is not named.
//
// Some effects of such flags are also seen, in that row or in another: core dumps, a
// memory limit that kills nothing, the host's users, a switched off AppArmor or SELinux,
// root's group, IPC that other containers may join, another seccomp filter. The flags are
// those of the policy that [Check] is given. A cgroup namespace shared with the host is
// the engines' own choice on cgroup v1, and is a weakness there only if it was asked for.
//
// What is asked for follows from the policy's fields. So a protection that an extra
// argument weakens is missing, and so are the parts of the zero policy that
// [execpolicy.Compat] does without. The report also names paths of the host that nobody
// asked for, even those that the engine or the image brings: an image's volumes, the
// /run/secrets of some hosts, the libraries of a GPU.
//
// # What it does not show
//
// The view from inside is what the image's shell says, from the kernel's files. An image
// whose shell lies can fake all of it, and so can whatever ran in the session before a
// [Check]. [Start] looks while nothing but the image's shell has run. The view from
// outside is the engine's word. A container whose image nobody trusts can only be
// attested from its host, which this package does not do. Nothing here looks for bugs in
// the kernel.
//
// gVisor does not make process 1 unreadable, does not keep it from being stopped, shows
// no limits, and ignores a seccomp filter. It shows devices and mounts of its own kernel,
// which the report names. So the lifeline, the limits and a filter that is not the
// engine's are not seen to be in force there. To use gVisor, name in [Options] what is
// required.
//
// The package was tried with cgroup v1 only.
//
// # Security modules
//
// Where the host uses AppArmor or SELinux, engines confine containers by it. The report's
// [Confinement] has the profile or the label of process 1, from inside and by the
// engine's word. If process 1 is not confined, the report names that as a weakness. No
// policy asks for confinement, so no session fails without it.
//
// # Weak engines
//
// A report names published container escapes that the versions of the engine's parts
// have: see [Weaknesses]. Distributions fix them without a new version number, so these
// are warnings unless [Options.RefuseWeakEngine] is set.
package attest
