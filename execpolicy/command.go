package execpolicy

import (
	"io"
	"slices"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/environ"
	"github.com/seed-64a260eb/cofferdam/internal/ours"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
)

// MaxStdin is how many bytes [Command.Stdin] may have. They are held in memory while they
// are sent, and in the container's memory after that.
const MaxStdin = 16 << 20

// MaxText is how many bytes the Script, Argv, Env and Dir of a [Command] may have
// together: as much as fits into the container's memory for it beside a whole Stdin, even
// if each is to be quoted. Each word of Argv and each variable of Env counts one more,
// and each newline in a value of Env two more.
const MaxText = 4 << 20

// A Command is what a session runs. It has either a Script or an Argv. Its text may have
// at most [MaxText] bytes.
type Command struct {
	// Script is shell text. Variables, functions, the directory and background jobs are
	// kept for the next command. Redirections of the shell itself (exec >file) last for
	// one command, and so does a function named "command". The shell's error messages are
	// on stderr, with the number of the line in Script. Bash also names the file that the
	// library put Script into: "/.cofferdam/script: line 3: nosuch: command not found". A
	// script that leaves the shell itself fewer than 32 descriptors (ulimit -n) leaves
	// too few for the next commands: they may exit with 1, 2 or 98 and not have run.
	Script string
	// Argv is one program and its arguments, which no shell interprets. It is never a
	// builtin, a function or an alias. The first word must not be empty or begin with
	// "-".
	//
	// The streams hold what the program prints and nothing else: a signal that killed it
	// is in the result. If the program could not be run, the shell names it in a line or
	// two on stderr, and the exit code is 127 if it is not there and 126 if it can't be
	// executed.
	Argv []string
	// Dir is the directory for this command only. If empty, it is the directory where the
	// last command left the shell. A relative Dir is relative to that directory too,
	// while the names of [Session.ReadFile] and the other methods for files are relative
	// to where the session began. Where the name of the shell's own directory is not
	// known, or has a newline in it, the shell could not go back to it, and Dir is
	// refused with ErrNoDir.
	Dir string
	// Env is set for this command only, on top of the session's. The names are as in
	// [Spec.Env].
	Env map[string]string
	// Secrets are the command's, on top of the session's. Later commands don't get them;
	// but a secret given to a command is given to its session, as the package's
	// documentation says.
	Secrets []Secret
	// Stdin is read to its end before the command runs, and may have at most [MaxStdin]
	// bytes. If nil, the command's stdin is empty. A Read that does not return by the
	// deadline is left behind, and the command does not run.
	Stdin io.Reader
	// Stdout and Stderr take the whole streams as they come. A slow writer makes the
	// command wait. When the command is ended, nothing waits for the writer any more: it
	// may get the beginning of its stream only, and never a part after a gap, and a Write
	// that has not returned a moment later is left behind. The moment is 250 ms, or an
	// eighth of [Limits.TerminationTimeout] if that is shorter. When the command has
	// ended by itself, the writer may take the rest for as long as that limit, or until a
	// moment after the command's deadline if that comes first. If it does not, it is left
	// behind, and Run returns an error. If nil, only the result has the output. If both
	// are the same writer, and can be compared with ==, one Write at a time is called.
	Stdout, Stderr io.Writer
	// Timeout is how long the command may run. If zero, it is [Limits.CommandTimeout]; if
	// negative, there is no limit. The outcome of a command that reaches it is
	// [OutcomeTimedOut]. A deadline of the context given to Run is a cancel like any
	// other: then the outcome is [OutcomeCanceled].
	//
	// The time begins when the command's turn has come, [Spec.Audit] has taken its record
	// and [Spec.Approve] has returned. Reading Stdin and looking up secrets count. If the
	// shell has to be replaced first, with its startup scripts, that counts only as far
	// as it takes longer than half of [Limits.TerminationTimeout].
	//
	// When a command is ended, its programs get the signals first, and the session's
	// shell last. So the shell may go on with the rest of a Script for half a second: in
	// "make; git push", git begins when make is ended. An Argv, as in {"sh", "-c", "make;
	// git push"}, has no rest.
	Timeout time.Duration
	// OutputLimit ends the command when it has printed more bytes than that on both
	// streams together, counted before secrets are redacted and before [Spec.Filter]. If
	// zero, there is no limit: the command goes on, and what exceeds
	// [Limits.MaxOutputBytes] is dropped and counted. It must not be negative.
	OutputLimit int64
	// Usage asks for [Result.Usage]. To learn it, the library looks into the container
	// when the command has ended, which takes about a millisecond. If false, what the
	// command uses is not measured.
	Usage bool

	code   *ours.Code // what it was made of; nil if it is the caller's own
	unseen bool       // no caller sees the result
}

// Check returns the error with which [Session.Run] would refuse the command, or nil. It
// wraps [ErrInvalid], and says all that is wrong.
func (c Command) Check() error {
	return problems.Join(validateSecrets(c.problems(), c.Secrets, c.Env)...)
}

// problems are all that is wrong, but for the secrets.
func (c Command) problems() problems.List {
	var found problems.List
	switch {
	case strings.TrimSpace(c.Script) == "" && len(c.Argv) == 0:
		found.Add("a command must be a non-empty string: set Script or Argv")
	case c.Script != "" && len(c.Argv) > 0:
		found.Add("a command has either a Script or an Argv, not both")
	}
	if len(c.Argv) > 0 && (c.Argv[0] == "" || c.Argv[0][0] == '-') {
		found.Add("%q is not the name of a program: it must not be empty or begin with \"-\"", c.Argv[0])
	}
	if strings.Contains(c.Dir, "\x00") {
		found.Add("a directory's name can't hold a NUL byte")
	}
	holdsNUL := func(text string) bool { return strings.Contains(text, "\x00") }
	if holdsNUL(c.Script) || slices.ContainsFunc(c.Argv, holdsNUL) {
		found.Add("a command can't hold a NUL byte; send it through Stdin")
	}
	if n := c.length(); n > MaxText {
		found.Add("the command's text counts %d bytes, and may have %d: put what is longer into a file with Session.WriteFile, which Spec.Prepare can call too", n, MaxText)
	}
	if c.OutputLimit < 0 {
		found.Add("OutputLimit must not be negative")
	}
	return append(found, environ.Check(c.Env)...)
}

// length is how many bytes its text counts. The worker gets four times as many at most:
// a single quote takes four, a newline in Env ten, and an empty word three.
func (c Command) length() int {
	n := len(c.Script) + len(c.Dir)
	for _, word := range c.Argv {
		n += len(word) + 1
	}
	for name, value := range c.Env {
		n += len(name) + len(value) + 2*strings.Count(value, "\n") + 1
	}
	return n
}

// unit returns what the worker runs. stdin is the file that holds the command's stdin; if
// empty, there is none.
func (c Command) unit(back, stdin string) shellwire.Unit {
	u := shellwire.Unit{Script: c.Script, Argv: c.Argv, Dir: c.Dir, Back: back, Stdin: stdin, Fork: c.code != nil && c.code.Fork}
	for _, name := range environ.Names(c.Env) {
		u.Env = append(u.Env, name+"="+c.Env[name])
	}
	return u
}
