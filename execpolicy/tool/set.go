package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/python"
	"github.com/seed-64a260eb/cofferdam/execpolicy/workspace"
	"github.com/seed-64a260eb/cofferdam/internal/render"
	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/internal/turn"
	"github.com/seed-64a260eb/cofferdam/truncate"
)

// Options are the options of [Start].
type Options struct {
	// Render bounds the text of each reply. KeepEscapes is for what commands print: a
	// file is always read as it is.
	Render execpolicy.RenderOptions
	// Python says how the interpreter is started, which happens with the first snippet.
	Python python.Options
	// Workspace says how the session gets its Spec.Workspace. If the spec has none, only
	// Take of it counts.
	Workspace workspace.Options
}

// A Set is tools that share a session. Its methods, and the tools, may be called at the
// same time. Calls that use the session take turns.
type Set struct {
	// Tools are what a model may call. The caller may take some away, and add others,
	// before the set is used.
	Tools []Tool
	// Session is the session that the tools work in. The caller may use it too.
	Session *workspace.Session

	options Options
	// ask and filter are Spec.Approve and Spec.Filter. The whole spec, with the values of
	// secrets, would be printed by fmt.
	ask    func(context.Context, execpolicy.Request) error
	filter func(io.Writer) io.WriteCloser
	python *python.Interpreter // nil until it is called; with interpreting
	// interpreting is the turn of whoever starts the interpreter, and changing of whoever
	// changes a file.
	interpreting, changing turn.Turn
	jobs                   jobs
}

// Start opens a session and returns the tools over it. ctx bounds the start only. Errors
// are those of [execpolicy.Start], or those of [workspace.Start] if the spec has a
// Workspace.
func Start(ctx context.Context, p execpolicy.Policy, spec execpolicy.Spec, o Options) (*Set, error) {
	// The tools call it on goroutines of their own, beside the session.
	spec.Filter = shell.Filter(spec.Filter).InTurn()
	session, err := open(ctx, p, spec, o.Workspace)
	if err != nil {
		return nil, err
	}
	s := &Set{Session: session, options: o, ask: spec.Approve, filter: spec.Filter,
		interpreting: turn.New(1), changing: turn.New(1)}
	s.Tools = s.tools()
	return s, nil
}

// Declarations returns the tools that a Set has at first, without their Call: for those
// who have to declare them before there is a session.
func Declarations() []Tool {
	tools := new(Set).tools()
	for i := range tools {
		tools[i].Call = nil
	}
	return tools
}

func (s *Set) tools() []Tool {
	return []Tool{
		s.tool("shell", shellAbout, shellForm, s.shell),
		s.tool("python", pythonAbout, pythonForm, s.snippet),
		s.tool("read", readAbout, readForm, s.read),
		s.tool("write", writeAbout, writeForm, s.write),
		s.tool("edit", editAbout, editForm, s.edit),
		s.tool("list", listAbout, listForm, s.list),
		s.tool("job", jobAbout, jobForm, s.job),
	}
}

func open(ctx context.Context, p execpolicy.Policy, spec execpolicy.Spec, o workspace.Options) (*workspace.Session, error) {
	if spec.Workspace != "" {
		return workspace.Start(ctx, p, spec, o)
	}
	start := o.Take
	if start == nil {
		start = func(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Session, error) {
			return execpolicy.Start(ctx, p, spec)
		}
	}
	s, err := start(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &workspace.Session{Session: s}, nil
}

// Close closes the interpreter, as [python.Interpreter] says, and then the session, as
// [workspace.Session] does, and with it whatever else runs.
func (s *Set) Close() error {
	// Its directory may be this machine's, and then the session's end leaves it there.
	if s.interpreting.TryTake() {
		p := s.python
		s.interpreting.Give()
		if p != nil {
			p.Close()
		}
	}
	return s.Session.Close()
}

// Call calls the tool of that name. If there is none, the reply says so.
func (s *Set) Call(ctx context.Context, name string, input json.RawMessage) (Reply, error) {
	i := slices.IndexFunc(s.Tools, func(t Tool) bool { return t.Name == name })
	if i >= 0 {
		return s.Tools[i].Call(ctx, input)
	}
	names := make([]string, len(s.Tools))
	for i, t := range s.Tools {
		names[i] = t.Name
	}
	return failed("There is no tool %q. The tools are %s.", s.shown(name), strings.Join(names, ", ")), nil
}

// tool returns a tool that do works for. Its input is checked before.
func (s *Set) tool(name, about string, f form, do func(context.Context, input) (Reply, error)) Tool {
	return Tool{
		Name: name, Description: about, Schema: f.schema(),
		Call: func(ctx context.Context, data json.RawMessage) (Reply, error) {
			in, wrong := f.parse(name, data, s.shown)
			if wrong != "" {
				return Reply{Text: wrong, Failed: true}, nil
			}
			reply, err := do(ctx, in)
			// What was put together may have a value in it that its parts had not.
			reply.Text = s.fit(s.Session.Redact(reply.Text), "")
			return reply, err
		},
	}
}

func failed(format string, args ...any) Reply {
	return Reply{Text: fmt.Sprintf(format, args...), Failed: true}
}

const (
	// ended is said of a session that the model can begin anew.
	ended = `The session has ended, with all that was in it but a mounted workspace. ` +
		`Call shell with {"restart": true} to begin a new one.`
	// again is said of a session that lives and could not do what it should.
	again = `The shell could not be replaced, or a startup script failed in it. Try again. If that does not help, call shell with {"restart": true} to begin a ` +
		`new session: what is in this one is lost then, but for a mounted workspace.`
	// unusable is said with an error that is the host's.
	unusable = "The tool does not work now, whatever the input. Do not call it again."
)

// unanswered returns the reply for a call that came to nothing, and its error if that is
// the host's.
func (s *Set) unanswered(ctx context.Context, err error) (Reply, error) {
	switch {
	case hosts(ctx, err):
		return failed(unusable), err
	case errors.Is(err, execpolicy.ErrEnded):
		return failed(ended), nil
	case isAny(err, execpolicy.ErrScript, execpolicy.ErrStart) && !errors.Is(err, python.ErrStart):
		return failed(again), nil
	}
	// What an interpreter printed that did not start is output, too.
	text, notPassed := s.filtered(excerpt(err.Error()))
	if notPassed != nil {
		return blocked(notPassed), nil
	}
	return failed("%s", text), nil
}

// hosts reports whether an error is the host's to deal with: whether it is not known to
// be one that the model's own doing brings about.
func hosts(ctx context.Context, err error) bool {
	if ctx.Err() != nil || isAny(err, execpolicy.ErrClosed, execpolicy.ErrExpired, execpolicy.ErrAudit, execpolicy.ErrStillThere) {
		return true
	}
	var refused syscall.Errno
	return !errors.As(err, &refused) && !isAny(err, execpolicy.ErrInvalid, execpolicy.ErrEnded, execpolicy.ErrStart,
		execpolicy.ErrScript, execpolicy.ErrTimeout, execpolicy.ErrStdinTooLong, execpolicy.ErrNotRegular,
		execpolicy.ErrTooLarge, execpolicy.ErrTransfer, execpolicy.ErrBlocked, execpolicy.ErrNoJobs,
		execpolicy.ErrTooManyJobs, execpolicy.ErrRefused, execpolicy.ErrNoDir,
		python.ErrStart, python.ErrReply, python.ErrNoRoom)
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// bounds returns the most bytes and lines that a reply may have.
func (s *Set) bounds() (limit, lines int) {
	bound := func(option, standard int) int {
		if option < 0 {
			return int(^uint(0) >> 1)
		}
		return cmp.Or(option, standard)
	}
	o := s.options.Render
	return bound(o.MaxBytes, execpolicy.DefaultRenderBytes), bound(o.MaxLines, execpolicy.DefaultRenderLines)
}

// fit returns a text, and a last paragraph, within the bounds of a reply.
func (s *Set) fit(body, last string) string {
	limit, lines := s.bounds()
	return render.Text(truncate.Excerpt{Head: []byte(body)}, truncate.Excerpt{}, last, limit, lines)
}

// noted returns what has run as a text, with a last paragraph after it.
func (s *Set) noted(r func(execpolicy.RenderOptions) string, note string) string {
	o := s.options.Render
	o.MaxBytes, o.MaxLines = s.bounds()
	o.MaxBytes = max(1, o.MaxBytes-len("\n\n")-len(note))
	o.MaxLines = max(1, o.MaxLines-len("\n\n")-strings.Count(note, "\n"))
	text, _ := s.rendered(r, o)
	return s.fit(text, note)
}

// rendered returns what has run as a text, and whether Spec.Filter lets that pass. Where
// escapes were taken out, there may be what the filter has not seen.
func (s *Set) rendered(r func(execpolicy.RenderOptions) string, o execpolicy.RenderOptions) (text string, passed bool) {
	text = r(o)
	if s.filter == nil || o.KeepEscapes {
		return text, true
	}
	o.KeepEscapes = true
	if r(o) == text {
		return text, true
	}
	text, err := s.filtered(text)
	if err != nil {
		return blocked(err).Text, false
	}
	return text, true
}

// excerpt returns what an error says, within bounds of its own.
func excerpt(text string) string {
	return truncate.Excerpt{Head: truncate.Plain([]byte(text))}.Text(1000, 20)
}

// blocked is the reply for output that Spec.Filter does not let pass.
func blocked(err error) Reply { return failed("Output blocked: %v.", err) }

// filtered returns a text without the session's secrets, and as Spec.Filter leaves it.
// Its error is that of the filter.
func (s *Set) filtered(text string) (string, error) {
	text = s.Session.Redact(text)
	if s.filter == nil || text == "" {
		return text, nil
	}
	var b strings.Builder
	w := s.filter(&b)
	_, err := w.Write([]byte(text))
	if e := w.Close(); err == nil {
		err = e
	}
	if err != nil {
		return "", err
	}
	return b.String(), nil
}
