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
// privileges, an ordinary user, and limits on memory, processors and processes. The
// comment of each field says what a value other than zero allows.
//
// Everything is checked before anything is started, and every problem is reported at
// once.
//
// Some limits have no field. A process may have 1024 files open, /dev/shm has 16 MiB, and
// there are no core dumps. ExtraRunArgs with --ulimit or --shm-size and AllowUnsafeArgs
// change that.
type DockerPolicy struct {
	Limits

	// Engine is the client to drive. If nil, it is the one that [dockercli.Find] returns,
	// which is remembered for the program's life. An error of Find, such as that of a
	// docker that is only slow, is not remembered.
	Engine *dockercli.Engine
	// Image is the image's reference. If empty, it is [DefaultImage], with podman by its
	// name in full, because podman may have no registry to look for a short one. The
	// image needs sh, mkfifo, cp, chmod, rm and dd. Its environment and its volumes are
	// used. Its user, entry point, command, health check and working directory are not.
	Image string
	// Platform is the image's, such as "linux/arm64". A platform that is not the engine's
	// own needs an emulator that the kernel knows. If empty, it is the engine's own.
	Platform string
	// Pull says when the image is pulled. If zero, it is when the engine does not have
	// it. With [dockercli.PullAlways] each Spawn asks the registry first, and fails if
	// that does not answer. Such a pull counts as one of the starts that [Start] makes at
	// a time. With [dockercli.PullNever] a missing image is an error that matches
	// [dockercli.ErrImageMissing].
	Pull dockercli.PullPolicy
	// PullTimeout is how long a pull may take. If zero, it is 5 min. It must not be
	// negative.
	PullTimeout time.Duration
	// PullProgress takes what the engine prints while it pulls. If nil, that is dropped.
	// [dockercli.PullEvents] makes a Writer that finds the layers in it. Sessions of this
	// program that need the same image wait for one pull, and only the session that began
	// it has the progress.
	PullProgress io.Writer

	// KeepContainer leaves the container in the engine when it has ended, for somebody to
	// look at and to remove. If false, it is removed.
	KeepContainer bool
	// NetworkEnabled gives the container the engine's default network. If false, it has
	// only its own loopback.
	NetworkEnabled bool
	// Egress is a way out for a container that has only its own loopback: see package
	// execpolicy/egress. Programs find it by the variables HTTPS_PROXY, HTTP_PROXY,
	// ALL_PROXY and NO_PROXY, in upper and in lower case, which a session sets unless
	// [Spec.Env] does. It is open before anything is run in the session, or the start
	// fails. It needs a session, an engine on this machine that is not rootless nor a
	// service of podman's, and that this program has the capabilities SYS_ADMIN and
	// SYS_PTRACE, as root has outside of containers. Runtime must be empty, "runc" or
	// "crun", NetworkEnabled must not be set, and ExtraRunArgs must not have --network,
	// --pid, --pod, --pod-id-file, --runtime or --userns. The container's
	// label cofferdam.egress has what may be reached. If nil, nothing can be reached.
	Egress Egress
	// WritableRootfs lets the command write to the container's root, on the engine's disk
	// and without a limit in size. If false, it can write only to the workspace, the
	// directories in Tmpfs, writable Mounts and the volumes that the image declares.
	WritableRootfs bool
	// WorkspaceReadOnly mounts Spec.Workspace read-only. If false, the command can write
	// to it.
	WorkspaceReadOnly bool
	// WorkspaceRelabel gives Spec.Workspace, and all that is in it, another SELinux
	// label, as [dockercli.Mount.Relabel] does: it is "private" or "shared". If empty,
	// nothing is changed, and where the engine enforces SELinux a command may be refused
	// the workspace. The comment of Mounts says which directories are not relabelled.
	WorkspaceRelabel string
	// MemoryBytes is how much memory the container may use, files in Tmpfs included. It
	// is at least 6 MiB, docker's own minimum. If zero, it is 512 MiB. There is never any
	// swap.
	MemoryBytes int64
	// CPUs is how many processors' time the container may use, as a decimal number from
	// "0.01" to "999999". If empty, it is "1".
	CPUs string
	// CPUShares is the container's weight against others when processors are short. It is
	// at least 2. If zero, it is the engine's default of 1024.
	CPUShares int64
	// PidsLimit is how many processes and threads the container may have at once. It is
	// at least 16. If zero, it is 256.
	PidsLimit int64
	// AllowMissingLimits lets sessions start on an engine that can't set some of the
	// limits: [dockercli.Engine.MissingLimits] names them. A rootless engine can set none
	// on cgroup v1, and on cgroup v2 only those whose controllers its user was given.
	// Then a command may take all of the host's memory or processors. The limits that are
	// missing are not asked for. If false, Spawn refuses such an engine and names them,
	// before it starts anything.
	//
	// If podman can't set PidsLimit, the kernel's limit for each user ID (RLIMIT_NPROC)
	// takes its place, but not with podman's service behind docker's client. A session
	// that runs as the default User, or as the owner of its workspace or mounts, has a
	// user namespace of its own, in which Linux 5.14 and later counts only its own
	// processes. Sessions with the same User share one count.
	AllowMissingLimits bool
	// Tmpfs maps directories in memory to their sizes in bytes, which must be positive.
	// Programs can be run from them. If nil, there is /tmp with 64 MiB. Without a
	// Spec.Workspace there is also /workspace, with 64 MiB unless Tmpfs has it.
	Tmpfs map[string]int64
	// User is the user that the command runs as: a name or a number, or two of them as in
	// "user:group". A number without a group gets the group of that number. (The engines
	// would choose the image's group, or root's.)
	//
	// If User is empty, the command runs as the owner of Spec.Workspace, so that the
	// files it makes there belong to that owner. If there is no workspace, or the
	// workspace belongs to root, it runs as 65534:65534, which owns nothing. An owner
	// whose group is 0 gets the group 65534. So nothing inside is root, or in root's
	// group, unless User says so: as "0:0", "0" or "root". Under rootless docker the user
	// of this program is root inside, and so User must be "0:0" to use that user's files.
	//
	// If that user can't read and enter the workspace, or can't write to it although
	// WorkspaceReadOnly is not set, Spawn refuses it before it starts anything, with an
	// error that wraps [ErrNoMount]. It decides by the mode of the directory. It does not
	// check with a remote engine, on systems other than Linux, for a User with a name in
	// it, or where there is an access control list.
	//
	// Docker makes only a number the owner of a tmpfs. So the first session whose User
	// has a name starts one more container of the same image, to look up the number, and
	// removes it again. The number is remembered for the program's life.
	//
	// The kernel counts inotify instances and watches, the pages of pipes, keys and the
	// processes of "ulimit -u" for each user ID, over all containers. A session that
	// takes all of them leaves nothing to others with its ID. The default ID is the same
	// for all sessions, because most images have a name for 65534: with docker another ID
	// has no name, and programs such as whoami and Python's getpass.getuser fail. Where
	// an engine is in a user namespace, a session with an ID above 65535 does not start.
	//
	// If tenants that don't trust each other share a host, give each of their sessions an
	// ID of its own here. That does not help in a user namespace: the kernel counts
	// inotify instances and watches for the namespace's owner too.
	User string
	// AddCapabilities are capabilities that the command has, such as "NET_BIND_SERVICE".
	// If empty, it has none. System calls that the filter refuses stay refused: mount,
	// for example, also needs EngineSeccomp or a SeccompProfile.
	AddCapabilities []string
	// AllowNewPrivileges lets set-uid programs gain the rights of their owner. If false,
	// they run with the rights of the command.
	AllowNewPrivileges bool
	// SeccompProfile is the seccomp filter, as the JSON text of a profile in docker's
	// format. If empty, it is [DefaultSeccompProfile]. The engine's client reads it from
	// a pipe. On Windows it is in a temporary file for as long as the client runs.
	// Podman's service can't be given a profile, so EngineSeccomp has to be set for it. A
	// runtime that handles system calls itself, such as gVisor, ignores it.
	SeccompProfile string
	// EngineSeccomp uses the engine's own seccomp filter in place of the library's. The
	// engine's allows more. With both engines any program can then leave a set-uid file
	// in a writable workspace, lower the priority of process 1, take from it the right to
	// open files, and hold the kernel's lock of a pipe that it uses. Then the container
	// may no longer end with this program, and only the guard removes it, or nothing does
	// while the lock is held. With podman a program can also make user namespaces. If its
	// user has the number 0 it can then, on a host with cgroup v1, mount the control
	// groups, freeze its own container, and perhaps raise its limits. The end of this
	// program alone does not end what is frozen: it is thawed by a removal as root, which
	// the guard of a program that is root does. Package attest names this.
	EngineSeccomp bool
	// Mounts are more directories and files of the engine's host, which is another
	// machine if the engine is remote. If empty, there are none. If the engine is on this
	// machine, the library first follows the symbolic links in a source, and mounts what
	// they lead to.
	//
	// Where the engine enforces SELinux, the library relabels its own directories. It
	// never relabels a source unless [dockercli.Mount.Relabel] asks for it, nor the
	// workspace unless WorkspaceRelabel does. It refuses to relabel, whatever
	// AllowUnsafeMounts has, what is or holds a home directory, a protected path or a
	// directory of the system such as /usr or /tmp, or is in /usr or another directory of
	// programs: the host's programs would be refused their files.
	//
	// The only volumes that can be mounted are the layers that package deps builds. Any
	// other volume may show a directory of the engine's host.
	//
	// A source that the user inside can't read, or can't write to although it is
	// Writable, is refused. The comment of User says when that is checked. If User is
	// empty, there is no workspace, and one ordinary user owns all the sources that
	// 65534:65534 can't use, the command runs as that owner. So a directory that this
	// program has made for itself can be mounted, unless the program runs as root.
	//
	// Some paths are protected, because they would give the host away: /proc, /sys, /dev,
	// /etc, /boot, the sockets and the state of engines and of system services in /run,
	// the engines' stores in /var/lib, the socket of Engine, the places for credentials
	// in a home directory, such as .ssh, and ProtectedPaths. A source, or a
	// Spec.Workspace, is refused if it is a protected path, is inside one or holds one.
	// It is also refused if it is or holds a home directory or, on this machine, the
	// directory for temporary files, and if it is a socket, a device or a link to
	// nothing. With a remote engine only the names are checked. What ExtraRunArgs mounts,
	// because AllowUnsafeArgs allows it, is not checked.
	//
	// On this machine a protected directory is recognized under any name. On Linux the
	// library reads the kernel's table of mounts, to see where a source comes from and
	// what is mounted below it. So a bind mount of a directory of /etc is refused, and so
	// is a directory that holds one, or that holds another mount of /proc. A single file
	// of root's that has a hard link is refused, because its other name may be
	// /etc/shadow.
	//
	// The library does not recognize a copy or a snapshot of a protected path, a hard
	// link inside a directory that is mounted, a hard link to a file that is not root's,
	// the layers of an overlay that a protected path shows, and a file system that was
	// first mounted elsewhere and is now seen only below a protected path. A program in
	// another mount namespace than the engine's does not see the engine's mounts. Where
	// the table is not to be had, as on macOS, only names, links and the identity of
	// files are checked.
	//
	// The library checks a source before the engine mounts it. So nobody untrusted may be
	// able to change a directory on the way to a source while sessions start. File
	// systems that are mounted below a source are mounted with it. With podman, and with
	// docker before 25, they can be written to even if the source is mounted read-only.
	Mounts []dockercli.Mount
	// ProtectedPaths are more absolute paths of the engine's host that Mounts and
	// Spec.Workspace must not be, be inside of or hold.
	ProtectedPaths []string
	// AllowUnsafeMounts are absolute paths that Mounts and Spec.Workspace may lead to
	// although they would be refused. Each allows that very file or directory, and
	// nothing inside it. A path with a symbolic link in it allows nothing, because the
	// link may later lead elsewhere. A source whose links can't be followed is never
	// allowed.
	AllowUnsafeMounts []string
	// ExtraHosts are lines of the container's /etc/hosts, each "name:address". If there
	// are any, podman also copies the lines of the host's own /etc/hosts. It does the
	// same for an --add-host that AllowUnsafeArgs allows, and only then.
	ExtraHosts []string
	// GPUs names graphics processors, such as "all". If empty, there are none.
	GPUs string
	// Devices are devices of the engine's host that the command may use, as far as their
	// own modes let its user. If empty, there are none but those of every container.
	//
	// A device that may give the host away is refused. Allowed are those that are made
	// for programs: null, zero, full, random and urandom, cameras, sound, serial lines on
	// USB, NVIDIA's processors and the render nodes of others. All others are refused,
	// such as disks, the kernel's memory and messages, terminals, input, loop devices,
	// watchdogs, vfio, and kvm, whose guests use the host's processor as no other program
	// can.
	//
	// If the engine is on this machine, the library follows the symbolic links in a path,
	// and on Linux decides by the device's number, whatever its name. Elsewhere it
	// decides by the name alone, which may be a link there.
	//
	// A Target has to be in /dev, and in no mount: elsewhere engines may leave the device
	// in a directory of the host.
	Devices []dockercli.Device
	// AllowUnsafeDevices are absolute paths of devices that Devices may have although
	// they would be refused. Each allows that very device, and no link to it.
	AllowUnsafeDevices []string
	// Runtime is the name of the engine's runtime, such as "runsc" for gVisor. If empty,
	// it is the engine's default. A runtime that the engine does not have is refused
	// before anything is started, with an error that wraps [dockercli.ErrNoRuntime] and
	// lists those that it has: see [dockercli.Engine.CheckRuntime].
	//
	// The library takes a name with "runsc" in it for gVisor. gVisor runs no program that
	// can't be read, so process 1 is readable there: code with the same user can open its
	// streams, and may keep the container from ending with this program. Then the guard
	// removes it. A seccomp filter has no effect. Streams pass through the engine's
	// client. If gVisor is the engine's default runtime, no session starts: name it here.
	Runtime string
	// Transport says what carries a session's streams. If zero, it is [TransportAuto]:
	// see [DockerPolicy.FindTransport].
	Transport Transport
	// KeepAlive is how long the link with a session's container may be silent, from 1 s
	// to 24 h; a fraction of a second is rounded up. A link over a network can break in a
	// way that neither end is told of. So the session asks for an answer each third of
	// this time. If the container has not heard the session for the whole of it, its
	// process 1 ends, and the container with it. If the session has not heard the
	// container, it ends with an error that wraps [ErrSilent], and its commands have
	// [OutcomeSessionLost].
	//
	// If zero, it is 2 minutes if the engine is Remote, and there is none elsewhere. If
	// negative, there is none anywhere: a container whose link has broken runs on until
	// something else ends it, at the latest [Sweep]. FIFOs never have one, because they
	// are this machine's.
	//
	// With a keep-alive a session also ends if this program or its machine stands still
	// for that time. The image needs bash if its sh is dash. If its sh is busybox's, an
	// operation that comes just as a child of process 1 ends can be lost. Then the
	// session ends or, if all of the operation was lost, its command runs into its
	// deadline.
	//
	// While a file or a command's stdin is copied in, a link may be silent for a second
	// more for each 64 KiB.
	KeepAlive time.Duration
	// ExtraRunArgs are more flags for the engine's run. A flag that weakens the policy,
	// or that the library does not know, is refused.
	ExtraRunArgs []string
	// AllowUnsafeArgs are the long names, without dashes, of flags that ExtraRunArgs may
	// have although they weaken the policy, such as "ipc". A report of package attest
	// names each that ExtraRunArgs has. A flag by which the library itself runs its
	// containers, such as --name, --rm, --entrypoint or --tty, is refused even so.
	AllowUnsafeArgs []string
	// CPUTimeSeconds must be zero, because engines have no such limit. "--ulimit=cpu=10"
	// in ExtraRunArgs limits each process.
	CPUTimeSeconds int

	// compat gives LangChain's argument list.
	compat bool
}

// DefaultImage is the image of a policy that names none. It is LangChain's.
const DefaultImage = "python:3.12-alpine3.19"

// The defaults of a DockerPolicy.
const (
	defaultPullTimeout = 5 * time.Minute
	// defaultKeepAlive is for an engine on another machine. Docker's engine also gives up
	// a connection over TCP after some two minutes, and sshd after two hours.
	defaultKeepAlive = 2 * time.Minute
	// workspaceDir and scratchDir are where a session's directory and its supervisor's
	// are inside.
	workspaceDir = container.WorkspaceDir
	scratchDir   = container.ScratchDir
	// scratchBytes holds a copy of the shell, a command's text and its stdin.
	scratchBytes = 4<<20 + 2*MaxStdin
)

// image returns the image for an engine.
func (p *DockerPolicy) image(e *dockercli.Engine) string {
	switch {
	case p.Image != "":
		return p.Image
	case e.Kind == dockercli.Podman && !p.compat:
		return "docker.io/library/" + DefaultImage
	}
	return DefaultImage
}

// Explain returns the command line with which Spawn would start spec's command in a
// container, as text for a shell. The seccomp filter, which the client reads from
// descriptor 3, follows as a here-document. The container's name is a new one each time.
// It is the line of a run without a session. A session's line has another command, no Env
// and, with FIFOs, --detach and a mount in place of --interactive. Explain starts
// nothing. So with docker it leaves out the IDs of a User with a name, until a session of
// this program has looked them up. It asks the engine for its MissingLimits if they are
// not known. If that does not answer, none counts as missing. An error wraps
// [ErrInvalid], or is that of [DockerPolicy.FindEngine].
func (p DockerPolicy) Explain(ctx context.Context, spec Spec) (string, error) {
	e, err := p.engine(ctx)
	if err != nil {
		return "", err
	}
	if asked, err := p.askLimits(ctx, e); err == nil {
		e = asked
	}
	spec.Secrets = nil // Start sends them over the session's stdin
	argv, err := p.argv(e, spec, container.NewName())
	if err != nil {
		return "", err
	}
	line := dockercli.Explain(p.redacted(argv, spec))
	if profile := p.seccompProfile(e); profile != "" {
		line += clientfile.HereDocument(profile)
	}
	return line, nil
}

// argv is a pure function of the policy, the engine's kind and version, the spec and the
// name, but for where links lead, for the owners and modes of what is mounted, and for
// the numbers of a user that were looked up.
func (p *DockerPolicy) argv(e *dockercli.Engine, spec Spec, name string) ([]string, error) {
	return p.argvBy(e, spec, name, p.fifos(e, spec, name))
}

// argvBy is argv for streams that pass through FIFOs in that directory or, if it is
// empty, through the client.
func (p *DockerPolicy) argvBy(e *dockercli.Engine, spec Spec, name, fifos string) ([]string, error) {
	if p.compat {
		return p.compatArgv(e, spec, name)
	}
	o, found := p.runOptions(e, spec, name, fifos)
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

// UnsafeArgs returns the flags of ExtraRunArgs that only AllowUnsafeArgs allows, for that
// kind of engine. Each flag is there once, by its long name and without its value, with
// what is wrong with it.
func (p DockerPolicy) UnsafeArgs(kind dockercli.Kind) []string {
	return runargs.Unsafe(kind, p.ExtraRunArgs)
}
