package codeblock

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/ours"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/scratch"
)

var (
	// ErrNoResult is wrapped by the error of a [Call] whose program exited with 0 and
	// left no result, and by that of a [CallAs] whose program failed.
	ErrNoResult = errors.New("no result")
	// ErrBadResult is wrapped by the error of a [Call] whose program left a result that
	// is not JSON, and by that of a [CallAs] whose result does not fit the type.
	ErrBadResult = errors.New("bad result")
)

// DefaultResultLimit is how many bytes of JSON a result may have if [Options.ResultLimit]
// is zero.
const DefaultResultLimit = 64 << 20

// A Return is what a [Call] returns. The embedded result of the session has the outcome
// of the program, its output and how long it took.
type Return struct {
	*execpolicy.Result
	// Language is the name of the language in the table, and Program the language's
	// program that was found in the container.
	Language, Program string
	// Value is the code's result, valid JSON in UTF-8. It is nil if the program did not
	// exit with 0.
	Value json.RawMessage
}

// Call runs the code of a block as a program, with an input value, and returns its result
// value. Both are JSON, and neither is on stdin, stdout or in an argument list: whatever
// the program prints is output and nothing else. The input is what [json.Marshal] makes
// of it. A [json.RawMessage] is sent as that value, without its spaces.
//
// In Python and JavaScript, whichever program runs them, the variable INPUT_DATA holds
// the input. The result is what the variable result of the main module or script holds
// when the program comes to its end or exits with 0. Code of any other language finds the
// names of two files in the environment: it reads the input from COFFERDAM_INPUT and
// writes the result to COFFERDAM_RESULT. Call ignores a comment with a filename. In
// Python, a comment that names an encoding counts only if the code is not UTF-8.
//
// A program that fails is a [Return], not an error, as with [execpolicy.Session.Run], and
// so is a call that [execpolicy.Spec.Approve] refuses. There is a Value only if the
// program exited with 0.
//
// An error with a Return says why there is no Value although the program exited with 0,
// or is that of [execpolicy.Session.Run]. In the first case it wraps one of these:
//
//   - ErrNoResult, if the program left no result.
//   - ErrBadResult, if the result is not JSON. The error says why: the value is a set or
//     NaN, for example, or is nested deeper than 10,000 (in some versions of Python,
//     1,000).
//   - [execpolicy.ErrTooLarge], if the result is larger than [Options.ResultLimit].
//   - The error of [execpolicy.Session.ReadFile].
//
// An error without a Return says that the program was not run. It wraps
// [execpolicy.ErrInvalid], ErrLanguage or ErrProgram, is that of [execpolicy.Session.Run]
// or [execpolicy.Session.WriteFile], or says why the library could not prepare the call.
//
// Input and result lie in a new directory of the container's /tmp, or of what
// [Options.Env] has as TMPDIR, that only the container's user may enter. The directory is
// removed when Call returns or, if ctx has ended by then, when the session's turn comes.
// The /tmp of the zero DockerPolicy has room for an input and a result of about 60 MB
// each, because Python and JavaScript remove the input as they begin. Both the files and
// the memory that the program uses for the values count against the limit of memory, and
// many small values use several times their size.
func Call(ctx context.Context, s *execpolicy.Session, b Block, input any, o Options) (*Return, error) {
	c, err := o.prepareCall(b, input)
	if err != nil {
		return nil, problems.Redact(err, s.Redact)
	}
	program, err := o.find(ctx, s, c.name, c.lang)
	if err != nil {
		return nil, err
	}
	defer scratch.Clean(ctx, s, "rm", "-rf", c.dir)
	if r, err := o.prepare(ours.SkipHooks(ctx), s, `umask 77; mkdir "$1"`, []string{c.dir}, ""); err != nil {
		return nil, err
	} else if r.ExitCode != 0 {
		return nil, fmt.Errorf("preparing the call: %s can't be made: %s", c.dir, blankControls(r.Stderr))
	}
	if err := s.WriteFile(ctx, c.dir+"/input", c.input, 0o600); err != nil {
		return nil, fmt.Errorf("sending the input: %w", err)
	}
	code := ours.Code{
		Kind: string(execpolicy.RequestCall), Language: c.name, Text: b.Code, Argv: c.argv(program), Input: c.input, Timeout: o.Timeout,
	}
	result, err := s.Run(ours.WithCode(ctx, code), o.command(c, program, b.Code))
	if result == nil {
		return nil, err
	}
	ret := &Return{Result: result, Language: c.name, Program: program}
	if err == nil && result.Outcome == execpolicy.OutcomeExited && result.ExitCode == 0 {
		ret.Value, err = o.collect(ctx, s, c.dir)
	}
	return ret, err
}

// CallAs is [Call] with a result that [json.Unmarshal] decodes into a T. If a program
// fails, CallAs also returns an error, which wraps ErrNoResult, along with the Return. So
// without an error there is a result.
func CallAs[T any](ctx context.Context, s *execpolicy.Session, b Block, input any, o Options) (T, *Return, error) {
	var value T
	r, err := Call(ctx, s, b, input, o)
	switch {
	case err != nil:
	case r.Value == nil && r.Outcome == execpolicy.OutcomeExited:
		err = fmt.Errorf("%w: the program exited with %d", ErrNoResult, r.ExitCode)
	case r.Value == nil:
		err = fmt.Errorf("%w: the program's outcome: %v", ErrNoResult, r.Outcome)
	default:
		if decodeErr := json.Unmarshal(r.Value, &value); decodeErr != nil {
			err = fmt.Errorf("%w: %w", ErrBadResult, decodeErr)
		}
	}
	return value, r, err
}

// A call is one that was found to be in order.
type call struct {
	name  string
	lang  Language
	dir   string
	input []byte
}

func (o Options) prepareCall(b Block, input any) (c call, err error) {
	var badInput, badDir error
	if c.input, badInput = json.Marshal(input); badInput != nil {
		badInput = fmt.Errorf("the input: %w", badInput)
	} else if !utf8.Valid(c.input) {
		badInput = errors.New("the input is not UTF-8")
	}
	c.dir, badDir = scratch.Dir(o.Env)
	errs := []error{problems.Join(o.validate(), badInput, badDir)}
	if c.name, c.lang, err = o.language(b); err != nil {
		errs = append(errs, err)
	} else if len(c.lang.Programs) == 0 {
		errs = append(errs, fmt.Errorf("%w: %s can only be stored", ErrProgram, c.name))
	}
	return c, errors.Join(errs...)
}

var (
	//go:embed call.py
	pythonCaller string
	//go:embed call.js
	javascriptCaller string
)

// command returns what runs the code, which it reads from its stdin.
func (o Options) command(c call, program, code string) execpolicy.Command {
	cmd := execpolicy.Command{
		Stdin: strings.NewReader(code),
		Dir:   o.Dir, Env: o.Env, Stdout: o.Stdout, Stderr: o.Stderr, Timeout: o.Timeout, OutputLimit: o.OutputLimit,
	}
	switch canonical(c.name) {
	case "python":
		cmd.Argv = []string{program, unbuffered, "-c", pythonCaller, c.dir}
	case "javascript":
		cmd.Argv = []string{program, "-e", javascriptCaller, c.dir}
	default:
		cmd.Argv = c.lang.reader(program)
		cmd.Env = map[string]string{}
		maps.Copy(cmd.Env, o.Env)
		cmd.Env["COFFERDAM_INPUT"], cmd.Env["COFFERDAM_RESULT"] = c.dir+"/input", c.dir+"/result"
	}
	return cmd
}

// argv returns the program and the arguments that its language has for it. Callers are
// the library's own.
func (c call) argv(program string) []string {
	switch canonical(c.name) {
	case "python", "javascript":
		return []string{program}
	}
	return c.lang.argv(program, "")
}

// collect returns the result that a program has left.
func (o Options) collect(ctx context.Context, s *execpolicy.Session, dir string) (json.RawMessage, error) {
	limit := o.ResultLimit
	if limit == 0 {
		limit = DefaultResultLimit
	}
	data, err := s.ReadFile(ctx, dir+"/result", limit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		why, err := s.ReadFile(ctx, dir+"/why", maxWhy)
		switch {
		case err == nil:
			return nil, fmt.Errorf("%w: %s", ErrBadResult, blankControls([]byte(s.Redact(string(why)))))
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%w: the program exited with 0 and left none", ErrNoResult)
		}
		return nil, fmt.Errorf("reading why there is no result: %w", err)
	case errors.Is(err, execpolicy.ErrNotRegular), errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w: %w", ErrBadResult, err)
	case err != nil:
		return nil, fmt.Errorf("reading the result: %w", err)
	}
	value, err := checkResult(data)
	if err != nil {
		return nil, err
	}
	if shown := s.Redact(string(value)); shown != string(value) {
		if value, err = checkResult([]byte(shown)); err != nil {
			return nil, fmt.Errorf("%w: it contains a secret that is not within a text", ErrBadResult)
		}
	}
	return value, nil
}

// maxWhy bounds the reason for which there is no result: callers write at most 1000
// characters.
const maxWhy = 8 << 10

// checkResult returns a result if it is JSON.
func checkResult(data []byte) (json.RawMessage, error) {
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("%w: it is not UTF-8", ErrBadResult)
	}
	var value json.RawMessage
	if err := json.Unmarshal(data, &value); err != nil {
		return nil, fmt.Errorf("%w: it is not JSON: %w", ErrBadResult, err)
	}
	return value, nil
}

// blankControls returns what a program said, as part of an error.
func blankControls(said []byte) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.TrimSpace(string(said)))
}
