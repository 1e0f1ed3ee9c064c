package dockercli

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-64a260eb/cofferdam/internal/clierr"
)

// maxStderr is how much of a client's stderr an Error keeps: half from its beginning,
// half from its end.
const maxStderr = 4 << 10

// These errors say what an engine's failure means, as far as its message tells. An
// [*Error] matches at most one of them.
var (
	// ErrNoEngine means that no usable engine was found, or that its client program is
	// not there.
	ErrNoEngine = errors.New("no container engine found")
	// ErrEngineDown means that the engine does not answer.
	ErrEngineDown = errors.New("the container engine does not answer")
	// ErrPermission means that this user may not talk to the engine.
	ErrPermission = errors.New("no permission to use the container engine")
	// ErrUserRange means that a rootless engine has no user ID for the container's user:
	// its owner has no range of subordinate IDs, may not use it, or the ID is not in it.
	ErrUserRange = errors.New("the engine lacks user numbers for its containers")
	// ErrImageMissing means that the engine has no such image.
	ErrImageMissing = errors.New("the image is missing")
	// ErrPull means that an image could not be pulled.
	ErrPull = errors.New("the image could not be pulled")
	// ErrNoCommand means that the image has no such command, or can't execute it.
	ErrNoCommand = errors.New("the command can't be executed in the image")
	// ErrArgument means that an argument was refused, by this package or by the engine.
	ErrArgument = errors.New("an argument was refused")
	// ErrNoContainer means that there is no such container.
	ErrNoContainer = errors.New("no such container")
	// ErrNotRunning means that the container exists and does not run.
	ErrNotRunning = errors.New("the container does not run")
	// ErrNameInUse means that another container has the name.
	ErrNameInUse = errors.New("the container's name is in use")
	// ErrNoVolume means that there is no such volume.
	ErrNoVolume = errors.New("no such volume")
	// ErrVolumeInUse means that a container has the volume.
	ErrVolumeInUse = errors.New("the volume is in use")
	// ErrNoRuntime means that the engine has no such runtime.
	ErrNoRuntime = errors.New("the engine has no such runtime")
	// ErrRuntime means that the engine's runtime could not start the container.
	ErrRuntime = errors.New("the container could not be started")
)

// errRemoving means that the container is being removed by somebody else, most often by
// its own --rm.
var errRemoving = errors.New("the container is being removed")

// errVolumeExists means that a volume was not made, because there is one of that name.
// Docker does not call that an error.
var errVolumeExists = errors.New("the volume exists")

// advice says what the user can do about an error of a class.
var advice = []struct {
	class error
	words string
}{
	{ErrNoEngine, "install docker or podman, or name its program"},
	{ErrEngineDown, "start the engine, or check DOCKER_HOST, CONTAINER_HOST and the context"},
	{ErrPermission, "run as a user who may open the engine's socket, or use a rootless engine"},
	{ErrUserRange, "choose a user within the engine's range, or install newuidmap and newgidmap, which have to be set-uid, and give the user a range in /etc/subuid and /etc/subgid that nobody else has, " +
		"as with usermod --add-subuids FIRST-LAST --add-subgids FIRST-LAST NAME; then run podman system migrate"},
	{ErrImageMissing, "pull or import the image, and check its name"},
	{ErrPull, "check the image's name, which podman may need in full, as in docker.io/library/alpine:3, the network, and that you are logged in to the registry"},
	{ErrNoCommand, "use an image that has the command, or name its path inside the image"},
	{ErrArgument, "correct the argument that the message names"},
	{ErrNoContainer, "the container has ended, or was never created"},
	{ErrNotRunning, "the container has ended, or was not started yet"},
	{ErrNameInUse, "choose another name, or remove the container that has it"},
	{ErrNoVolume, "the volume was removed, or was never created"},
	{ErrVolumeInUse, "remove the containers that have it first"},
	{ErrNoRuntime, "install the runtime and name it in the engine's configuration, or name one that the engine has"},
	{ErrRuntime, "check the engine's runtime and the limits it can set"},
}

// advise returns the advice for a class, if there is any.
func advise(class error) string {
	for _, row := range advice {
		if row.class == class {
			return row.words
		}
	}
	return ""
}

// An Error is a failed run of the client.
type Error struct {
	// Verb is what was asked for, such as "pull".
	Verb string
	// Command is the command line, with the values of environment variables and the
	// passwords in URLs hidden.
	Command string
	// ExitCode is the client's. It is -1 if the client was ended by a signal, or its end
	// was not seen.
	ExitCode int
	// Stderr is what the client said, shortened to 4 KiB, with the passwords in URLs
	// hidden.
	Stderr string
	// Class is the sentinel that says what the failure means. If nil, the meaning is not
	// known.
	Class error
	// Cause is why the client was ended or not waited for, such as a context's cause. If
	// nil, the client ended by itself.
	Cause error
}

func newError(verb string, argv []string, exit int, stderr []byte, cause error) *Error {
	e := &Error{
		Verb: verb, Command: hidePasswords(Explain(Redact(argv))), ExitCode: exit, Stderr: hidePasswords(string(stderr)), Cause: cause,
	}
	if cause == nil {
		e.Class = Classify(stderr)
	} else if errors.Is(cause, context.DeadlineExceeded) {
		e.Class = ErrEngineDown
	}
	return e
}

// Error says what failed, quotes the engine, and says what can be done about it.
func (e *Error) Error() string { return e.failure().Error() }

// Unwrap returns the class and the cause, as far as they are known.
func (e *Error) Unwrap() []error { return e.failure().Unwrap() }

func (e *Error) failure() *clierr.Failure {
	return &clierr.Failure{
		Verb: e.Verb, Client: "the client", ExitCode: e.ExitCode, Words: message(e.Stderr), Advice: advise(e.Class),
		Class: e.Class, Cause: e.Cause,
	}
}

// noise begins the lines that say nothing of what went wrong.
var noise = []string{"Usage:", "Run 'docker ", "See 'podman ", "Trying to pull ", "WARNING: "}

// message returns an engine's words as one line, without what every message of its
// carries.
func message(stderr string) string {
	var kept []string
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		if line == "" || slices.ContainsFunc(noise, func(prefix string) bool { return strings.HasPrefix(line, prefix) }) {
			continue
		}
		for _, prefix := range []string{"docker: ", "Error: ", "Error response from daemon: "} {
			line = strings.TrimPrefix(line, prefix)
		}
		kept = append(kept, logged(line))
	}
	return strings.Join(kept, "; ")
}

// logged returns the words of a client that logs its errors, as nerdctl does:
// time="…" level=fatal msg="…".
func logged(line string) string {
	_, quoted, ok := strings.Cut(line, " level=fatal msg=")
	if !ok || !strings.HasPrefix(line, "time=") {
		return line
	}
	words, err := strconv.Unquote(quoted)
	if err != nil {
		return line
	}
	return strings.Join(strings.Fields(words), " ")
}

// classes says what the engines' messages mean. The first row all of whose words occur
// counts, so what is definite stands before what can also be a part of another message.
// Words are in lower case. The rows are checked against messages recorded from real
// engines, and those of Docker Desktop against its documentation.
var classes = clierr.Table{
	// The client can't reach its engine.
	{ErrPermission, []string{"permission denied while trying to connect"}},
	{ErrPermission, []string{"unable to connect to podman socket", "permission denied"}},
	{ErrPermission, []string{"/pipe/", "access is denied"}},
	{ErrEngineDown, []string{"cannot connect to the docker daemon"}},
	{ErrEngineDown, []string{"failed to connect to the docker api"}},
	{ErrEngineDown, []string{"error during connect"}},
	{ErrEngineDown, []string{"unable to resolve docker endpoint"}},
	{ErrEngineDown, []string{"unable to connect to podman socket"}},
	{ErrEngineDown, []string{"failed to resolve active destination"}},
	{ErrEngineDown, []string{"error waiting for container: unexpected eof"}},
	{ErrEngineDown, []string{"cannot access containerd socket"}},
	{ErrEngineDown, []string{"rootless containerd not running"}},

	// The client can't become the users of its containers.
	{ErrUserRange, []string{"command required for rootless mode with multiple ids"}},
	{ErrUserRange, []string{"cannot set up namespace using", "newuidmap"}},
	{ErrUserRange, []string{"keep-id requires additional uids or gids"}},
	{ErrUserRange, []string{"unable to setup user: invalid argument"}},

	// Containers.
	{errRemoving, []string{"removal of container", "is already in progress"}},
	{ErrNoContainer, []string{"no such container"}},
	{ErrNameInUse, []string{"the container name", "is already in use by"}},
	{ErrNotRunning, []string{"container", "is not running"}},
	{ErrNotRunning, []string{"container state improper"}},
	{ErrNotRunning, []string{"no running task found"}},
	{ErrNotRunning, []string{"cannot exec in a stopped state"}},
	{ErrNotRunning, []string{"cannot exec in a deleted state"}},
	{ErrNameInUse, []string{"name ", "is already used by id"}},

	// Volumes. One that is mounted must exist.
	{ErrNoVolume, []string{mustExist}},
	{ErrNoVolume, []string{"no such volume"}},
	{ErrVolumeInUse, []string{"volume is in use"}},
	{ErrVolumeInUse, []string{"volume is being used"}},
	{errVolumeExists, []string{"volume already exists"}},

	// Images. Only a client that pulls looks for a registry.
	{ErrImageMissing, []string{"no such image"}},
	{ErrImageMissing, []string{"image not known"}},
	{ErrImageMissing, []string{"does not match the specified platform"}},
	{ErrImageMissing, []string{"image not available"}},
	{ErrPull, []string{"initializing source docker://"}},
	{ErrPull, []string{"failed to resolve reference"}},
	{ErrPull, []string{"short-name", "did not resolve to an alias"}},
	{ErrPull, []string{"unable to find image", "error response from daemon"}},
	{ErrPull, []string{"/v2/\": dial tcp"}},

	// Starting. A mount that fails, or a working directory, is an argument's fault though
	// the runtime tells of it.
	{ErrRuntime, []string{"unable to retrieve oci runtime error", "executable file not found in $path"}},
	{ErrNoCommand, []string{"executable file not found in $path"}},
	{ErrNoCommand, []string{"unable to start container process: exec: "}},
	{ErrNoCommand, []string{"exec format error"}},
	{ErrNoCommand, []string{"no command specified"}},
	{ErrNoCommand, []string{"no command or entrypoint provided"}},
	{ErrArgument, []string{"error mounting"}},
	{ErrArgument, []string{"mounts denied"}},
	{ErrArgument, []string{"sethostname"}},
	{ErrArgument, []string{"no such network"}},
	{ErrArgument, []string{"cwd must be an absolute path"}},
	{ErrArgument, []string{"unable to set memory limit"}},
	{ErrArgument, []string{"is not a valid action for seccomp"}},
	{ErrArgument, []string{"is not a valid arch for seccomp"}},
	{ErrRuntime, []string{"oci runtime"}},
	{ErrRuntime, []string{"runc create failed"}},
	{ErrRuntime, []string{"unknown runtime specified"}},

	// Arguments.
	{ErrArgument, []string{"unknown flag"}},
	{ErrArgument, []string{"invalid argument"}},
	{ErrArgument, []string{"invalid reference format"}},
	{ErrArgument, []string{"repository name must be lowercase"}},
	{ErrArgument, []string{"invalid value for"}},
	{ErrArgument, []string{"minimum memory limit"}},
	{ErrArgument, []string{"invalid mount"}},
	{ErrArgument, []string{"invalid pid mode"}},
	{ErrArgument, []string{"statfs", "no such file or directory"}},
	{ErrArgument, []string{"must be an absolute path"}},
	{ErrArgument, []string{"needs to be an absolute path"}},
	{ErrArgument, []string{"workdir", "does not exist on container"}},
	{ErrArgument, []string{"unable to find user"}},
	{ErrArgument, []string{"no users found"}},
	{ErrArgument, []string{"failed to parse memory bytes"}},
	{ErrArgument, []string{"unknown logging driver"}},
	{ErrArgument, []string{"network", "not found"}},
	{ErrArgument, []string{"unknown capability"}},
	{ErrArgument, []string{"invalid signal"}},
	{ErrArgument, []string{"seccomp profile"}},
	{ErrArgument, []string{"ulimit option"}},
	{ErrArgument, []string{"invalid container name"}},
	{ErrArgument, []string{"could not select device driver"}},
	{ErrArgument, []string{"unresolvable cdi devices"}},
}

// unreached are words of a client that never reached its engine. A client that lost its
// engine later may say that it can't connect, too: nothing of docker's tells these apart.
var unreached = []string{
	"permission denied while trying to connect",
	"unable to connect to podman socket",
	"cannot connect to the docker daemon",
	"failed to connect to the docker api",
	"/_ping\": ", // what a client asks first
	"unable to resolve docker endpoint",
	"failed to resolve active destination",
	"cannot access containerd socket",
	"rootless containerd not running",
}

// Unreached reports whether the client said that it could not connect to its engine. A
// client that loses its engine later may say the same. If another call that comes right
// after it can't connect either, the engine was asked for nothing.
func (e *Error) Unreached() bool {
	text := strings.ToLower(e.Stderr)
	return e.Cause == nil && slices.ContainsFunc(unreached, func(words string) bool { return strings.Contains(text, words) })
}

// TurnedAway reports whether an ssh server closed the client's connection before they had
// greeted each other, by the client's words. An sshd does that while more clients than
// its MaxStartups have yet to say who they are. It may let the same client in a moment
// later.
func (e *Error) TurnedAway() bool { return saysAny(e.Stderr, turnedAway) }

// Unnegotiated reports whether docker's engine refused the version of its API that the
// client spoke. A client first asks its engine which version to speak, and speaks its own
// newest if that question is not answered, as when an ssh server turns it away. An engine
// that refuses has done nothing. It also refuses every client whose DOCKER_API_VERSION is
// too high.
func (e *Error) Unnegotiated() bool { return saysAny(e.Stderr, unnegotiated) }

var unnegotiated = [][]string{{"client version", "is too new. maximum supported api version is"}}

// turnedAway are the words of OpenSSH's client, and of Go's, which podman has. Behind the
// same beginnings they say other things too, such as that the host's key is another.
var turnedAway = [][]string{
	{"kex_exchange_identification: connection closed by"},
	{"kex_exchange_identification: read: connection reset by"},
	{"ssh: handshake failed: eof"},
	{"ssh: handshake failed: read tcp", "connection reset by peer"},
}

// Classify returns the sentinel that says what an engine's message means, or nil if that
// is not known. The output of a container can imitate a message. So classify only what a
// client printed before its container started, or a client that runs no container.
func Classify(stderr []byte) error { return classes.Classify(stderr) }

// nobodyListens are docker's words, as in classes, for an address where nobody listens: a
// connection that is refused, or no such socket.
var nobodyListens = [][]string{
	{"cannot connect to the docker daemon"},
	{"failed to connect to the docker api", "no such file or directory"},
	{"failed to connect to the docker api", "connection refused"},
	{"error during connect", "the system cannot find the file specified"},
	{"failed to connect to the docker api", "the system cannot find the file specified"},
}

func saysAny(text string, rows [][]string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(rows, func(words []string) bool { return clierr.SaysAll(text, words) })
}

// hidePasswords returns text with "***" in place of the password of each URL in it. The
// user's name stays.
func hidePasswords(text string) string {
	var b strings.Builder
	for {
		before, rest, isURL := strings.Cut(text, "://")
		b.WriteString(before)
		if !isURL {
			return b.String()
		}
		end := strings.IndexAny(rest, "/?#\"' \t\r\n")
		if end < 0 {
			end = len(rest)
		}
		b.WriteString("://" + maskPassword(rest[:end]))
		text = rest[end:]
	}
}

// hidePassword returns the address of an engine with "***" in place of its password,
// which need not be escaped.
func hidePassword(address string) string {
	scheme, rest, _ := strings.Cut(address, "://")
	return scheme + "://" + maskPassword(rest)
}

// maskPassword returns what follows a URL's "://" with "***" in place of the
// password, if there is one.
func maskPassword(authority string) string {
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		if user, _, ok := strings.Cut(authority[:at], ":"); ok {
			return user + ":***" + authority[at:]
		}
	}
	return authority
}

// NewRunError returns the error of a failed client of that command line which was not
// started by this package. stderr may have any length. cause may be nil.
func NewRunError(argv []string, exitCode int, stderr []byte, cause error) *Error {
	// Half a URL would not show that it has a password.
	text := hidePasswords(string(stderr))
	if len(text) > maxStderr {
		text = text[:maxStderr/2] + text[len(text)-maxStderr/2:]
	}
	return newError("run", argv, exitCode, []byte(text), cause)
}
