package execpolicy

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/seed-64a260eb/cofferdam/internal/ordered"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
)

// MaxStdin is the most that [Command.Stdin] may deliver: it is held in memory while it is sent, and in the container's memory after.
const MaxStdin = 16 << 20

// A Command is what a session runs. It has either a Script or an Argv.
type Command struct {
	// Script is shell text of any length. Variables, functions, the directory and background jobs are kept for the next command.
	// Redirections of the shell itself (exec >file) last one command.
	Script string
	// Argv is one program and its arguments, which no shell reads: never a builtin, function or alias. The first word must not begin
	// with "-".
	Argv []string
	// Dir is the directory for this command only. If empty, the one where the last command left the shell.
	Dir string
	// Env is set for this command only, on top of the session's.
	Env map[string]string
	// Secrets, of the type [Secrets], are the command's, on top of the session's. Later commands don't get them; but a secret given to a
	// command is given to its session, as the package's documentation says.
	Secrets SecretSet
	// Stdin is read to its end, at most [MaxStdin] bytes, before the command runs. If nil, the command's stdin is empty. A Read that
	// does not return by the deadline is left behind.
	Stdin io.Reader
	// Stdout and Stderr take the whole streams as they come. One that is slow makes the command wait; one that is stuck is left
	// behind at the deadline. If nil, only the result has them.
	Stdout, Stderr io.Writer
	// Timeout is how long the command may run, from when its turn has come. If zero, [Limits.CommandTimeout]; if negative, for ever.
	Timeout time.Duration
	// OutputLimit ends the command when it has printed more bytes than that on both streams together, before secrets and any [Spec.Filter].
	// If zero, it goes on, and what is too much is dropped and counted.
	OutputLimit int64
}

func (c Command) validate() error {
	var errs *multierror.Error
	switch {
	case strings.TrimSpace(c.Script) == "" && len(c.Argv) == 0:
		errs = multierror.Append(errs, errors.New("a command must be a non-empty string: set Script or Argv"))
	case c.Script != "" && len(c.Argv) > 0:
		errs = multierror.Append(errs, errors.New("a command has either a Script or an Argv, not both"))
	}
	if len(c.Argv) > 0 && (c.Argv[0] == "" || c.Argv[0][0] == '-') {
		errs = multierror.Append(errs, fmt.Errorf("%q is no name of a program: it must not be empty or begin with \"-\"", c.Argv[0]))
	}
	for _, text := range slices.Concat([]string{c.Script, c.Dir}, c.Argv) {
		if strings.Contains(text, "\x00") {
			errs = multierror.Append(errs, errors.New("a command can't hold a NUL byte; send it through Stdin"))
			break
		}
	}
	if c.OutputLimit < 0 {
		errs = multierror.Append(errs, errors.New("OutputLimit must not be negative"))
	}
	errs = multierror.Append(errs, validateEnv(c.Env)...)
	return judge(errs, c.Secrets, c.Env)
}

// judge is invalid for what has secrets too: it tells what is wrong with them, and no value of theirs.
func judge(errs *multierror.Error, secrets SecretSet, env map[string]string) error {
	if secrets != nil {
		errs = secrets.judge(errs, env)
	}
	return invalid(errs)
}

// invalid turns problems into one error that wraps ErrInvalid, or nil.
func invalid(errs *multierror.Error) error {
	if errs.ErrorOrNil() == nil {
		return nil
	}
	errs.ErrorFormat = func(problems []error) string {
		texts := make([]string, len(problems))
		for i, p := range problems {
			texts[i] = p.Error()
		}
		return strings.Join(texts, "; ")
	}
	return fmt.Errorf("%w: %w", ErrInvalid, errs)
}

func validateEnv(env map[string]string) []error {
	var errs []error
	for _, name := range ordered.Keys(env) {
		if !shellwire.IsName(name) {
			errs = append(errs, fmt.Errorf("%q is no name of an environment variable: letters, digits and \"_\", not beginning with a digit", name))
		}
		switch name {
		case "UID", "EUID", "PPID", "BASHOPTS", "SHELLOPTS", "BASH_VERSINFO":
			errs = append(errs, fmt.Errorf("%s can't be set: bash has it read-only", name))
		}
		if strings.Contains(env[name], "\x00") {
			errs = append(errs, fmt.Errorf("the value of %s holds a NUL byte", name))
		}
	}
	return errs
}

// unit returns what the worker runs. stdin is the file that holds the command's stdin; if empty, there is none.
func (c Command) unit(back, stdin string) shellwire.Unit {
	u := shellwire.Unit{Script: c.Script, Dir: c.Dir, Back: back, Stdin: stdin}
	if len(c.Argv) > 0 {
		var b strings.Builder
		b.WriteString(`( \command exec`)
		for _, arg := range c.Argv {
			b.WriteString(" " + shellwire.Quote(arg))
		}
		b.WriteString(" )")
		u.Script = b.String()
	}
	for _, name := range ordered.Keys(c.Env) {
		u.Env = append(u.Env, name+"="+c.Env[name])
	}
	return u
}
