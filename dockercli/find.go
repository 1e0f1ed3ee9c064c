package dockercli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/shlex"
)

// probeTimeout is how long [Find] and [Lookup] wait for one engine. A local engine
// answers in a fifth of a second; one over ssh takes about a second.
const probeTimeout = 5 * time.Second

// EngineVar is the environment variable by which the user of a program chooses the
// engine: see [Find].
const EngineVar = "COFFERDAM_ENGINE"

// Find returns the engine to use if the program names none. The first of these that is
// set chooses it:
//
//   - The environment variable COFFERDAM_ENGINE names a client as [Lookup] takes it: a
//     name, a path, or one with flags, such as "docker --context ci".
//   - The environment variables DOCKER_HOST and DOCKER_CONTEXT choose docker.
//   - The environment variables CONTAINER_HOST and CONTAINER_CONNECTION choose podman.
//   - A current context in the configuration of docker's client that is not "default"
//     chooses docker.
//
// An engine that was chosen is the only one that is tried, and ChosenBy says what chose
// it, unless that was the client's configuration.
//
// If none is set, Find takes docker. It takes podman only if docker is certainly not
// usable: there is no docker program, nobody listens on its socket, or this user may not
// open the socket. Then the engine's PassedOver is the reason.
//
// If docker does not answer within 5 s, or answers with another error, Find fails,
// because docker may answer the next time. A slow moment must not move a program to
// another engine, with other images and other limits.
//
// The error matches [ErrNoEngine], names what chose the engine, and wraps the error of
// each program that was tried.
func Find(ctx context.Context) (*Engine, error) {
	program, choice := chosen()
	e, err := Lookup(ctx, program)
	if err == nil {
		e.ChosenBy = choice
		return e, nil
	}
	program = hidePasswords(program)
	if choice == "" && !errors.Is(err, ErrNoEngine) {
		var late error
		if choice, late = currentContext(ctx); late != nil {
			// Then it is not known that docker is unusable.
			err = errors.Join(err, late)
		}
	}
	switch {
	case choice != "":
		if errors.Is(err, exec.ErrNotFound) && strings.HasPrefix(choice, EngineVar) {
			err = fmt.Errorf("%w (a context is named with its client, as in \"docker --context ci\")", err)
		}
		return nil, fmt.Errorf("%w: %s was chosen by %s; undo that, or name another engine, to use another: %w", ErrNoEngine, program, choice, err)
	case !unusable(err):
		return nil, fmt.Errorf("%w: docker may answer the next time, so podman is not tried; name podman to use it: %w", ErrNoEngine, err)
	}
	e, podman := Lookup(ctx, "podman")
	if podman != nil {
		return nil, fmt.Errorf("%w (%s): %w", ErrNoEngine, advise(ErrNoEngine), errors.Join(err, podman))
	}
	e.PassedOver = err
	return e, nil
}

// chosen returns the program that the environment chooses, and the variable that does so
// with its value. If none does, that is empty, and the program is docker.
func chosen() (program, choice string) {
	if spec := os.Getenv(EngineVar); spec != "" {
		return spec, EngineVar + "=" + hidePasswords(spec)
	}
	for _, c := range [...]struct{ program, variable string }{
		{"docker", "DOCKER_HOST"}, {"docker", "DOCKER_CONTEXT"}, {"podman", "CONTAINER_HOST"}, {"podman", "CONTAINER_CONNECTION"},
	} {
		if value := os.Getenv(c.variable); value != "" {
			// Docker's client takes an address without a scheme too.
			scheme := "tcp://"
			if strings.Contains(value, "://") {
				scheme = ""
			}
			return c.program, c.variable + "=" + strings.TrimPrefix(hidePassword(scheme+value), scheme)
		}
	}
	return "docker", ""
}

// currentContext says which context of its configuration docker's client uses, if that is
// not its default. The client reads it from its files alone. It is an error if it does
// not answer in time: a client that fails has none.
func currentContext(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, errNoAnswer)
	defer cancel()
	e, err := new(Engine).Resolve()
	if err != nil {
		return "", nil
	}
	out, err := e.do(ctx, call{verb: "context inspect", argv: e.argv("context", "inspect", "--format={{.Name}}")})
	if name := strings.TrimSpace(string(out)); err == nil && name != "" && name != "default" {
		return fmt.Sprintf("the current context %q in the configuration of its client", name), nil
	}
	if err != nil && ctx.Err() != nil {
		return "", err
	}
	return "", nil
}

// unusable reports whether an error of docker's says for certain that this user has no
// use of it.
func unusable(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return false
	}
	failed, ok := errors.Unwrap(err).(*Error) // Lookup wraps it once
	return errors.Is(err, ErrNoEngine) || errors.Is(err, ErrPermission) ||
		ok && failed.Cause == nil && saysAny(failed.Stderr, nobodyListens)
}

// Lookup returns the engine that spec names, if it answers within 5 s. spec is the path
// of a program, a name on PATH, or a program with flags, split into words as a shell
// does, such as "podman --remote" or "docker --context ci". A name that PATH would find
// in the current directory is refused. The error matches [ErrArgument] if spec can't be
// parsed, [ErrNoEngine] if there is no such program, and [ErrEngineDown] if there is no
// answer within 5 s. That of an answer that can't be read may match nothing. Any other
// error wraps the cause of ctx, or matches what [Classify] returns for the engine's
// message.
func Lookup(ctx context.Context, spec string) (*Engine, error) {
	client, err := Parse(spec)
	if err != nil {
		return nil, err
	}
	e, err := client.Probe(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", hidePasswords(spec), err)
	}
	return e, nil
}

// Parse returns the client that spec names, as [Lookup] takes it, without asking it
// anything: of the engine only Path and Global are known. The error matches [ErrArgument]
// if spec can't be parsed, and [ErrNoEngine] if there is no such program.
func Parse(spec string) (*Engine, error) {
	words := []string{spec}
	path, err := lookPath(spec)
	// A path may hold spaces and backslashes that the shell would read differently, so
	// the whole is tried first.
	if err != nil {
		if words, err = split(spec); err != nil {
			return nil, err
		}
		if path, err = lookPath(words[0]); err != nil {
			return nil, err
		}
	}
	return &Engine{Path: path, Global: slices.Clip(words[1:])}, nil
}

// Probe returns a copy of the engine with the same Path, Global and Env. An empty Path
// becomes the name of the Kind. It fills in the rest with what the client and its engine
// say, if they answer within 5 s. Its errors are those of [Lookup].
func (e *Engine) Probe(ctx context.Context) (*Engine, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, errNoAnswer)
	defer cancel()
	probed := &Engine{Path: e.path(), Global: e.Global, Env: e.Env, MissingLimits: []string{}}
	if err := probed.probe(ctx); err != nil {
		return nil, err
	}
	if _, err := os.Stat(selinuxFile); err == nil && !probed.Remote {
		info, err := probed.Info(ctx)
		if err != nil {
			return nil, err
		}
		probed.SELinux = info.SELinux
	}
	return probed, nil
}

// selinuxFile is there if the kernel has SELinux. Without it no engine is asked.
var selinuxFile = "/sys/fs/selinux/enforce"

// errNoAnswer is a deadline to everyone who asks.
var errNoAnswer = fmt.Errorf("no answer within %v: %w", probeTimeout, context.DeadlineExceeded)

// split returns the words of an operator's string. The shell's reader drops what follows
// a "#", and returns words with an error: either would leave a different command than was
// written.
func split(spec string) ([]string, error) {
	words, err := shlex.Split(spec)
	shown := hidePasswords(spec)
	if err != nil {
		return nil, fmt.Errorf("%w: engine %q: %w", ErrArgument, shown, err)
	}
	if len(words) == 0 {
		return nil, fmt.Errorf("%w: engine %q: it names no program", ErrArgument, shown)
	}
	// Any letter in place of "#" is the same word, unless it begins a comment.
	plain, err := shlex.Split(strings.ReplaceAll(spec, "#", "x"))
	if err != nil || !slices.EqualFunc(words, plain, func(a, b string) bool { return strings.ReplaceAll(a, "#", "x") == b }) {
		return nil, fmt.Errorf("%w: engine %q: it holds a comment", ErrArgument, shown)
	}
	return words, nil
}

// probe asks the client who it is and then its engine, and fills in what they say.
func (e *Engine) probe(ctx context.Context) error {
	// The client's name for itself tells podman under the name docker. The engine is not
	// asked for it.
	out, err := e.do(ctx, call{verb: "version", argv: e.argv("--version")})
	if err != nil {
		return err
	}
	text := strings.TrimSpace(string(out))
	e.ClientVersion = versionNumber(text)
	switch lower := strings.ToLower(text); {
	case strings.Contains(lower, "podman"):
		e.Kind = Podman
		return e.probePodman(ctx)
	case strings.HasPrefix(lower, "nerdctl "):
		e.Kind = Nerdctl
		return e.probeNerdctl(ctx)
	}
	return e.probeDocker(ctx)
}

// versionNumber returns the word after "version", as in "Docker version 28.2.2, build
// e6534b4".
func versionNumber(text string) string {
	_, rest, _ := strings.Cut(text, "version ")
	number, _, _ := strings.Cut(rest, " ")
	return strings.TrimSuffix(number, ",")
}

func (e *Engine) probePodman(ctx context.Context) error {
	out, err := e.do(ctx, call{verb: "info", argv: e.argv("info", "--format={{.Version.Version}} {{.Host.ServiceIsRemote}} "+
		"{{.Host.Security.Rootless}} {{.Host.Kernel}}{{println}}{{.Host.CgroupsVersion}} {{range .Host.CgroupControllers}}{{.}} {{end}}")})
	if err != nil {
		return err
	}
	first, groups, _ := strings.Cut(string(out), "\n")
	fields := strings.Fields(first)
	if len(fields) < 3 {
		return fmt.Errorf("%w: info: unexpected answer %.200q", ErrEngineDown, out)
	}
	e.ServerVersion, e.Remote, e.Rootless = fields[0], fields[1] == "true", fields[2] == "true"
	if len(fields) > 3 {
		e.Kernel = fields[3]
	}
	if words := strings.Fields(groups); e.Rootless && len(words) > 0 {
		info := Info{CgroupVersion: strings.TrimPrefix(words[0], "v"), Rootless: true}
		info.setControllers(words[1:])
		e.MissingLimits = info.missingLimits()
	}
	return nil
}

func (e *Engine) probeNerdctl(ctx context.Context) error {
	out, err := e.do(ctx, call{verb: "info", argv: e.argv("info", "--format={{.ServerVersion}} {{.KernelVersion}}{{println}}{{range .SecurityOptions}}{{.}}{{println}}{{end}}")})
	if err != nil {
		return err
	}
	lines := strings.Split(string(out), "\n")
	fields := strings.Fields(lines[0])
	if len(fields) != 2 {
		return fmt.Errorf("%w: info: unexpected answer %.200q", ErrEngineDown, out)
	}
	e.ServerVersion, e.Kernel = fields[0], fields[1]
	e.Rootless = slices.Contains(lines[1:], "name=rootless")
	// Containerd listens on this machine only. Elsewhere than on Linux the client is a
	// script that runs another in a virtual machine.
	e.Remote = runtime.GOOS != "linux"
	return e.probeLimits(ctx)
}

func (e *Engine) probeDocker(ctx context.Context) error {
	out, err := e.do(ctx, call{verb: "version", argv: e.argv("version",
		"--format={{.Server.Version}} {{.Server.KernelVersion}}{{println}}{{range .Server.Components}}{{.Name}}{{println}}{{end}}")})
	if err != nil {
		return err
	}
	lines := strings.Split(string(out), "\n")
	server := strings.Fields(lines[0])
	if len(server) == 0 {
		return fmt.Errorf("%w: version: unexpected answer %.200q", ErrEngineDown, out)
	}
	e.ServerVersion = server[0]
	if len(server) == 2 {
		// Podman's service has none in this answer.
		e.Kernel = server[1]
	}
	components := lines[1:]
	e.PodmanService = slices.Contains(components, "Podman Engine")
	// The client names the endpoint that its flags, DOCKER_HOST and the context come to;
	// it reads that from its files alone.
	out, err = e.do(ctx, call{verb: "context inspect", argv: e.argv("context", "inspect", "--format={{.Endpoints.docker.Host}}")})
	if err != nil && ctx.Err() != nil {
		return err
	}
	// A client that can't tell leaves it open where its engine is, and the answer that is
	// safe is the remote one.
	host := strings.TrimSpace(string(out))
	socket, isSocket := strings.CutPrefix(host, "unix://")
	if isSocket {
		e.Socket = socket
	}
	e.Remote = !isSocket && !strings.HasPrefix(host, "npipe://")
	// Engines before 23 don't list this component, but a rootless engine's socket lies in
	// its user's runtime directory.
	e.Rootless = slices.Contains(components, "rootlesskit") || isSocket && strings.HasPrefix(socket, "/run/user/")
	return e.probeLimits(ctx)
}

// probeLimits asks a rootless engine for the limits that it can set.
func (e *Engine) probeLimits(ctx context.Context) error {
	if !e.Rootless {
		return nil
	}
	info, err := e.Info(ctx)
	switch {
	case err != nil:
		return err
	case !e.PodmanService:
		e.MissingLimits = info.missingLimits()
	case info.CgroupVersion == "1":
		// It tells what the kernel has, and ignores all of them.
		e.MissingLimits = new(Info).missingLimits()
	}
	return nil
}
