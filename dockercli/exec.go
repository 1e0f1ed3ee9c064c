package dockercli

import (
	"context"
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
// up to 1 MiB of what it printed to stdout. An exit code other than 0 is not an error,
// unless the client says that the command was never started. When ctx ends, only the
// client ends: the command goes on as long as its container.
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
	if failed.Class == nil && failed.Cause == nil {
		// Docker prints to stdout why a command could not be started.
		failed.Class = Classify(stdout)
	}
	if failed.Class == nil && failed.Cause == nil {
		return e.execCode(failed), stdout, nil
	}
	return failed.ExitCode, stdout, err
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
