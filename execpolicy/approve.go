package execpolicy

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/spool"
)

// A RequestKind is what a [Request] asks to run.
type RequestKind string

const (
	// RequestScript is a [Command] with a Script.
	RequestScript RequestKind = "script"
	// RequestArgv is a [Command] with an Argv.
	RequestArgv RequestKind = "argv"
	// RequestBlock is a code block that package codeblock runs, or stores, or both.
	RequestBlock RequestKind = "block"
	// RequestCall is a code block that package codeblock calls with a value.
	RequestCall RequestKind = "call"
	// RequestSnippet is what package python runs in an interpreter.
	RequestSnippet RequestKind = "snippet"
)

// A Request is what [Spec.Approve] is asked about. It is a copy: a change to it changes
// nothing of what runs.
type Request struct {
	Kind RequestKind
	// Language is the language of a block, a call or a snippet, by its name in the table
	// of package codeblock, such as "python" or "sh". It is empty for a script and an
	// argv.
	Language string
	// Code is the text that runs: the script, the block, or the snippet, to the byte. In
	// a request of package tool it may also be a file's new content, or what goes to a
	// job's stdin. It is empty for an argv.
	Code string
	// Argv is the program and its arguments. For a block and a call it is the program
	// that runs Code. It is nil for a block that is stored and not run, for a script,
	// which the session's shell runs, and for a snippet.
	Argv []string
	// Input is the JSON input of a call. It is nil for anything else.
	Input []byte
	// Path is the file in which a block that names one is stored, and from which it runs.
	// It is relative to Dir. Whatever else runs in the session can change the file before
	// the block runs. Package tool has the file here that it is to write, relative to
	// where the session began, or the job whose input it is about. Path is empty for
	// anything else.
	Path string
	// Dir is [Command.Dir], or the Dir of the options of package codeblock. If empty, the
	// command runs where the shell is. For a snippet it is empty, and the interpreter
	// stays where the snippet before has left it.
	Dir string
	// Env holds the variables that are set on top of the session's, without the secrets.
	Env map[string]string
	// Secrets are the names of the secrets that the command is given on top of the
	// session's.
	Secrets []string
	// Stdin reads the stdin of a script or an argv from its start. The command still gets
	// all of it. Nothing is read from [Command.Stdin] before the first Read, which may
	// have to wait for it. After more than [MaxStdin] bytes a Read fails with
	// [ErrStdinTooLong], as the command will. When Approve has returned, or its context
	// has ended, a Read fails with [fs.ErrClosed]. Stdin is nil if the command has none,
	// and for a block, a call and a snippet.
	Stdin io.Reader
	// Job says that the command is to run beside the others: [Session.StartJob] has
	// asked. Then Stdin is nil.
	Job bool
	// Timeout is how long the command may run. If negative, there is no limit. It is zero
	// only in a request that is about no command, such as that of package tool to write a
	// file.
	Timeout time.Duration
}

// request returns what Approve is asked about a command with that stdin.
func (c *conn) request(cmd Command, stdin *spool.Spool) Request {
	r := Request{
		Kind: RequestScript, Code: cmd.Script, Argv: slices.Clone(cmd.Argv),
		Dir: cmd.Dir, Env: maps.Clone(cmd.Env), Secrets: secretNames(cmd.Secrets), Timeout: cmd.Timeout,
	}
	if len(cmd.Argv) > 0 {
		r.Kind = RequestArgv
	}
	if code := cmd.code; code != nil {
		r.Kind, r.Language, r.Code, r.Path = RequestKind(code.Kind), code.Language, code.Text, code.Path
		r.Argv, r.Input, r.Timeout = slices.Clone(code.Argv), slices.Clone(code.Input), code.Timeout
	} else if stdin != nil {
		r.Stdin = stdin
	}
	if r.Timeout == 0 {
		r.Timeout = c.limits.CommandTimeout
	}
	return r
}

// shortCode is how many bytes of code a refusal quotes. A longer one is told by its
// length.
const shortCode = 100

// String returns the kind and the language, and the code, or the program and its
// arguments. If these have more than 100 bytes, their number stands in their place.
func (r Request) String() string { return r.text(func(text string) string { return text }) }

// text is String with what redact returns for the code, or for the program and its
// arguments. What is quoted twice would hide a value from it.
func (r Request) text(redact func(string) string) string {
	text, size := strconv.Quote(redact(r.Code)), len(r.Code)
	if r.Kind == RequestArgv {
		argv := make([]string, len(r.Argv))
		for i, arg := range r.Argv {
			argv[i] = redact(arg)
		}
		text, size = fmt.Sprintf("%q", argv), len(fmt.Sprintf("%q", r.Argv))
	}
	if size > shortCode {
		text = fmt.Sprintf("of %d bytes", size)
	}
	what := string(r.Kind)
	if r.Language != "" {
		what = r.Language + " " + what
	}
	return what + " " + text
}

// ask waits for the caller's word on a command. The result is that of one that is
// refused.
func (c *conn) ask(ctx context.Context, cmd Command, stdin *spool.Spool) (*Result, error) {
	refused, err := c.answer(ctx, c.approve, c.request(cmd, stdin), cmd.Secrets, stdin)
	if refused == nil {
		return nil, err
	}
	image, _ := c.imageID()
	return &Result{Outcome: OutcomeRefused, ExitCode: -1, Cause: refused, Dir: c.redact(c.Dir()), OOMBefore: c.OOMKills, OOMAfter: -1,
		Engine: c.proc.Engine, ImageID: image}, nil
}

// answer waits for the caller's word on a request, and closes its stdin, which may be
// nil. It returns why what has these secrets is refused, or why there is no word.
func (c *conn) answer(
	ctx context.Context, approve func(context.Context, Request) error, r Request, secrets []Secret, stdin *spool.Spool,
) (refused, err error) {
	asked := r
	asked.Argv = slices.Clone(r.Argv)
	err = bound.Call(ctx, func() error { return approve(ctx, r) })
	stdin.Close(bound.Moment(c.limits.TerminationTimeout))
	switch {
	case c.lives() != nil:
		return nil, c.lost()
	case ctx.Err() != nil:
		return nil, fmt.Errorf("waiting for approval: %w", context.Cause(ctx))
	case err == nil:
		return nil, nil
	}
	redact := addValues(c.redactor.Values(), secrets).Redact
	return fmt.Errorf("%w: %s: %w", ErrRefused, asked.text(redact), problems.Redact(err, redact)), nil
}
