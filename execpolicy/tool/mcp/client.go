package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/tool"
	"github.com/seed-64a260eb/cofferdam/internal/turn"
)

const (
	// maxPending is how many calls of a client may be under way. They wait for each
	// other.
	maxPending = 32
	// maxShown is how many bytes a user can be expected to look at.
	maxShown = 32 << 10
	// tick is how often a call that goes on is told of.
	tick = time.Second
)

const instructions = "The tools work in one locked-down container, which is this client's alone: what one " +
	"of them does, the others see. Each command has a time limit. What runs too long is ended, and the " +
	"reply says so."

// versions are the versions of the protocol that have sessions.
var versions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// A client is somebody who has connected, with the session that is theirs alone.
type client struct {
	*mcp.Server
	id      string
	options *options
	pending chan struct{}
	life    context.Context // ends when the client has gone
	end     context.CancelFunc
	turn    turn.Turn // of whoever starts or closes the set
	set     *tool.Set // nil until the first call
	renewed bool      // a set has taken the place of another, and nobody was told
	looking turn.Turn // of whoever looks for artifacts
	shown   map[string]artifact
}

func newClient(o *options, id string) *client {
	c := &client{id: id, options: o, pending: make(chan struct{}, maxPending), turn: turn.New(1), looking: turn.New(1), shown: map[string]artifact{}}
	c.life, c.end = context.WithCancel(context.Background())
	about := instructions
	if o.artifacts != "" {
		about += " Files in the directory " + o.artifacts + " are resources that the client can fetch."
	}
	c.Server = mcp.NewServer(&mcp.Implementation{Name: "cofferdam", Title: "Cofferdam", Version: "1"}, &mcp.ServerOptions{
		Instructions:              about,
		SupportedProtocolVersions: versions,
		GetSessionID:              func() string { return id },
		Capabilities: &mcp.ServerCapabilities{
			Tools:     &mcp.ToolCapabilities{},
			Resources: &mcp.ResourceCapabilities{ListChanged: true},
		},
	})
	for _, t := range tool.Declarations() {
		c.AddTool(declare(t, o), func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return c.call(ctx, t.Name, r), nil
		})
	}
	return c
}

// declare returns a tool as the protocol has it.
func declare(t tool.Tool, o *options) *mcp.Tool {
	reads := t.Name == "read" || t.Name == "list"
	changes := !reads
	d := &mcp.Tool{
		Name: t.Name, Description: t.Description, InputSchema: t.Schema,
		Annotations: &mcp.ToolAnnotations{
			ReadOnlyHint:    reads,
			DestructiveHint: &changes,
			OpenWorldHint:   &o.policy.NetworkEnabled,
		},
	}
	if t.Name == "shell" || t.Name == "python" {
		d.OutputSchema = outputSchema
	}
	return d
}

var outputSchema = json.RawMessage(`{
	"type": "object",
	"properties": {
		"outcome": {"type": "string", "description": "How it ended, such as \"exited\", \"timed out\" or \"out of memory\"; \"restarted\" after a restart."},
		"exit_code": {"type": "integer", "description": "The exit status, or -1 if there is none."},
		"seconds": {"type": "number", "description": "How long it took."},
		"dropped_bytes": {"type": "integer", "description": "How much of the output was not kept."},
		"state_lost": {"type": "boolean", "description": "Whether the shell was replaced, and its variables are gone."},
		"value": {"description": "The value of the last Python expression, if it can be JSON and is neither too long nor nested too deep."}
	},
	"required": ["outcome", "exit_code", "seconds", "dropped_bytes", "state_lost"]
}`)

// structured is what outputSchema describes.
type structured struct {
	Outcome      string          `json:"outcome"`
	ExitCode     int             `json:"exit_code"`
	Seconds      float64         `json:"seconds"`
	DroppedBytes int64           `json:"dropped_bytes"`
	StateLost    bool            `json:"state_lost"`
	Value        json.RawMessage `json:"value,omitempty"`
}

// call makes a call of the client's.
func (c *client) call(ctx context.Context, name string, r *mcp.CallToolRequest) *mcp.CallToolResult {
	select {
	case c.pending <- struct{}{}:
		defer func() { <-c.pending }()
	default:
		return failed("Too many calls at once: %d are under way. Wait for their results.", maxPending)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	defer notify(ctx, r)()
	set, again, err := c.open(ctx, r.Session)
	if err != nil {
		report(ctx, name, err)
		return failed("The session did not start: %v.", err)
	}
	reply, err := set.Call(ctx, name, r.Params.Arguments)
	if err != nil {
		report(ctx, name, err)
	}
	if errors.Is(err, execpolicy.ErrExpired) {
		// A command that was cut off has printed something.
		if reply.Text = old; reply.Result != nil {
			reply.Text = reply.Result.Render(c.options.tool.Render) + "\n\n" + old
		}
		reply.Failed = true
	}
	result := &mcp.CallToolResult{IsError: reply.Failed, Content: []mcp.Content{&mcp.TextContent{Text: reply.Text}}}
	switch {
	case reply.Result != nil:
		if len(reply.Value) > c.options.tool.Render.MaxBytes || deep(reply.Value) {
			reply.Value = nil
		}
		result.StructuredContent = describe(reply)
	case name == "shell" && !reply.Failed:
		result.StructuredContent = structured{Outcome: "restarted", ExitCode: -1}
	}
	if again {
		result.Content = append([]mcp.Content{&mcp.TextContent{Text: renewed}}, result.Content...)
	}
	switch name {
	case "shell", "python", "write", "edit":
		// A call about a job does not wait for what uses the session meanwhile.
		result.Content = append(result.Content, c.artifacts(ctx, set)...)
	}
	return result
}

// deep reports whether a value is nested so deep that a client may take no message with
// it. Some take a thousand levels.
func deep(value json.RawMessage) bool {
	level, quoted := 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[', c == '{':
			if level++; level > 100 {
				return true
			}
		case c == ']', c == '}':
			level--
		}
	}
	return false
}

func describe(reply tool.Reply) structured {
	r := reply.Result
	return structured{
		Outcome: r.Outcome.String(), ExitCode: r.ExitCode, Seconds: r.Duration.Seconds(), StateLost: r.StateLost,
		DroppedBytes: r.StdoutInfo.DroppedBytes + r.StderrInfo.DroppedBytes, Value: reply.Value,
	}
}

func failed(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

// report tells the operator of an error, unless the call was canceled.
func report(ctx context.Context, name string, err error) {
	if ctx.Err() == nil {
		log.Printf("%s: %v", name, err)
	}
}

// notify sends the progress of a call whose client has asked for it, until the function
// that it returns has been called.
func notify(ctx context.Context, r *mcp.CallToolRequest) (stop func()) {
	token := r.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		begin := time.Now()
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				passed := time.Since(begin).Round(tick).Seconds()
				r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
					ProgressToken: token, Progress: passed, Message: fmt.Sprintf("running for %.0f s", passed),
				})
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

const (
	// old is said of a session whose lifetime is over.
	old = "The session is older than it may be, and ends. Call again for a new one."
	// renewed is said of one that has taken its place.
	renewed = "The session was older than it may be, and has ended. This is a new one: what was in the old one, " +
		"but for a mounted workspace, is gone."
)

// open returns the client's set, which the first call starts. again says that it is a new
// one, in the place of one whose lifetime was over.
func (c *client) open(ctx context.Context, s *mcp.ServerSession) (set *tool.Set, again bool, err error) {
	if err := c.turn.Take(ctx); err != nil {
		return nil, false, err
	}
	defer c.turn.Give()
	if c.set != nil && expired(ctx, c.set) {
		if err := c.retire(ctx); err != nil {
			return nil, false, err
		}
	}
	if c.set == nil {
		if err := c.start(ctx, s); err != nil {
			return nil, false, err
		}
	}
	again, c.renewed = c.renewed, false
	return c.set, again, nil
}

// retire closes a set whose session has expired, for the holder of the turn.
func (c *client) retire(ctx context.Context) error {
	if err := c.looking.Take(ctx); err != nil {
		return err
	}
	for uri := range c.shown {
		c.shown[uri] = artifact{size: -1} // what is there by now is in the new set
	}
	c.looking.Give()
	if err := c.set.Close(); err != nil {
		log.Print(err)
	}
	c.set, c.renewed = nil, true
	return nil
}

// start starts a set, for the holder of the turn.
func (c *client) start(ctx context.Context, s *mcp.ServerSession) error {
	if c.life.Err() != nil {
		return execpolicy.ErrClosed
	}
	spec := c.options.spec
	if c.options.approve {
		spec.Approve = func(ctx context.Context, r execpolicy.Request) error { return approve(ctx, s, r) }
	}
	var err error
	if c.options.roots {
		if spec.Workspace, err = root(ctx, s); err != nil {
			return err
		}
	}
	c.set, err = tool.Start(ctx, c.options.policy, spec, c.options.tool)
	return err
}

// expired reports whether a set's session has ended because its lifetime was over.
func expired(ctx context.Context, set *tool.Set) bool {
	select {
	case <-set.Session.Done():
		_, err := set.Session.Stat(ctx, ".")
		return errors.Is(err, execpolicy.ErrExpired)
	default:
		return false
	}
}

// close ends what the client has. It waits for the calls that are under way to end.
func (c *client) close() error {
	c.end()
	c.turn.Take(context.Background())
	defer c.turn.Give()
	if c.set == nil {
		return nil
	}
	return c.set.Close()
}

// root returns the first of the client's roots.
func root(ctx context.Context, s *mcp.ServerSession) (string, error) {
	type answer struct {
		*mcp.ListRootsResult
		error
	}
	answered := make(chan answer, 1)
	go func() {
		//lint:ignore SA1019 the versions of the protocol that have sessions have roots
		roots, err := s.ListRoots(ctx, nil)
		answered <- answer{roots, err}
	}()
	var roots answer
	select {
	case roots = <-answered:
	case <-ctx.Done():
		// The SDK writes to a client that may not read, for as long as that takes.
		roots.error = context.Cause(ctx)
	}
	if roots.error != nil {
		return "", fmt.Errorf("the client does not tell its roots: %w", roots.error)
	}
	for _, r := range roots.Roots {
		u, err := url.Parse(r.URI)
		if err == nil && u.Scheme == "file" && (u.Host == "" || u.Host == "localhost") && path.IsAbs(u.Path) {
			return u.Path, nil
		}
	}
	return "", errors.New("the client has no root that is a directory of this machine")
}

// approve has the client ask its user.
func approve(ctx context.Context, s *mcp.ServerSession, r execpolicy.Request) error {
	text := r.Code
	switch {
	case r.Argv != nil:
		text = fmt.Sprintf("%q", r.Argv)
	case r.Kind == tool.RequestWrite:
		// Quoted, so that no part of a name is taken for the content.
		text = fmt.Sprintf("%q\n\n%s", r.Path, r.Code)
	case r.Kind == tool.RequestInput:
		text = fmt.Sprintf("of %s\n\n%s", r.Path, r.Code)
	}
	what := string(r.Kind)
	if r.Job {
		what += " as a job, which goes on beside the others"
	}
	if len(text) > maxShown {
		return fmt.Errorf("it has %d bytes, which is too much to show to a user", len(text))
	}
	result, err := s.Elicit(ctx, &mcp.ElicitParams{
		Message:         fmt.Sprintf("Allow this %s?\n\n%s", what, visible(text)),
		RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`),
	})
	if err != nil {
		return fmt.Errorf("the user could not be asked: %w", err)
	}
	if result.Action != "accept" {
		return errors.New("the user did not allow it")
	}
	return nil
}

// maxEmpty is how many empty lines in a row are shown as such, and maxBlank how many
// spaces: more could push what comes after them out of sight.
const (
	maxEmpty = 3
	maxBlank = 100
)

// visible returns a text in which what can't be seen is written out: control characters,
// those that change the direction of others, and those that have no shape. Letters of a
// script that is written from right to left stay, with what they do to their neighbours.
func visible(text string) string {
	var b strings.Builder
	empty, blank := 0, 0
	for _, r := range text {
		switch r {
		case '\n':
			empty++
			blank = 0
		case ' ', '\t':
			blank++
		default:
			empty, blank = 0, 0
		}
		seen := r == '\n' || r == '\t' || unicode.IsPrint(r) && !shapeless(r)
		if seen && empty <= maxEmpty+1 && blank <= maxBlank {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "\\u{%x}", r)
		}
	}
	return b.String()
}

// shapeless reports whether a character that counts as printed may show nothing.
func shapeless(r rune) bool {
	const brailleBlank = '\u2800'
	return r == brailleBlank || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
