package main

import (
	"context"
	"encoding/json"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

// argsVar tells this binary that it is the server, and with which arguments.
const argsVar = "COFFERDAM_TEST_MCP"

// patience bounds a wait for a condition: no test passes faster or slower for it.
const patience = time.Minute

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(argsVar); ok {
		serve(text)
	}
	os.Exit(m.Run())
}

// serve is main, on an engine of the test's.
func serve(text string) {
	e, err := enginetest.FromEnviron()
	if err != nil {
		panic(err)
	}
	var args []string
	if err := json.Unmarshal([]byte(text), &args); err != nil {
		panic(err)
	}
	o, err := parse(context.Background(), args)
	if err != nil {
		panic(err)
	}
	on(o, e)
	if err := serveStdio(context.Background(), o); err != nil {
		log.Fatal(err)
	}
	os.Exit(0)
}

// on puts sessions on an engine of the test's.
func on(o *options, e enginetest.Engine) {
	o.policy.Engine, o.policy.Image, o.spec.Labels = e.Engine, e.Image, maps.Clone(e.Labels)
	o.policy.TerminationTimeout = patience
}

// A place is an engine, and the test that it is for.
type place struct {
	enginetest.Engine
	t *testing.T
}

func everywhere(t *testing.T, f func(t *testing.T, p place)) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) { f(t, place{e, t}) })
}

// command returns the server as a program.
func (p place) command(args ...string) *exec.Cmd {
	p.t.Helper()
	text, err := json.Marshal(append([]string{}, args...))
	assert.NilError(p.t, err)
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(p.Environ(p.t), argsVar+"="+string(text))
	cmd.Stderr = os.Stderr
	return cmd
}

// program returns the transport to a server that gets the time to end by itself.
func program(cmd *exec.Cmd) mcp.Transport {
	return &mcp.CommandTransport{Command: cmd, TerminateDuration: 2 * patience}
}

// options returns what flags say, for a server in this program.
func (p place) options(args ...string) *options {
	p.t.Helper()
	o, err := parse(p.t.Context(), args)
	assert.NilError(p.t, err)
	on(o, p.Engine)
	return o
}

// listen serves by HTTP until the test ends.
func (p place) listen(args ...string) (url string, s *server) {
	p.t.Helper()
	s = newServer(p.options(append([]string{"-http=localhost:0"}, args...)...))
	h := httptest.NewServer(s)
	p.t.Cleanup(func() {
		s.close()
		h.CloseClientConnections()
		h.Close()
	})
	return h.URL, s
}

// containers returns how many containers of the test's there are.
func (p place) containers() int {
	p.t.Helper()
	return len(p.Containers(p.t))
}

func (p place) until(what string, is func() bool) {
	p.t.Helper()
	enginetest.Wait(p.t, is, "not yet: %s", what)
}

// A session is a client that has connected.
type session struct {
	*mcp.ClientSession
	t *testing.T
}

func connect(t *testing.T, transport mcp.Transport, o *mcp.ClientOptions) session {
	t.Helper()
	return connectClient(t, mcp.NewClient(&mcp.Implementation{Name: "test"}, o), transport)
}

func connectClient(t *testing.T, c *mcp.Client, transport mcp.Transport) session {
	t.Helper()
	s, err := c.Connect(t.Context(), transport, nil)
	assert.NilError(t, err)
	t.Cleanup(func() { s.Close() })
	return session{s, t}
}

// dial returns a transport of HTTP that leaves nothing of itself.
func dial(t *testing.T, url string) *mcp.StreamableClientTransport {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: transport}, MaxRetries: -1}
}

// byBoth runs f with a client of each transport.
func byBoth(t *testing.T, o func() *mcp.ClientOptions, f func(t *testing.T, p place, s session), args ...string) {
	everywhere(t, func(t *testing.T, p place) {
		t.Run("stdio", func(t *testing.T) {
			f(t, place{p.Engine, t}, connect(t, program(place{p.Engine, t}.command(args...)), o()))
		})
		t.Run("http", func(t *testing.T) {
			p := place{p.Engine, t}
			url, _ := p.listen(args...)
			f(t, p, connect(t, dial(t, url), o()))
		})
	})
}

func plain() *mcp.ClientOptions { return nil }

// call calls a tool, and returns the result with its text.
func (s session) call(name string, arguments any) (*mcp.CallToolResult, string) {
	s.t.Helper()
	r, err := s.CallTool(s.t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	assert.NilError(s.t, err)
	return r, textOf(r)
}

func (s session) ok(name string, arguments any) string {
	s.t.Helper()
	r, text := s.call(name, arguments)
	assert.Assert(s.t, !r.IsError, text)
	return text
}

func (s session) fails(name string, arguments any) string {
	s.t.Helper()
	r, text := s.call(name, arguments)
	assert.Assert(s.t, r.IsError, text)
	return text
}

func textOf(r *mcp.CallToolResult) string {
	for _, c := range r.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			return t.Text
		}
	}
	return ""
}

type args map[string]any

// A journal is what has been said, by several goroutines.
type journal struct {
	sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.Lock()
	defer j.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) all() []string {
	j.Lock()
	defer j.Unlock()
	return append([]string{}, j.lines...)
}
