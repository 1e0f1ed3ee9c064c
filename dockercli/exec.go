package dockercli

import (
	"context"
	"slices"
	"strconv"
	"strings"
)

// ExecOptions are the arguments of exec, which runs one more command in a container. A
// field that is zero gives no flag.
type ExecOptions struct {
	// Container is the container's name or ID.
	Container string
	// Interactive connects the client's stdin to the command.
	Interactive bool
	// User is a name or number, or "user:group".
	User string
	// Workdir is where the command starts, an absolute path.
	Workdir string
	// Env are names of variables whose values the client takes from its own environment.
	Env []string
	// Command is the argument vector in the container.
	Command []string
}

// ExecArgs returns the argument vector of an exec, the client's program included. It
// depends on nothing but o and e's Path, Remote, Global and Kind. Its error names
// everything that is wrong, and matches [ErrArgument].
func (e *Engine) ExecArgs(o ExecOptions) ([]string, error) {
	var c checker
	f := flags{words: []string{"exec"}}
	f.words = append(f.words, e.noDetach()...)
	f.bool("interactive", o.Interactive)
	f.value("user", o.User)
	if o.Workdir != "" && !strings.HasPrefix(o.Workdir, "/") {
		c.refuse("working directory %q: it has to be an absolute path", o.Workdir)
	}
	f.value("workdir", o.Workdir)
	for _, name := range o.Env {
		c.envName(name)
		f.value("env", name)
	}
	c.container(o.Container)
	if len(o.Command) == 0 {
		c.refuse("command: it must not be empty")
	}
	argv := append(e.argv(f.words...), "--", o.Container)
	argv = append(argv, o.Command...)
	c.words(argv)
	if err := c.err(); err != nil {
		return nil, err
	}
	return argv, nil
}

// Exec runs a command in a container, with an empty stdin, and returns its exit code and
// what it printed to stdout. More than 1 MiB of that is an error. An exit code other than
// 0 is not an error, unless the client says that the command was never started: a command
// that imitates the client's words is taken for that. Only without an error is exitCode
// the command's. When ctx ends, only the client ends: the command goes on as long as its
// container.
func (e *Engine) Exec(ctx context.Context, o ExecOptions) (exitCode int, stdout []byte, err error) {
	argv, err := e.ExecArgs(o)
	if err != nil {
		return -1, nil, err
	}
	stdout, err = e.do(ctx, call{verb: "exec", argv: argv})
	failed, ok := err.(*Error)
	if !ok {
		return 0, stdout, err
	}
	if failed.Cause == nil {
		refusal := e.refusal(failed, stdout)
		if refusal == "" {
			return e.execCode(failed), stdout, nil
		}
		failed.Class = Classify([]byte(refusal))
	}
	return failed.ExitCode, stdout, err
}

// refusal returns the words by which the client of an exec says that it could not have
// the command started. It returns "" if the command was started: then all words are the
// command's.
func (e *Engine) refusal(failed *Error, stdout []byte) string {
	if tells := e.Kind.dialect().execTells; tells != "" && strings.Contains(failed.Stderr, tells) {
		return ""
	}
	for said := failed.Stderr; said != ""; _, said, _ = strings.Cut(said, "\n") {
		if line, _, _ := strings.Cut(said, "\n"); e.refuses(failed.ExitCode, line) {
			return said
		}
	}
	// Docker prints to stdout what its runtime says, and then nothing else.
	if e.Kind == Docker && (failed.ExitCode == 126 || failed.ExitCode == 127) && e.refuses(failed.ExitCode, string(stdout)) {
		return string(stdout)
	}
	return ""
}

// refuses reports whether a line is one by which the client of an exec says that it could
// not have the command started.
func (e *Engine) refuses(exitCode int, line string) bool {
	if e.Kind == Nerdctl {
		return logged(line) != line
	}
	// Many programs begin a line as podman does, so its exit codes have to tell too.
	podman := e.Kind == Podman || e.PodmanService
	if podman && strings.HasPrefix(line, "Error: ") && slices.Contains([]int{125, 126, 127, 255}, exitCode) {
		return true
	}
	begins := func(words string) bool { return strings.HasPrefix(line, words) }
	// Many programs say this of their flags, too.
	if e.Kind == Docker && exitCode == 125 && slices.ContainsFunc(dockerFlags, begins) {
		return true
	}
	return e.Kind == Docker && slices.ContainsFunc(dockerRefuses, begins)
}

// dockerFlags begin the lines by which docker's client refuses a flag.
var dockerFlags = []string{"unknown flag: ", "unknown shorthand flag: ", "flag needs an argument: ", "invalid argument "}

// dockerRefuses begin the lines by which docker's client says that it could not have a
// command started.
var dockerRefuses = []string{
	"Error response from daemon: ",
	"Error: No such container: ", // of older clients
	"OCI runtime exec failed: ",
	"cannot exec in a ", // of containerd's, for a container that has just ended
	"unable to find user ",
	"unable to upgrade to tcp, ",
	"Cannot connect to the Docker daemon",
	"failed to connect to the docker API",
	"error during connect: ",
	"command [ssh ",
	"permission denied while trying to connect",
	"Got permission denied while trying to connect",
	"Failed to initialize: unable to resolve docker endpoint",
	"unable to resolve docker endpoint",
}

// execCode returns the exit code of a command that an exec has run.
func (e *Engine) execCode(failed *Error) int {
	tells := e.Kind.dialect().execTells
	// The client's own words are the last.
	at := strings.LastIndex(failed.Stderr, tells)
	if tells == "" || at < 0 {
		return failed.ExitCode
	}
	digits := failed.Stderr[at+len(tells):]
	if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end]
	}
	if code, err := strconv.Atoi(digits); err == nil && code <= 255 {
		return code
	}
	return failed.ExitCode
}
