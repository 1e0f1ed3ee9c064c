package execpolicy

import (
	"context"
	"io"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/clientfile"
	"github.com/seed-64a260eb/cofferdam/internal/container"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/runargs"
)

// A DockerPolicy spawns commands in containers of docker or podman. The zero DockerPolicy
// is the hardened one: no network, a read-only root, no capabilities, no way to new
// privileges, an ordinary user, and limits on memory, processors and processes. Every
// field that weakens it is named for what it allows.
//
// Everything is checked before anything is started, and every problem is reported at
// once.
type DockerPolicy struct {
	Limits

	// Engine is the client to drive. If nil, it is what [dockercli.Find] finds first,
	// which is remembered for the program's life. Docker that is only slow is an error
	// there, and is looked for anew the next time.
	Engine *dockercli.Engine
	// Image is the image's reference. If empty, [DefaultImage]. It needs sh, mkfifo, cp,
	// chmod, rm and dd. It is pulled if the engine does not have it. Of its settings the
	// environment counts, and the volumes. Its user, entry point, command, health check
	// and working directory do not.
	Image string
	// PullTimeout is how long a pull may take. If zero, 5 min; if negative, the image is
	// never pulled.
	PullTimeout time.Duration
	// PullProgress takes what the engine says while it pulls. If nil, nobody does.
	PullProgress io.Writer

	// KeepContainer leaves the container, which has ended, for somebody to look at and to
	// remove. If false, it is removed.
	KeepContainer bool
	// NetworkEnabled gives the container the engine's default network. If false, it has
	// none but its own loopback.
	NetworkEnabled bool
	// WritableRootfs lets the command change the container's own files, on the engine's
	// disk and without a limit in size. If false, only the workspace, the directories in
	// Tmpfs, writable Mounts and the volumes that the image declares can be written to.
	WritableRootfs bool
	// WorkspaceReadOnly mounts Spec.Workspace read-only.
	WorkspaceReadOnly bool
	// MemoryBytes is how much memory the container may use, files in Tmpfs included.
	// There is never any swap. If zero, 512 MiB.
	MemoryBytes int64
	// CPUs is how many processors' time the container may use, a decimal number such as
	// "0.25". If empty, "1".
	CPUs string
	// CPUShares is the container's weight against others when processors are short, from
	// 2. If zero, the engine's default of 1024.
	CPUShares int64
	// PidsLimit is how many processes and threads the container may have at once, at
	// least 16. If zero, 256.
	PidsLimit int64
	// Tmpfs maps directories in memory to their sizes in bytes; programs can be run from
	// them. If nil, /tmp with 64 MiB. An ephemeral session's workspace, /workspace, has
	// 64 MiB unless it stands here.
	Tmpfs map[string]int64
	// User is a name or a number, or two of them as in "user:group". A number without a
	// group has the group of that number, where the engines would take the image's or
	// root's.
	//
	// If User is empty, the command runs as the owner of Spec.Workspace, so that what it
	// makes there belongs to whom it should. It runs as 65534:65534, which owns nothing,
	// if there is no workspace or if the workspace belongs to root. An owner whose group
	// is 0 gets the group 65534. So nothing inside is root, or in root's group, unless
	// User says so: as "0:0", "0" or "root". An engine of docker's without root's rights
	// has the user of this program as its root, and so needs "0:0" for the files of that
	// user.
	//
	// A workspace which that user can't read and enter, or can't write to unless
	// WorkspaceReadOnly is set, is refused before anything is started, with an error that
	// wraps [ErrNoMount]. What counts is the mode. It is not looked at on another
	// machine, on systems other than Linux, for a User with a name in it, nor where there
	// is an access control list.
	//
	// Docker gives a tmpfs only to a user with a number. So the first session with a name
	// starts one more container of the same image, which tells the number and is removed
	// again. The number is remembered for the program's life.
	//
	// The kernel counts inotify instances and watches, the pages of pipes, keys and the
	// processes of "ulimit -u" for each user number, over all containers. A session that
	// takes all of them leaves nothing to others with its number. The default number is
	// the same for all sessions, because most images name 65534: with docker another
	// number has no name, and programs such as whoami and Python's getpass.getuser fail.
	// Where an engine is in a user namespace, a number above 65535 does not even start.
	//
	// If tenants that don't trust each other share a host, give each of their sessions a
	// number of its own here. That does not help in a user namespace, where the kernel
	// counts inotify instances and watches for its owner too.
	User string
	// AddCapabilities are capabilities that the command keeps, such as
	// "NET_BIND_SERVICE". If empty, it has none. System calls that the filter refuses
	// stay refused: for mount it also takes EngineSeccomp, or a SeccompProfile.
	AddCapabilities []string
	// AllowNewPrivileges lets set-uid programs have their way.
	AllowNewPrivileges bool
	// SeccompProfile is the filter of system calls, the JSON text of a profile in
	// docker's format. If empty, [DefaultSeccompProfile]. The engine's client reads it
	// from a pipe; on Windows it is in a temporary file for as long as the client runs.
	// Podman's service can be given none, so it takes EngineSeccomp. A runtime that
	// answers system calls itself, such as gVisor, ignores it.
	SeccompProfile string
	// EngineSeccomp takes the engine's own filter of system calls in place of the
	// library's. It lets more through. With docker and podman any program can leave a
	// set-uid file in a writable workspace, and can lower the priority of process 1, which
	// then no longer ends with this program: its guard alone removes the container. With
	// podman a program can make user namespaces.
	EngineSeccomp bool
	// Mounts are more directories and files of the engine's host, which is another
	// machine if the engine is remote. If empty, there are none. If the engine is on this
	// machine, symbolic links in a source are followed first, and what they lead to is
	// mounted.
	//
	// A source that the user inside can't read, or can't write to although it is
	// Writable, is refused; User says when that is known. With an empty User, no
	// workspace, and one ordinary user who owns all the sources that 65534:65534 can't
	// use, the command runs as that owner: so a directory that this program has made for
	// itself can be mounted, unless the program is root's.
	//
	// A source, or a Spec.Workspace, is refused if it is, is inside or holds what would
	// give the host away: /proc, /sys, /dev, /etc, /boot, the sockets and the state of
	// engines and of system services in /run, the engines' stores in /var/lib, the socket
	// of Engine, and ProtectedPaths. So is one that is or holds a home directory, or that
	// is, is inside or holds a place for credentials in one, such as .ssh, and so is any
	// socket or device, and a link to nothing. On another machine there are only the
	// names. What ExtraRunArgs mounts by leave of AllowUnsafeArgs is not looked at.
	//
	// On this machine a directory is known under whatever name. On Linux the kernel's
	// table of mounts tells where a source comes from, and what is mounted below it: a
	// bind mount of a directory of /etc is refused, and so are what holds one and another
	// mount of /proc. A single file of root's that has a hard link is refused, because
	// its other name may be /etc/shadow.
	//
	// What is not found: a copy or a snapshot of something guarded, a hard link inside a
	// directory that is mounted, a hard link to a file that is not root's, the layers of
	// an overlay that a guarded path shows, and a file system that was first mounted
	// elsewhere and is seen only below a guarded path. In another mount namespace than
	// the engine's, its mounts are not seen. If the table can't be read, names, links and
	// the identity of files are all that counts.
	//
	// All this is looked at before the engine mounts it, so nobody who is not trusted may
	// be able to change a directory on the way to a source while sessions start. File
	// systems that are mounted below a source come along; with podman, and with docker
	// before 25, they can be written to also where the source is mounted read-only.
	Mounts []dockercli.Mount
	// ProtectedPaths are more absolute paths of the engine's host that are refused, with
	// what is inside and what holds them.
	ProtectedPaths []string
	// AllowUnsafeMounts names, as absolute paths, what Mounts and Spec.Workspace may lead
	// to although it would be refused. Each allows that very file or directory, and
	// nothing inside; one with a symbolic link in it allows nothing, for a link may come
	// to lead elsewhere. What can't be followed, such as a link to nothing, is never
	// allowed. One that no mount needs does no harm.
	AllowUnsafeMounts []string
	// ExtraHosts are lines of the container's /etc/hosts, each "name:address". Podman
	// adds them, and those of an --add-host that AllowUnsafeArgs allows, to the lines of
	// the host's file, which a container without extra hosts does not see.
	ExtraHosts []string
	// GPUs names graphics processors, such as "all". If empty, there are none.
	GPUs string
	// Runtime is the name of the engine's runtime, such as "runsc". If empty, the
	// engine's default.
	Runtime string
	// ExtraRunArgs are more flags of the engine's run. One that weakens the policy is
	// refused, and so is one that is not known.
	ExtraRunArgs []string
	// AllowUnsafeArgs names the flags, without dashes, that ExtraRunArgs may have
	// although they weaken the policy. Each that ExtraRunArgs has is a weakness in a
	// report of package attest.
	AllowUnsafeArgs []string
	// CPUTimeSeconds must be zero: an engine has no such limit.
	CPUTimeSeconds int

	// compat gives LangChain's argument list.
	compat bool
}

// DefaultImage is the image of a policy that names none: LangChain's.
const DefaultImage = "python:3.12-alpine3.19"

// The defaults of a DockerPolicy.
const (
	defaultPullTimeout = 5 * time.Minute
	defaultMemory      = 512 << 20
	defaultCPUs        = "1"
	// defaultPids lets a build run in parallel, and a walk over that many processes take
	// 60 ms.
	defaultPids = 256
	minPids     = 16
	// minMemory is docker's.
	minMemory    = 6 << 20
	defaultTmpfs = 64 << 20
	// workspaceDir and scratchDir are where a session's directory and its supervisor's
	// are inside.
	workspaceDir = "/workspace"
	scratchDir   = container.ScratchDir
	// scratchBytes holds a copy of the shell, a command's text and its stdin.
	scratchBytes = 4<<20 + 2*MaxStdin
	shmBytes     = "16m"
)

func (p *DockerPolicy) image() string {
	if p.Image == "" {
		return DefaultImage
	}
	return p.Image
}

// Explain returns the command line by which Spawn would start spec's command in a
// container, as a shell runs it. The filter of system calls, which the client reads from
// descriptor 3, follows as a here-document. The container's name is drawn anew each time.
// Explain starts nothing. So, with docker, it leaves out the numbers of a User with a
// name until a session of this program has looked them up.
func (p DockerPolicy) Explain(ctx context.Context, spec Spec) (string, error) {
	e, err := p.engine(ctx)
	if err != nil {
		return "", err
	}
	spec.Secrets = nil // Start sends them over the session's stdin
	argv, err := p.argv(e, spec, newName())
	if err != nil {
		return "", err
	}
	line := dockercli.Explain(dockercli.Redact(argv))
	if profile := p.seccompProfile(e); profile != "" {
		line += clientfile.HereDocument(profile)
	}
	return line, nil
}

// argv is a pure function of the policy, the engine's kind and version, the spec and the
// name, but for where links lead, for the owners and modes of what is mounted, and for
// the numbers of a user that were looked up.
func (p *DockerPolicy) argv(e *dockercli.Engine, spec Spec, name string) ([]string, error) {
	if p.compat {
		return p.compatArgv(e, spec, name)
	}
	o, found := p.runOptions(e, spec, name)
	argv, err := e.RunArgs(o)
	if err := problems.Join(append(found, err)...); err != nil {
		return nil, err
	}
	return argv, nil
}

// extra reports whether the extra flags have one of that name.
func (p *DockerPolicy) extra(e *dockercli.Engine, name string) bool {
	return runargs.Has(e.Kind, p.ExtraRunArgs, name)
}

// UnsafeArgs returns what ExtraRunArgs has only because AllowUnsafeArgs lets it in, for
// that kind of engine: each flag once, by its long name, with what is wrong with it, and
// without its value.
func (p DockerPolicy) UnsafeArgs(kind dockercli.Kind) []string {
	return runargs.Unsafe(kind, p.ExtraRunArgs)
}
