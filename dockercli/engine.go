package dockercli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
	"github.com/seed-64a260eb/cofferdam/truncate"
)

// maxStdout bounds what is kept of a short verb's output. An inspection is some
// kilobytes; labels can make it longer.
const maxStdout = 1 << 20

// A Kind says which flags an engine's client understands.
type Kind int

const (
	// Docker is the docker client, and any that takes the same flags.
	Docker Kind = iota
	// Podman is the podman client, even where it is installed under the name docker.
	Podman
	// Nerdctl is containerd's client, even where it is installed under the name docker.
	// The package's documentation says what it can't do.
	Nerdctl
)

// String returns the name of the program.
func (k Kind) String() string { return k.dialect().name }

// An Engine is a client program, with what is known of the engine that it talks to.
// [Find] and [Lookup] return one that is filled in. A caller who knows the fields may
// also use a literal. The zero Engine is the docker program on PATH. Its methods don't
// change it and may be called at the same time.
type Engine struct {
	// Path is the client program. If it has no slash, PATH is searched for it each time.
	// If empty, it is the name of the Kind.
	Path string
	// Global are the words between the program and the verb, such as "--context", "ci".
	// The names of files in them, and in Env, must be absolute: some clients work in
	// another directory.
	Global []string
	// Env is the client's environment, each entry "key=value". If nil, the client has the
	// environment of this process, of which podman's client gets only the variables that
	// it needs when it runs a container. An image can read each variable that podman's
	// client has.
	Env []string
	// Kind says which flags the client understands.
	Kind Kind
	// ClientVersion and ServerVersion are the versions that the client reports of itself
	// and of its engine. If empty, they are not known.
	ClientVersion, ServerVersion string
	// Remote says that the engine may run on another machine, so that host paths mean
	// nothing to it.
	Remote bool
	// Kernel is the release of the engine's kernel, as uname -r has it. If empty, it is
	// not known, and package execpolicy uses no FIFOs and has no Egress. [Engine.Probe]
	// fills it in.
	Kernel string
	// Socket is the path of the unix socket on which the engine listens. If empty, it is
	// not known, or there is none.
	Socket string
	// Rootless says that the engine runs without root's rights.
	Rootless bool
	// MissingLimits names the limits that the engine can't set, of [LimitMemory],
	// [LimitProcessors] and [LimitProcesses]. [Find] and [Lookup] ask only a rootless
	// engine for them, since no other is known to lack any. If nil, nobody has asked, and
	// package execpolicy does before it starts anything, and for the Socket too. A caller
	// who knows that none is missing sets it to an empty list.
	MissingLimits []string
	// PodmanService says that docker's client talks to podman. That client does not take
	// podman's own flags. So a container has the lines of the host's /etc/hosts, and one
	// with a read-only root has a writable /run and /var/tmp, in its own memory.
	PodmanService bool
	// SELinux says that the engine confines its containers by SELinux. [Find] and
	// [Lookup] ask only a local engine for that, and only if this host has SELinux.
	SELinux bool
	// ChosenBy is the environment variable, with its value, that told [Find] which engine
	// to return. If empty, no variable did, or the engine does not come from Find.
	ChosenBy string
	// PassedOver is why [Find] returned podman and not docker. If nil, Find did not pass
	// over docker.
	PassedOver error
}

// String names the engine, its version and its client, and says what chose it or why
// docker was passed over, as in "docker 28.2.2 (/usr/bin/docker --context ci)".
func (e *Engine) String() string {
	name := e.Kind.String()
	switch {
	case e.PodmanService:
		name = "podman's service"
	case e.Kind == Nerdctl && e.ServerVersion != "":
		name = "containerd"
	}
	if e.ServerVersion != "" {
		name += " " + e.ServerVersion
	}
	name += " (" + e.Client() + ")"
	if e.ChosenBy != "" {
		name += ", chosen by " + e.ChosenBy
	}
	if e.PassedOver != nil {
		name += fmt.Sprintf(", used because docker could not be: %v", e.PassedOver)
	}
	return name
}

// Client returns the client's program and flags as one line that a POSIX shell runs, with
// the passwords in URLs hidden, as in "docker --context ci".
func (e *Engine) Client() string { return hidePasswords(Explain(e.argv())) }

// The limits that [Engine.MissingLimits] may name.
const (
	LimitMemory     = "memory"
	LimitProcessors = "processors"
	LimitProcesses  = "processes"
)

// Lacks reports whether a limit is one of MissingLimits.
func (e *Engine) Lacks(limit string) bool { return slices.Contains(e.MissingLimits, limit) }

// Resolve returns the engine with an absolute Path, so that later starts don't depend on
// PATH or on the working directory. Its error matches [ErrNoEngine] if there is no such
// program. It also matches [exec.ErrDot] if PATH would have found the program in the
// current directory.
func (e *Engine) Resolve() (*Engine, error) {
	path, err := lookPath(e.path())
	if err != nil {
		return nil, err
	}
	resolved := *e
	resolved.Path = path
	return &resolved, nil
}

// lookPath makes a program's name or path absolute.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoEngine, err)
	}
	return path, nil
}

func (e *Engine) path() string {
	if e.Path == "" {
		return e.Kind.String()
	}
	return e.Path
}

// argv returns the whole argument vector of a verb, in memory of its own.
func (e *Engine) argv(words ...string) []string {
	argv := make([]string, 0, 1+len(e.Global)+len(words))
	argv = append(argv, e.path())
	argv = append(argv, e.Global...)
	return append(argv, words...)
}

// A call is one run of the client for a short verb.
type call struct {
	verb   string
	argv   []string
	stdin  *os.File
	stdout io.Writer // if nil, the output is returned
	stderr io.Writer // also gets what is kept for the error
}

// Dir returns the directory in which to run the client: /proc for podman on Linux, and
// otherwise the empty string, which is this program's own. Podman's monitor leaves a file
// called oom in that directory when the kernel kills for memory, which /proc does not
// take, and its client does not run in a directory that was removed.
func (e *Engine) Dir() string {
	if e.Kind == Podman && runtime.GOOS == "linux" {
		return "/proc"
	}
	return ""
}

// do runs c and returns what it printed. Its error is an *Error unless the client could
// not be started at all.
func (e *Engine) do(ctx context.Context, c call) ([]byte, error) {
	resolved, err := e.Resolve()
	if err != nil {
		return nil, err
	}
	stdout, stderr := truncate.Buffer{Limit: maxStdout}, truncate.Buffer{Limit: maxStderr}
	var out, errs io.Writer = &stdout, &stderr
	if c.stdout != nil {
		out = c.stdout
	}
	if c.stderr != nil {
		errs = io.MultiWriter(&stderr, c.stderr)
	}
	state, err := procgroup.Output(ctx, procgroup.Cmd{
		Path: resolved.Path,
		Args: c.argv,
		Env:  e.Env,
		Dir:  e.Dir(),
		// The client, or its credential helper, must fail rather than wait for an answer
		// from the terminal.
		NewSession: true,
		Stdin:      c.stdin,
	}, out, errs)
	if errors.Is(err, procgroup.ErrWriterStuck) {
		// Something may still write to a buffer, so nothing may be read from it.
		return nil, err
	}
	exit := -1
	if state != nil {
		exit = state.ExitCode()
	}
	if err == nil && stdout.Dropped() > 0 {
		err = fmt.Errorf("it printed more than %d bytes", maxStdout)
	}
	if err != nil || exit != 0 {
		return slices.Clone(stdout.Bytes()), newError(c.verb, c.argv, exit, stderr.Bytes(), err)
	}
	return stdout.Bytes(), nil
}
