package codeblock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/ours"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/scratch"
)

var (
	// ErrLanguage is wrapped by the error of a block whose language is not in the table.
	// The block was not run.
	ErrLanguage = errors.New("unknown language")
	// ErrProgram is wrapped by the error of a block whose language has no program in the
	// container. The block was not run.
	ErrProgram = errors.New("no program for the language")
	// ErrFilename is wrapped by the error of a block that names a file which can't be
	// stored, or must not be. The block was neither stored nor run.
	ErrFilename = errors.New("filename refused")
)

// Options say how blocks are run. The zero value runs blocks of the built-in languages.
type Options struct {
	// Languages are added to the built-in ones by their names in lower case, and replace
	// those of the same name. "py" and "python3.12" mean "python", "shell" means "sh",
	// "js" and "node" mean "javascript", unless Languages has these names.
	Languages map[string]Language
	// Default is the language of blocks that name none. The table must have it. If empty,
	// such a block fails with ErrLanguage.
	Default string
	// Timeout is how long each block may run. If zero, it is
	// [execpolicy.Limits.CommandTimeout]; if negative, there is no limit. Looking for the
	// program and storing the file may take 30 s each on top; for a call, so may each
	// step of preparing it, of reading its result and of removing its directory.
	Timeout time.Duration
	// Dir is the directory where the blocks run and their files are stored. If empty, it
	// is the directory where the session's shell is.
	Dir string
	// Env is set for the blocks only, on top of the session's.
	Env map[string]string
	// Stdout and Stderr take the whole streams of the blocks as they come. If nil, only
	// the results have them.
	Stdout, Stderr io.Writer
	// OutputLimit is that of [execpolicy.Command], for each block.
	OutputLimit int64
	// ResultLimit is how many bytes of JSON the result of a [Call] may have. If zero, it
	// is [DefaultResultLimit]. It must not be negative. [Run] ignores it.
	ResultLimit int64
}

// A Step is what became of one block.
type Step struct {
	Block Block
	// Language is the name of the language in the table. It is empty if the table does
	// not have it.
	Language string
	// Program is the language's program that was found in the container.
	Program string
	// File is the name under which the code was stored, relative to [Options.Dir]. It is
	// empty if the code was not stored.
	File string
	// Result is how the program ended. If [execpolicy.Spec.Approve] refused the block,
	// its outcome is OutcomeRefused, and the block was neither stored nor run. Result is
	// nil if no program was run for another reason.
	Result *execpolicy.Result
	// Err is why no program was run, or the error of [execpolicy.Session.Run] with the
	// result. If the block is at fault, it wraps ErrLanguage, ErrProgram, ErrFilename, or
	// [execpolicy.ErrStdinTooLong] for code of more than [execpolicy.MaxStdin] bytes.
	Err error
}

// OK reports whether the block's program exited with 0 or, if its language has no
// program, whether the block was stored.
func (s *Step) OK() bool {
	if s.Err != nil {
		return false
	}
	return s.Result == nil || s.Result.Outcome == execpolicy.OutcomeExited && s.Result.ExitCode == 0
}

// A Report has a [Step] for each block, up to the first that failed.
type Report struct {
	Steps []Step
}

// ExitCode returns the exit code of the last step: 0 if all went well, 1 if the block
// could not be run or its program exited with 0 and there is an error, -1 if its program
// did not exit by itself or was refused.
func (r *Report) ExitCode() int {
	if len(r.Steps) == 0 {
		return 0
	}
	switch last := &r.Steps[len(r.Steps)-1]; {
	case last.Result != nil && (last.Err == nil || last.Result.ExitCode != 0):
		return last.Result.ExitCode
	case last.Err != nil:
		return 1
	}
	return 0
}

// Output returns what the blocks printed as UTF-8, one block after another with nothing
// in between, and of each block stdout before stderr. Where output was dropped, a line
// says so. If a block could not be run, did not end by itself, or printed what the filter
// blocked, a line says why.
func (r *Report) Output() string {
	var b strings.Builder
	say := func(format string, args ...any) {
		if text := b.String(); text != "" && !strings.HasSuffix(text, "\n") {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, format+"\n", args...)
	}
	stream := func(kept []byte, info execpolicy.StreamInfo) {
		b.Write(kept[:info.Cut])
		if info.DroppedBytes > 0 {
			say("... %d bytes (%d lines) dropped ...", info.DroppedBytes, info.DroppedLines)
		}
		b.Write(kept[info.Cut:])
	}
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Result == nil {
			if s.Err != nil {
				say("Error: %v", s.Err)
			} else {
				say("Code saved to %s", s.File)
			}
			continue
		}
		stream(s.Result.Stdout, s.Result.StdoutInfo)
		stream(s.Result.Stderr, s.Result.StderrInfo)
		if errors.Is(s.Err, execpolicy.ErrBlocked) {
			say("Error: %v", s.Err)
		}
		switch s.Result.Outcome {
		case execpolicy.OutcomeExited:
		case execpolicy.OutcomeTimedOut:
			say("Timeout: the code was ended after %.1f seconds.", s.Result.Timeout.Seconds())
		case execpolicy.OutcomeRefused:
			say("Error: %v", s.Result.Cause)
		case execpolicy.OutcomeCanceled:
			say("Code execution was cancelled.")
		default:
			say("The code was ended: %v.", s.Result.Outcome)
		}
	}
	return strings.ToValidUTF8(b.String(), "\ufffd")
}

// Run runs blocks in a session, one after another, each as a program of its own. It stops
// at the first that fails: one whose program does not exit with 0, or that can't be run.
//
// What another goroutine runs in the session may come between two blocks, and between the
// storing of a block's file and the block. If it changes the shell's directory there, the
// block is looked for in the new one, unless [Options.Dir] is absolute.
//
// What is wrong with a block, and how its program ended, is in its [Step] and is not an
// error of Run. Run returns an error in these cases:
//
//   - There are no blocks, or the options are invalid. The error wraps
//     [execpolicy.ErrInvalid], and there is no report.
//   - [execpolicy.Session.Run] has returned an error for the last step of the report. It
//     is that error, with the same meaning.
//   - The library could not look for the program of the last step, or store its file:
//     that took more than 30 s, and the error wraps [execpolicy.ErrTimeout]; or it was
//     killed, and the error names the outcome.
func Run(ctx context.Context, s *execpolicy.Session, blocks []Block, o Options) (*Report, error) {
	var none error
	if len(blocks) == 0 {
		none = errors.New("no code blocks to execute")
	}
	if err := problems.Join(none, o.validate()); err != nil {
		return nil, err
	}
	r := &Report{}
	for _, b := range blocks {
		step := Step{Block: b}
		// A block's own text may have a secret in it.
		step.Err = problems.Redact(o.run(ctx, s, &step), s.Redact)
		r.Steps = append(r.Steps, step)
		if step.Err != nil && !step.atFault() {
			return r, step.Err
		}
		if !step.OK() {
			break
		}
	}
	return r, nil
}

// atFault reports whether it is the block that its error blames.
func (s *Step) atFault() bool {
	for _, err := range []error{ErrLanguage, ErrProgram, ErrFilename, execpolicy.ErrStdinTooLong} {
		if errors.Is(s.Err, err) {
			return true
		}
	}
	return false
}

// run runs the block of a step and fills in the rest.
func (o Options) run(ctx context.Context, s *execpolicy.Session, step *Step) error {
	name, lang, err := o.language(step.Block)
	if err != nil {
		return err
	}
	step.Language = name
	file, named := step.Block.Filename()
	if named {
		if file, err = checkFilename(file); err != nil {
			return err
		}
	} else if len(lang.Programs) == 0 {
		return fmt.Errorf("%w: the block names none, and %s can only be stored", ErrFilename, name)
	}
	if len(lang.Programs) > 0 {
		if step.Program, err = o.find(ctx, s, name, lang); err != nil {
			return err
		}
	}
	code := ours.Code{
		Kind: string(execpolicy.RequestBlock), Language: name, Text: step.Block.Code, Path: file, Timeout: o.Timeout,
	}
	if len(lang.Programs) > 0 {
		code.Argv = lang.argv(step.Program, file)
	}
	c := execpolicy.Command{
		Dir: o.Dir, Env: o.Env, Stdout: o.Stdout, Stderr: o.Stderr, Timeout: o.Timeout, OutputLimit: o.OutputLimit,
	}
	if !named {
		c.Argv = lang.reader(step.Program)
		c.Stdin = strings.NewReader(step.Block.Code)
		step.Result, err = s.Run(ours.WithCode(ctx, code), c)
		return err
	}
	if step.Result, err = o.store(ours.WithCode(ctx, code), s, file, step.Block.Code); err != nil || step.Result != nil {
		return err
	}
	step.File = file
	if len(lang.Programs) == 0 {
		return nil
	}
	code.Approved = true
	c.Argv = code.Argv
	step.Result, err = s.Run(ours.WithCode(ctx, code), c)
	return err
}

// argv returns the program that runs code, or the file, if it has a name, and its
// arguments.
func (l Language) argv(program, file string) []string {
	switch {
	case file != "":
		return slices.Concat([]string{program}, l.Args, []string{"./" + file})
	case l.Extension != "":
		return slices.Concat([]string{program}, l.Args)
	}
	return l.reader(program)
}

// reader returns the command that runs the code which it reads from its stdin.
func (l Language) reader(program string) []string {
	switch {
	case l.Extension != "":
		return slices.Concat([]string{"sh", "-c", alone, "sh", l.Extension, program}, l.Args)
	case len(l.Stdin) > 0:
		return slices.Concat([]string{program}, l.Stdin)
	}
	return []string{program, "-"}
}

// lookup exits with the number of the first argument that is a program.
const lookup = `n=0
for p; do
	command -v "$p" >/dev/null 2>&1 && exit $n
	n=$((n + 1))
done
exit 127`

// find returns the program that runs a language.
func (o Options) find(ctx context.Context, s *execpolicy.Session, name string, l Language) (string, error) {
	r, err := o.prepare(ours.SkipHooks(ctx), s, lookup, l.Programs, "")
	switch {
	case err != nil:
		return "", err
	case r.ExitCode < len(l.Programs):
		return l.Programs[r.ExitCode], nil
	}
	return "", fmt.Errorf("%w: %s needs %s, which is not in the container", ErrProgram, name, strings.Join(l.Programs, " or "))
}

// put stores its stdin under a name of which the arguments are the parts. It goes down
// from the directory that it is in a step at a time, and looks where it has come to
// before it makes anything, so that no link leads it out. It writes to a file that it has
// made itself, so that none that was put there in its place, a fifo or a link, gets the
// code, and nothing half of it.
const put = `cd -P . || exit
base=${PWD%/}
while [ $# -gt 1 ]; do
	[ -d "./$1" ] || mkdir "./$1" || exit
	cd -P "./$1" || exit
	case $PWD/ in
	"$base"/*) ;;
	*) exit 103 ;;
	esac
	shift
done
[ ! -h "./$1" ] || exit 104
[ ! -e "./$1" ] || [ -f "./$1" ] || exit 105
new=$(mktemp ./.cofferdam.XXXXXX) || exit
trap 'rm -f "$new"; exit 1' TERM
cat >"$new" && chmod 644 "$new" && mv -f "$new" "./$1" || { rm -f "$new"; exit 1; }`

// store stores code under a name that was checked. It returns a result if that was
// refused.
func (o Options) store(ctx context.Context, s *execpolicy.Session, name, code string) (*execpolicy.Result, error) {
	r, err := o.prepare(ours.Unseen(ctx), s, put, strings.Split(name, "/"), code)
	if err != nil {
		return nil, err
	}
	if r.Outcome == execpolicy.OutcomeRefused {
		return r, nil
	}
	switch r.ExitCode {
	case 0:
		return nil, nil
	case 103:
		return nil, fmt.Errorf("%w: %q is not in the workspace: a link leads out of it", ErrFilename, name)
	case 104:
		return nil, fmt.Errorf("%w: %q is a link", ErrFilename, name)
	case 105:
		return nil, fmt.Errorf("%w: %q exists and is not a regular file", ErrFilename, name)
	}
	return nil, fmt.Errorf("%w: %q can't be stored: %s", ErrFilename, name, strings.TrimSpace(string(r.Stderr)))
}

// alone runs a program, its second argument, on a new file that holds its stdin and whose
// name ends with the first.
const alone = `dir=$(mktemp -d) || exit
file=$dir/main$1
shift
trap : TERM
cat >"$file" && "$@" "$file"
status=$?
rm -rf "$dir"
exit $status`

// prepare runs a script of ours to its end, unless it is refused.
func (o Options) prepare(
	ctx context.Context, s *execpolicy.Session, script string, args []string, stdin string,
) (*execpolicy.Result, error) {
	r, err := s.Run(ctx, execpolicy.Command{
		Argv: slices.Concat([]string{"sh", "-c", script, "sh"}, args), Dir: o.Dir, Env: o.Env,
		Stdin: strings.NewReader(stdin), Timeout: scratch.Timeout,
	})
	switch {
	case err != nil:
		return nil, err
	case r.Outcome == execpolicy.OutcomeRefused:
		return r, nil
	case r.Cause != nil:
		return nil, fmt.Errorf("preparing the block: %w", r.Cause)
	case r.Outcome != execpolicy.OutcomeExited:
		return nil, fmt.Errorf("preparing the block: %v", r.Outcome)
	}
	return r, nil
}
