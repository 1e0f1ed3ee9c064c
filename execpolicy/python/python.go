package python

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/ours"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/scratch"
	"github.com/seed-64a260eb/cofferdam/internal/turn"
)

var (
	// ErrStart is wrapped by the error of an interpreter that did not start, or that
	// could not be replaced after its end.
	ErrStart = errors.New("the Python interpreter did not start")
	// ErrReply is wrapped by the error that comes with a result whose value or exception
	// is not known because the interpreter's reply is not valid: something inside has
	// tampered with it. The interpreter ends when the session's turn comes.
	ErrReply = errors.New("the Python interpreter's reply is not valid")
	// ErrNoRoom is wrapped by the error that comes with a result whose value or exception
	// is not known because the container has no room for it.
	ErrNoRoom = errors.New("the Python interpreter's reply could not be stored")
	// ErrClosed is returned by [Interpreter.Run] if the interpreter was closed.
	ErrClosed = errors.New("the Python interpreter is closed")
)

// Options say how an interpreter is started. The zero value starts the image's Python 3.
type Options struct {
	// Program is the name or the path of the interpreter in the container. If empty, it
	// is python3, or python if there is no python3.
	Program string
	// Dir is the directory in which the interpreter starts. If empty, it is the directory
	// where the session's shell is.
	Dir string
	// Env is set for the interpreter, on top of the session's environment. If it has a
	// TMPDIR, which must be an absolute path, the library puts its private directory
	// there and not into /tmp.
	Env map[string]string
}

// A Snippet is a piece of code that an interpreter runs.
type Snippet struct {
	// Code is the Python code. It has at most [execpolicy.MaxStdin] bytes. A comment that
	// names an encoding counts only if the code is not UTF-8.
	Code string
	// Timeout, Stdout, Stderr and OutputLimit are those of [execpolicy.Command].
	Timeout        time.Duration
	Stdout, Stderr io.Writer
	OutputLimit    int64
}

// An Exception is one that a snippet has raised and not caught.
type Exception struct {
	// Type is the name of the exception's class, such as "ValueError", and Message its
	// text.
	Type, Message string
	// Traceback is the traceback that Python would have printed, with the lines of the
	// snippets and without those of the library.
	Traceback string
}

// A Result is how a snippet ended. The embedded result of the session has its outcome,
// its output and how long it took. If the outcome is OutcomeExited, the exit code is 0,
// or 1 if there was an exception, or that of the interpreter if the interpreter has
// ended.
type Result struct {
	*execpolicy.Result
	// Value is the repr of the value of the snippet's last statement. It is empty if that
	// is not an expression, or is None. Of more than 1<<20 characters the middle is left
	// out. That is done before secrets are redacted, so that one which stands at the cut
	// shows in part.
	Value string
	// JSON is the same value as JSON. It is nil if json.dumps can't encode the value, if
	// the JSON is longer than 1<<20 bytes, if it is nested deeper than package
	// encoding/json decodes, or if a number in it is one of the session's secrets.
	JSON json.RawMessage
	// Exception is the exception that the snippet raised. It is nil if there was none, or
	// if it is not known because the interpreter has ended.
	Exception *Exception
	// StateLost says that the interpreter has ended with this snippet, or before it.
	// Variables and imports are gone. The StateLost of the embedded Result is about the
	// session's shell.
	StateLost bool
}

// An Interpreter is a Python interpreter in a session that stays: a snippet finds what
// the snippets before it left behind. Its methods are safe for concurrent use.
// Snippets run one at a time, in the order in which Run was called.
type Interpreter struct {
	session *execpolicy.Session
	options Options
	turn    turn.Turn // of whoever talks to the interpreter
	life    context.Context
	end     context.CancelCauseFunc

	dir  string // of the one that runs; if empty, none does
	name string // of the container that it is in
	lost bool   // one was lost, and no result has said so
	// untold is the result of what found that there was none to send a snippet to, as far
	// as no other result has told it; nil if there is nothing to tell.
	untold *execpolicy.Result

	once sync.Once
}

var (
	//go:embed interpreter.py
	interpreter string
	//go:embed start.sh
	startScript string
	//go:embed same.sh
	same string
	//go:embed run.sh
	runScript string
	//go:embed stop.sh
	stopScript string
)

// Start starts an interpreter in a session, within 30 s after its turn has come. An error
// wraps [execpolicy.ErrInvalid] if the options are invalid. Any other error wraps
// ErrStart, along with the error of [execpolicy.Session.Run] or the cause:
// [execpolicy.ErrTimeout] after the 30 s, for example. Then nothing of the interpreter is
// left or, if other commands of the session go first, nothing will be after them.
func Start(ctx context.Context, s *execpolicy.Session, o Options) (*Interpreter, error) {
	_, badDir := scratch.Dir(o.Env)
	var badProgram error
	if strings.HasPrefix(o.Program, "-") {
		badProgram = fmt.Errorf("%q is not the name of a program", o.Program)
	}
	if err := problems.Join(badProgram, badDir); err != nil {
		return nil, err
	}
	p := &Interpreter{session: s, options: o, turn: turn.New(1)}
	p.life, p.end = context.WithCancelCause(context.Background())
	if err := p.start(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// start starts an interpreter for the holder of the turn.
func (p *Interpreter) start(ctx context.Context) error {
	var err error
	if p.dir, err = scratch.Dir(p.options.Env); err != nil {
		return err
	}
	p.name = p.session.Name()
	programs := []string{"python3", "python"}
	if p.options.Program != "" {
		programs = []string{p.options.Program}
	}
	r, err := p.session.Run(ours.WithCode(ours.SkipHooks(ctx), ours.Code{In: p.name}), execpolicy.Command{
		Argv: slices.Concat([]string{"sh", "-c", startScript, "sh", p.dir, interpreter, same + runScript}, programs),
		Dir:  p.options.Dir, Env: p.options.Env, Timeout: scratch.Timeout,
	})
	switch {
	case err == nil && r.Outcome == execpolicy.OutcomeExited && r.ExitCode == 0:
		return nil
	case errors.Is(err, ours.ErrElsewhere):
		return p.start(ctx)
	case r != nil:
		p.stop(ctx)
	default:
		p.dir = ""
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrStart, err)
	case r.Cause != nil:
		return fmt.Errorf("%w: %w", ErrStart, r.Cause)
	case r.Outcome == execpolicy.OutcomeExited && r.ExitCode == 127:
		return fmt.Errorf("%w: %s is not in the container", ErrStart, strings.Join(programs, " or "))
	}
	return fmt.Errorf("%w: %q", ErrStart, r.Render(execpolicy.RenderOptions{}))
}

// Run runs a snippet, after those that came before it, and returns when it has ended, as
// [execpolicy.Session.Run] does.
//
// A snippet that raises an exception is a result, not an error. That is so for every
// exception: sys.exit does not end the interpreter.
//
// At its deadline, or when it is canceled, a snippet gets a KeyboardInterrupt, and the
// processes that it has started get a SIGTERM. If the snippet ends before the next step
// of the escalation, for which [execpolicy.EscalationKill] tells the time, the
// interpreter keeps its state. If it does not, or if the interpreter ends in any other
// way, StateLost is set in the result, and the next snippet runs in a new interpreter. So
// does the first snippet after [execpolicy.Session.Restart].
//
// [execpolicy.Spec.Approve] is asked once about each snippet. A snippet that it refuses
// is a result too, and does not change the interpreter.
//
// An error without a result says that the snippet did not run. It wraps ErrClosed,
// ErrStart if another interpreter could not be started, the cause of ctx,
// [execpolicy.ErrStdinTooLong] for a Code that is too long, or another error that
// [execpolicy.Session.Run] returns without a result. An error with a result is that of
// Session.Run, with the same meaning, or says why the value or the exception is not
// known: it wraps ErrReply, ErrNoRoom or the error of [execpolicy.Session.ReadFile].
func (p *Interpreter) Run(ctx context.Context, snippet Snippet) (*Result, error) {
	if len(snippet.Code) > execpolicy.MaxStdin {
		return nil, fmt.Errorf("%w: more than %d bytes", execpolicy.ErrStdinTooLong, execpolicy.MaxStdin)
	}
	if err := context.Cause(p.life); err != nil {
		return nil, err // AfterFunc may be late
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.life, func() { cancel(ErrClosed) })()
	if err := p.turn.TakeOf(ctx, "interpreter"); err != nil {
		return nil, err
	}
	defer p.turn.Give()
	for missed := false; ; {
		if p.dir == "" {
			if err := p.start(ctx); err != nil {
				return nil, err
			}
		}
		r, err := p.run(ctx, snippet, missed)
		if errors.Is(err, ours.ErrElsewhere) {
			p.dir, p.lost = "", true // it ended with its container
			continue
		}
		if r != nil && p.untold != nil && r.Outcome != execpolicy.OutcomeRefused {
			r.Result.StateLost = r.Result.StateLost || p.untold.StateLost
			r.BackgroundBytes += p.untold.BackgroundBytes
			p.untold = nil
		}
		if err != errMissed {
			return r, err
		}
		p.untold = r.Result
		if missed {
			return nil, fmt.Errorf("%w: %w twice", ErrStart, errMissed)
		}
		missed = true
	}
}

// errMissed says that a snippet was not sent, because the interpreter had ended before.
var errMissed = errors.New("it had ended before it got the snippet")

// run runs a snippet, which may have been approved before, for the holder of the turn.
// With errMissed comes a result of what has not run it.
func (p *Interpreter) run(ctx context.Context, snippet Snippet, approved bool) (*Result, error) {
	// A shell reads it a byte at a time. Of 65 bits nobody guesses one in time.
	tag := rand.Text()[:13]
	var reply []byte
	sent := false
	heard := func(text string) {
		if text == "" {
			sent = true
		} else {
			reply = []byte(text)
		}
	}
	asked := ours.WithCode(ctx, ours.Code{
		Kind: string(execpolicy.RequestSnippet), Language: "python", Text: snippet.Code, Timeout: snippet.Timeout,
		In: p.name, Approved: approved, Fork: true, Tag: tag, Reply: heard,
	})
	argv := []string{p.dir + "/run", p.dir, tag, strconv.Itoa(len(snippet.Code))}
	var stdin io.Reader
	if len(snippet.Code) <= maxWord && !strings.Contains(snippet.Code, "\x00") {
		argv = append(argv, snippet.Code)
	} else {
		stdin = strings.NewReader(snippet.Code)
	}
	res, err := p.session.Run(asked, execpolicy.Command{
		Argv: argv, Stdin: stdin,
		Timeout: snippet.Timeout, Stdout: snippet.Stdout, Stderr: snippet.Stderr, OutputLimit: snippet.OutputLimit,
	})
	if res == nil {
		return nil, err
	}
	if res.Outcome == execpolicy.OutcomeRefused {
		// The interpreter has heard nothing of it, and what it has said is of another.
		return &Result{Result: res}, err
	}
	r := &Result{Result: res, StateLost: p.lost}
	if res.Escalation > execpolicy.EscalationTerm || res.Outcome == execpolicy.OutcomeSessionLost {
		// It did not obey, or is gone with what else there was.
		p.discard(ctx)
		r.StateLost, p.lost = true, false
		return r, err
	}
	var problem error
	if reply != nil {
		problem = p.take(r, reply, "")
	} else {
		problem = p.stored(ctx, r, tag)
	}
	switch {
	case errors.Is(problem, fs.ErrNotExist):
		missed := !sent && res.Cause == nil && err == nil && p.missed(ctx)
		p.discard(ctx)
		if missed {
			return r, errMissed
		}
		problem = nil
	case errors.Is(problem, ErrReply):
		p.discard(ctx)
	case errors.Is(problem, execpolicy.ErrEnded):
		// The container has ended with the snippet, which err says if it counts.
		p.discard(ctx)
		problem = nil
	case res.Cause != nil:
		// What matters is known: it was ended, and its interpreter was not.
		problem = nil
	}
	r.StateLost = r.StateLost || p.lost
	p.lost = false
	return r, errors.Join(err, problem)
}

const (
	// maxWord bounds the code that goes as a word of a command. A longer one goes by
	// stdin, for which a file has to be made.
	maxWord = 8 << 10
	// maxText bounds each text of a reply, in characters, with a mark for what was left
	// out, and the JSON in bytes.
	maxText = 1 << 20
	// maxReply bounds a reply: three texts of 1<<20 characters, of up to 12 bytes each.
	maxReply = 40 << 20
	// replyWait is how long other commands of the session are waited for by what has used
	// up its own time.
	replyWait = time.Second
)

// stored fills in what the interpreter has stored of the snippet with that tag. If that
// is nothing, the error matches fs.ErrNotExist.
func (p *Interpreter) stored(ctx context.Context, r *Result, tag string) error {
	if r.Cause != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), replyWait)
		defer cancel()
	}
	data, err := p.session.ReadFile(ctx, p.dir+"/reply", maxReply)
	var errno syscall.Errno // what else stands in its place
	switch {
	case err == nil:
		return p.take(r, data, tag)
	case errors.Is(err, execpolicy.ErrNotRegular), errors.Is(err, execpolicy.ErrTooLarge),
		errors.As(err, &errno) && errno != syscall.ENOENT:
		return fmt.Errorf("%w: %w", ErrReply, err)
	}
	return fmt.Errorf("reading the interpreter's reply: %w", err)
}

// take fills in what the interpreter has said, which must bear that tag.
func (p *Interpreter) take(r *Result, data []byte, tag string) error {
	if err := r.decode(data, tag); err != nil {
		return problems.Redact(err, p.session.Redact)
	}
	for _, text := range r.texts() {
		*text = p.session.Redact(*text)
	}
	if r.JSON = json.RawMessage(p.session.Redact(string(r.JSON))); !json.Valid(r.JSON) {
		r.JSON = nil // there was none, or a secret stands in it as a number
	}
	return nil
}

// texts returns what the interpreter has said, but for JSON.
func (r *Result) texts() []*string {
	texts := []*string{&r.Value}
	if e := r.Exception; e != nil {
		texts = append(texts, &e.Type, &e.Message, &e.Traceback)
	}
	return texts
}

// missed reports whether what runs snippets has said that the interpreter had ended.
func (p *Interpreter) missed(ctx context.Context) bool {
	_, err := p.session.ReadFile(ctx, p.dir+"/missed", 1)
	return err == nil
}

// decode is take without the secrets redacted.
func (r *Result) decode(data []byte, tag string) error {
	var reply struct {
		Tag, Value, JSON, Problem string
		Exception                 *Exception
	}
	if err := json.Unmarshal(data, &reply); err != nil {
		return fmt.Errorf("%w: %w", ErrReply, err)
	}
	if reply.Tag != tag {
		return fs.ErrNotExist // it is about a snippet before
	}
	var value json.RawMessage
	if reply.JSON != "" {
		// Python's encoder may go deeper than Go's decoder.
		err := json.Unmarshal([]byte(reply.JSON), &value)
		if err != nil && !strings.Contains(err.Error(), "exceeded max depth") {
			return fmt.Errorf("%w: it holds something that is not JSON", ErrReply)
		}
	}
	if reply.Problem != "" {
		return fmt.Errorf("%w: %.1000q", ErrNoRoom, reply.Problem)
	}
	texts := (&Result{Value: reply.Value, Exception: reply.Exception}).texts()
	long := func(text *string) bool { return utf8.RuneCountInString(*text) > maxText+len("\n...\n") }
	if len(reply.JSON) > maxText || slices.ContainsFunc(texts, long) {
		return fmt.Errorf("%w: it is longer than an interpreter makes it", ErrReply)
	}
	r.Value, r.JSON, r.Exception = reply.Value, value, reply.Exception
	return nil
}

// discard ends an interpreter whose state a result has to call lost.
func (p *Interpreter) discard(ctx context.Context) {
	p.lost = true
	p.stop(ctx)
}

// stop ends the interpreter, at the latest with its session, and waits for that for a
// while: a snippet has used up its own time, and other commands may take theirs.
func (p *Interpreter) stop(ctx context.Context) {
	dir := p.dir
	p.dir = ""
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replyWait)
	defer cancel()
	scratch.Clean(ctx, p.session, "sh", "-c", same+stopScript, "sh", dir)
}

// Close ends the interpreter. If a snippet runs, it ends with the outcome
// OutcomeCanceled. Processes that snippets have left in the background go on in the
// session. Close returns nil, at the latest a second after the snippet has ended. If the
// session is busy then, the interpreter ends when the session's turn comes. When a
// session is closed, its interpreters end with it.
func (p *Interpreter) Close() error {
	p.once.Do(func() {
		p.end(ErrClosed)
		p.turn.Take(context.Background())
		defer p.turn.Give()
		if p.dir != "" {
			p.discard(context.Background())
		}
	})
	return nil
}
