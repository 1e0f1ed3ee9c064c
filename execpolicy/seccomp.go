package execpolicy

import (
	_ "embed"
	"strings"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/runargs"
)

// The numbers in it are those of every processor that docker's own profile knows, but for
// mips, where opening with O_CREAT has another one.
//
//go:embed seccomp.json
var defaultSeccomp string

// DefaultSeccompProfile returns the seccomp filter that a [DockerPolicy] uses by default,
// in docker's format. It is the same for docker and podman. It allows what docker's own
// filter allows to a container without capabilities, except for:
//
//   - Calls that change priorities: setpriority, those that set a scheduler, and
//     ioprio_set. Otherwise any program could hold up the container's process 1, which
//     has the same user.
//   - Calls that make a file set-uid, so that no program leaves one in a mounted
//     workspace: chmod and its variants, open, creat and mknod, with that bit in the
//     mode. Set-gid is allowed, because directories use it.
//   - Changes of another process's resource limits. Any program could otherwise take from
//     process 1 the right to open a file. Reading them is allowed. A process that changes
//     its own by its number, and not by setrlimit or as process 0, is refused too.
//   - splice and sendfile. Either can hold the kernel's lock of a pipe for as long as it
//     likes, and the container's process 1 would wait for it.
//   - io_uring, access to the memory of other processes (process_vm_readv and
//     process_vm_writev), file handles, and sockets of the families AF_ALG and AF_VSOCK.
//   - Programs for another architecture than the machine's own, such as 32-bit programs
//     on a 64-bit machine. They are killed.
//
// It does not depend on capabilities: if a [DockerPolicy] has AddCapabilities, the calls
// that docker's filter would then allow, such as mount, stay refused.
//
// It also refuses some calls that hardly any program needs, such as modify_ldt,
// fanotify_mark, memfd_secret, openat2 and vmsplice. A call that it does not know, or
// that programs are known to go on without, fails as if the kernel did not have it, or
// could not do it with that file. Any other refused call fails with "Operation not
// permitted".
func DefaultSeccompProfile() string { return defaultSeccomp }

const seccompOption = runargs.SeccompOption

// seccompProfile returns the filter that the client has to be given, or nothing if the
// container gets the engine's own, or one that ExtraRunArgs name.
func (p *DockerPolicy) seccompProfile(e *dockercli.Engine) string {
	switch {
	case p.compat || p.EngineSeccomp || runargs.HasSeccomp(e.Kind, p.ExtraRunArgs):
		return ""
	case p.SeccompProfile != "":
		return p.SeccompProfile
	}
	return defaultSeccomp
}

// checkSeccomp reports what is wrong with the fields for the filter, and an engine to
// which a filter can't be given.
func (p *DockerPolicy) checkSeccomp(e *dockercli.Engine) problems.List {
	var found problems.List
	if p.SeccompProfile != "" {
		if p.EngineSeccomp {
			found.Add("SeccompProfile and EngineSeccomp are both set; there is one filter")
		}
		if runargs.HasSeccomp(e.Kind, p.ExtraRunArgs) {
			found.Add("SeccompProfile and a --security-opt=seccomp of ExtraRunArgs are both set; there is one filter")
		}
		// Engines take an object without these for the wish to have no filter. The rest
		// of its syntax is the engine's to judge.
		text := strings.TrimSpace(p.SeccompProfile)
		if !strings.HasPrefix(text, "{") || !strings.HasSuffix(text, "}") || !strings.Contains(text, `"defaultAction"`) {
			found.Add(`SeccompProfile has to be a JSON object with "defaultAction", in docker's format`)
		}
	}
	if p.seccompProfile(e) != "" && (e.PodmanService || e.Kind == dockercli.Podman && e.Remote) {
		found.Add("a filter of system calls can't be given to podman's service, which looks for it among its own files; " +
			"set EngineSeccomp to do with podman's own, which lets programs make user namespaces and lower the priority of any process")
	}
	return found
}
