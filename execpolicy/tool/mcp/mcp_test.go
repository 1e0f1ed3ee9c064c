package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/seed-64a260eb/cofferdam/execpolicy/tool"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

// A client runs code, gets an artifact, and when it goes nothing is left.
func TestMainJob(t *testing.T) {
	var changed journal
	watching := func() *mcp.ClientOptions {
		return &mcp.ClientOptions{ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { changed.add("x") }}
	}
	byBoth(t, watching, func(t *testing.T, p place, s session) {
		before := len(changed.all())
		tools, err := s.ListTools(t.Context(), nil)
		assert.NilError(t, err)
		var names []string
		for _, d := range tools.Tools {
			names = append(names, d.Name)
			assert.Equal(t, d.OutputSchema != nil, d.Name == "shell" || d.Name == "python")
			assert.Equal(t, d.Annotations.ReadOnlyHint, d.Name == "read" || d.Name == "list")
		}
		assert.Equal(t, len(names), len(tool.Declarations()))
		assert.Equal(t, p.containers(), 0)

		s.ok("shell", args{"command": "x=4; mkdir artifacts"})
		assert.Equal(t, p.containers(), 1)
		r, text := s.call("shell", args{"command": "echo $x; exit 3"})
		assert.Assert(t, r.IsError)
		assert.Assert(t, cmp.Contains(text, "4\n\nExit code: 3"))
		got := r.StructuredContent.(map[string]any)
		assert.Equal(t, got["outcome"], "exited")
		assert.Equal(t, got["exit_code"], 3.0)
		assert.Equal(t, got["state_lost"], true)
		r, _ = s.call("python", args{"code": "open('artifacts/plot.png', 'wb').write(bytes([137, 80, 255]))\nopen('artifacts/a b.txt', 'w').write('hi')\n{'n': 1}"})
		assert.DeepEqual(t, r.StructuredContent.(map[string]any)["value"], map[string]any{"n": 1.0})
		assert.Equal(t, len(r.Content), 3)
		link := r.Content[1].(*mcp.ResourceLink)
		assert.Equal(t, link.URI, "cofferdam:///artifacts/a%20b.txt")
		assert.Equal(t, *link.Size, int64(2))
		content, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: link.URI})
		assert.NilError(t, err)
		assert.Equal(t, content.Contents[0].Text, "hi")
		content, err = s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: r.Content[2].(*mcp.ResourceLink).URI})
		assert.NilError(t, err)
		assert.DeepEqual(t, content.Contents[0].Blob, []byte{137, 80, 255})
		assert.Equal(t, content.Contents[0].MIMEType, "image/png")
		p.until("the list of resources is said to have changed", func() bool { return len(changed.all()) > before })

		// What has not changed is not told again, and what is gone is no resource.
		r, _ = s.call("shell", args{"command": "rm artifacts/plot.png"})
		assert.Equal(t, len(r.Content), 1)
		list, err := s.ListResources(t.Context(), nil)
		assert.NilError(t, err)
		assert.Equal(t, len(list.Resources), 1)
		_, err = s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "cofferdam:///artifacts/plot.png"})
		assert.Assert(t, err != nil)

		r, text = s.call("shell", args{"restart": true})
		assert.Equal(t, text, "Shell session restarted.")
		assert.Equal(t, r.StructuredContent.(map[string]any)["outcome"], "restarted")
		assert.NilError(t, s.Close())
		p.until("the container is gone", func() bool { return p.containers() == 0 })
	})
}

func TestWrongInputIsTold(t *testing.T) {
	byBoth(t, plain, func(t *testing.T, p place, s session) {
		assert.Assert(t, cmp.Contains(s.fails("read", args{"file": "x"}), `"path" is missing`))
		assert.Equal(t, s.fails("shell", args{}), "Shell tool requires either 'command' or 'restart'.")
		_, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "none"})
		assert.Assert(t, err != nil)
	})
}

func TestProgressAndCancellation(t *testing.T) {
	var said journal
	watching := func() *mcp.ClientOptions {
		return &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			said.add(r.Params.Message)
		}}
	}
	byBoth(t, watching, func(t *testing.T, p place, s session) {
		s.ok("shell", args{"command": "x=kept"})
		before := len(said.all())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error)
		go func() {
			params := &mcp.CallToolParams{Name: "shell", Arguments: args{"command": "sleep 600"}}
			params.SetProgressToken("token")
			_, err := s.CallTool(ctx, params)
			done <- err
		}()
		p.until("progress is told", func() bool { return len(said.all()) > before })
		assert.Assert(t, strings.HasPrefix(said.all()[before], "running for "))
		cancel()
		assert.ErrorIs(t, <-done, context.Canceled)
		// The command has been ended, and the shell has not.
		assert.Equal(t, s.ok("shell", args{"command": "echo $x"}), "kept\n")
		assert.Assert(t, !p.sleeps())
	})
}

// What is asked about a job waits for no command of the shell's.
func TestJobsBesideTheShell(t *testing.T) {
	byBoth(t, plain, func(t *testing.T, p place, s session) {
		s.ok("job", args{"action": "start", "command": "until [ -e /tmp/runs ]; do sleep 0.1; done; echo up; sleep 600"})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "shell", Arguments: args{"command": "touch /tmp/runs; sleep 600"}})
			done <- err
		}()
		p.until("the shell is busy", func() bool {
			return strings.Contains(s.ok("job", args{"action": "status", "job": 1}), "up")
		})
		s.ok("job", args{"action": "kill", "job": 1})
		cancel()
		assert.ErrorIs(t, <-done, context.Canceled)
	})
}

// A session whose lifetime is over is replaced, and the client is told.
func TestLifetimeIsOver(t *testing.T) {
	byBoth(t, plain, func(t *testing.T, p place, s session) {
		s.call("shell", args{"command": "x=old"})
		p.until("the session's lifetime is over", func() bool { return p.containers() == 0 })
		var r *mcp.CallToolResult
		var text string
		p.until("another takes its place", func() bool {
			r, text = s.call("shell", args{"command": "echo ${x-new}"})
			return text != old
		})
		assert.Equal(t, text, renewed)
		assert.Equal(t, r.Content[1].(*mcp.TextContent).Text, "new\n")
	}, "-lifetime=15s") // with the container's start
}

func TestApproval(t *testing.T) {
	var asked journal
	asking := func() *mcp.ClientOptions {
		return &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked.add(r.Params.Message)
			if strings.Contains(r.Params.Message, "bad") {
				return &mcp.ElicitResult{Action: "decline"}, nil
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
		}}
	}
	byBoth(t, asking, func(t *testing.T, p place, s session) {
		before := len(asked.all())
		assert.Equal(t, s.ok("shell", args{"command": "echo good"}), "good\n")
		assert.Assert(t, cmp.Contains(s.fails("shell", args{"command": "echo bad \x1b[8m\u202e"}), "the user did not allow it"))
		s.ok("write", args{"path": "f\n\nhello", "content": "x"})
		assert.Assert(t, cmp.Contains(s.fails("python", args{"code": "#" + strings.Repeat("x", maxShown)}), "too much to show to a user"))
		assert.DeepEqual(t, asked.all()[before:], []string{
			"Allow this script?\n\necho good", "Allow this script?\n\necho bad \\u{1b}[8m\\u{202e}", "Allow this write?\n\n\"f\\n\\nhello\"\n\nx",
		})
	}, "-approve")
	byBoth(t, plain, func(t *testing.T, p place, s session) {
		assert.Assert(t, cmp.Contains(s.fails("shell", args{"command": "true"}), "the user could not be asked"))
	}, "-approve")
}

func TestRoots(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		dir := enginetest.OrdinaryDir(t)
		assert.NilError(t, os.WriteFile(filepath.Join(dir, "in.txt"), []byte("in"), 0o644))
		c := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil)
		//lint:ignore SA1019 the versions of the protocol that have sessions have roots
		c.AddRoots(&mcp.Root{URI: "https://example.com"}, &mcp.Root{URI: "file://" + dir})
		s := connectClient(t, c, program(p.command("-roots")))
		assert.Equal(t, s.ok("shell", args{"command": "cat in.txt; echo out >out.txt"}), "in")
		_, err := os.Stat(filepath.Join(dir, "out.txt"))
		assert.Assert(t, errors.Is(err, os.ErrNotExist), "it is a copy")
		assert.NilError(t, s.Close())
		data, err := os.ReadFile(filepath.Join(dir, "out.txt"))
		assert.NilError(t, err)
		assert.Equal(t, string(data), "out\n")

		c = mcp.NewClient(&mcp.Implementation{Name: "test"}, nil)
		//lint:ignore SA1019 the versions of the protocol that have sessions have roots
		c.AddRoots(&mcp.Root{URI: "file://"}, &mcp.Root{URI: "file:x"})
		s = connectClient(t, c, program(p.command("-roots")))
		assert.Assert(t, cmp.Contains(s.fails("list", nil), "the client has no root that is a directory of this machine"))
		assert.NilError(t, s.Close())
	})
}

// Clients have nothing of each other, and there are no more of them than may be.
func TestClientsOfHTTP(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		url, _ := p.listen("-clients=2")
		a, b := connect(t, dial(t, url), nil), connect(t, dial(t, url), nil)
		a.ok("shell", args{"command": "mkdir artifacts; echo a >artifacts/f; x=a"})
		assert.Equal(t, b.ok("shell", args{"command": "echo ${x:-unset}; ls"}), "unset\n")
		list, err := b.ListResources(t.Context(), nil)
		assert.NilError(t, err)
		assert.Equal(t, len(list.Resources), 0)
		_, err = b.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "cofferdam:///artifacts/f"})
		assert.Assert(t, err != nil)
		assert.Equal(t, p.containers(), 2)
		c := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil)
		_, err = c.Connect(t.Context(), dial(t, url), nil)
		assert.Assert(t, err != nil)
		assert.NilError(t, a.Close())
		p.until("there is room again", func() bool { return p.containers() == 1 })
		p.until("a client can connect", func() bool {
			s, err := c.Connect(t.Context(), dial(t, url), nil)
			if err == nil {
				s.Close()
			}
			return err == nil
		})
	})
}

// post sends a request of HTTP, and returns its status.
func post(t *testing.T, url, body string, header http.Header) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	assert.NilError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for key, values := range header {
		r.Header[key] = values
	}
	r.Host, r.Close = header.Get("Host"), true
	response, err := http.DefaultClient.Do(r)
	assert.NilError(t, err)
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	assert.NilError(t, err)
	return response.StatusCode
}

const (
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`
	callSleep  = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"shell","arguments":{"command":"sleep 600"}}}`
)

func TestHTTPRefuses(t *testing.T) {
	t.Setenv(tokenVar, "secret-token")
	everywhere(t, func(t *testing.T, p place) {
		url, s := p.listen("-origin=http://localhost:6274")
		good := func(pairs ...string) http.Header {
			h := http.Header{"Authorization": {"Bearer secret-token"}}
			for i := 0; i < len(pairs); i += 2 {
				h.Set(pairs[i], pairs[i+1])
			}
			return h
		}
		for _, c := range []struct {
			what   string
			body   string
			header http.Header
			want   int
		}{
			{"the right one", initialize, good(), 200},
			{"an origin that is allowed", initialize, good("Origin", "http://localhost:6274"), 200},
			{"its own origin", initialize, good("Host", "localhost:1", "Origin", "http://localhost:1"), 200},
			{"a name that was made to lead here, with its origin", initialize, good("Host", "evil.example", "Origin", "http://evil.example"), 403},
			{"no token", initialize, http.Header{}, 401},
			{"a wrong token", initialize, good("Authorization", "Bearer secret-toke"), 401},
			{"a foreign origin", initialize, good("Origin", "http://evil.example"), 403},
			{"an origin that is no origin", initialize, good("Origin", "null"), 403},
			{"a name that was made to lead here", initialize, good("Host", "evil.example"), 403},
			{"what is too long", strings.Repeat(" ", maxBody+1), good(), 413},
			{"no JSON", "{", good(), 400},
			{"a session that is none", callSleep, good(sessionHeader, "none"), 404},
			{"a call without a session", callSleep, good(), 200},
			{"a version without sessions", callSleep, good("Mcp-Protocol-Version", "2026-07-28"), 400},
		} {
			assert.Check(t, cmp.Equal(post(t, url, c.body, c.header), c.want), c.what)
		}
		p.until("only sessions are left", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.clients) == 3
		})
		assert.Equal(t, p.containers(), 0)
	})
}

// This is what the protocol's conformance suite asks of sessions by HTTP, and of their
// beginning and end.
func TestSessionsOfHTTP(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		url, _ := p.listen()
		s := connect(t, dial(t, url), nil)
		assert.NilError(t, s.Ping(t.Context(), nil))
		assert.Equal(t, s.InitializeResult().ProtocolVersion, versions[0])
		id := http.Header{sessionHeader: {s.ID()}}
		assert.Equal(t, post(t, url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, id), http.StatusAccepted)
		// Streams of several calls at once.
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				list := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, 100+i)
				assert.Check(t, cmp.Equal(post(t, url, list, id), http.StatusOK))
			})
		}
		all.Wait()
		assert.NilError(t, s.Close())
		assert.Equal(t, post(t, url, `{"jsonrpc":"2.0","id":8,"method":"tools/list"}`, id), http.StatusNotFound)
	})
}

// Requests that never come whole hold up nobody else.
func TestHalfRequests(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		url, _ := p.listen()
		address := strings.TrimPrefix(url, "http://")
		for _, text := range []string{"POST / HTTP/1.1\r\nHost: localhost\r\n", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"} {
			for range 20 {
				conn, err := net.Dial("tcp", address)
				assert.NilError(t, err)
				defer conn.Close()
				_, err = io.WriteString(conn, text)
				assert.NilError(t, err)
			}
		}
		s := connect(t, dial(t, url), nil)
		assert.Equal(t, s.ok("shell", args{"command": "echo hi"}), "hi\n")
		assert.NilError(t, s.Close())
	})
}

// What is large is kept for a few requests only.
func TestLargeRequests(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		url, server := p.listen("-clients=2")
		for range cap(server.large) {
			conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
			assert.NilError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{")
			assert.NilError(t, err)
		}
		p.until("they are read", func() bool { return len(server.large) == cap(server.large) })
		// More than the kernel and net/http take of it unread.
		for range 10 {
			assert.Equal(t, post(t, url, initialize+strings.Repeat(" ", 8<<20), nil), http.StatusServiceUnavailable)
		}
		assert.Equal(t, post(t, url, initialize, nil), http.StatusOK)
	})
}

// A body that never comes holds a connection for its time only, whatever becomes of the
// request, and one without the token is refused before its body comes.
func TestBodyThatNeverComes(t *testing.T) {
	t.Setenv(tokenVar, "secret-token")
	everywhere(t, func(t *testing.T, p place) {
		const token = "Authorization: Bearer secret-token\r\n"
		for _, c := range []struct {
			name, method, header string
			busy                 bool
			body                 time.Duration // how long there is for it
			want                 string
		}{
			{"no token", "POST", "", false, time.Hour, "401 Unauthorized"},
			{"no token, for a stream", "GET", "", false, time.Hour, "401 Unauthorized"},
			{"a message", "POST", token, false, time.Second, "400 Bad Request"},
			{"a stream", "GET", token, false, time.Second, "400 Bad Request"},
			{"an end", "DELETE", token, false, time.Second, "400 Bad Request"},
			{"a busy server", "POST", token, true, time.Second, "400 Bad Request"},
		} {
			t.Run(c.name, func(t *testing.T) {
				s := newServer(p.options("-http=localhost:0"))
				s.timeout = c.body
				defer s.close()
				if c.busy {
					for range cap(s.requests) {
						s.requests <- struct{}{}
					}
				}
				h := httptest.NewServer(s)
				defer h.Close()
				defer h.CloseClientConnections()
				conn, err := net.Dial("tcp", h.Listener.Addr().String())
				assert.NilError(t, err)
				defer conn.Close()
				assert.NilError(t, conn.SetDeadline(time.Now().Add(patience)))
				_, err = io.WriteString(conn, c.method+" / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"+c.header+"\r\n{")
				assert.NilError(t, err)
				reply, err := io.ReadAll(conn)
				assert.NilError(t, err, "the connection is not closed")
				status, _, _ := strings.Cut(string(reply), "\r\n")
				assert.Equal(t, status, "HTTP/1.1 "+c.want)
			})
		}
	})
}

// Of a client that is gone in mid-call, nothing is left.
func TestClientOfHTTPIsGone(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		url, server := p.listen("-idle=5s", "-timeout=20s")
		ctx, cancel := context.WithCancel(t.Context())
		s := connect(t, dial(t, url), nil)
		s.ok("shell", args{"command": "true"})
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(callSleep))
		assert.NilError(t, err)
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, sessionHeader: {s.ID()}}
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			response, err := http.DefaultClient.Do(r)
			if err == nil {
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		}()
		p.until("the command runs", func() bool { return p.sleeps() })
		cancel()
		<-gone
		p.until("the container is gone", func() bool { return p.containers() == 0 })
		p.until("the client is forgotten", func() bool { return server.client(s.ID()) == nil })
	})
}

// One that says that it goes does not wait for its call.
func TestClientOfHTTPLeaves(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		url, _ := p.listen("-timeout=10m")
		s := connect(t, dial(t, url), nil)
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.CallTool(t.Context(), &mcp.CallToolParams{Name: "shell", Arguments: args{"command": "sleep 600"}})
		}()
		p.until("the command runs", func() bool { return p.sleeps() })
		r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url, nil)
		assert.NilError(t, err)
		r.Header.Set(sessionHeader, s.ID())
		r.Close = true
		response, err := http.DefaultClient.Do(r)
		assert.NilError(t, err)
		response.Body.Close()
		assert.Equal(t, response.StatusCode, http.StatusNoContent)
		p.until("the container is gone", func() bool { return p.containers() == 0 })
		<-done
	})
}

// sleeps reports whether the command of callSleep runs in a container of the test's.
func (p place) sleeps() bool {
	for _, name := range p.Containers(p.t) {
		if out, _, _ := p.Client("top", name); strings.Contains(out, "sleep 600") {
			return true
		}
	}
	return false
}

// raw is a client that speaks by lines.
type raw struct {
	io.WriteCloser
	lines  *bufio.Scanner
	stdout io.Closer
	wait   func() error
}

func (p place) raw(args ...string) *raw {
	p.t.Helper()
	cmd := p.command(args...)
	stdin, err := cmd.StdinPipe()
	assert.NilError(p.t, err)
	stdout, err := cmd.StdoutPipe()
	assert.NilError(p.t, err)
	assert.NilError(p.t, cmd.Start())
	r := &raw{stdin, bufio.NewScanner(stdout), stdout, sync.OnceValue(func() error {
		stdout.Close()
		return cmd.Wait()
	})}
	r.lines.Buffer(nil, 1<<20)
	p.t.Cleanup(func() {
		cmd.Process.Kill()
		r.wait()
	})
	return r
}

func (r *raw) send(t *testing.T, line string) {
	t.Helper()
	_, err := io.WriteString(r, line+"\n")
	assert.NilError(t, err)
}

func (r *raw) begin(t *testing.T) {
	t.Helper()
	r.send(t, initialize)
	assert.Assert(t, r.lines.Scan())
	r.send(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func TestClientOfStdioIsGone(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		r := p.raw("-timeout=10m")
		r.begin(t)
		r.send(t, callSleep)
		p.until("the command runs", func() bool { return p.sleeps() })
		assert.NilError(t, r.Close())
		r.wait()
		assert.Equal(t, p.containers(), 0)
	})
}

// Nor of one that reads no answer.
func TestClientOfStdioDoesNotRead(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		r := p.raw("-timeout=10m")
		r.begin(t)
		r.send(t, callSleep)
		p.until("the command runs", func() bool { return p.sleeps() })
		for i := range 50 {
			r.send(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, 100+i))
		}
		assert.NilError(t, r.Close())
		p.until("the container is gone", func() bool { return p.containers() == 0 })
	})
}

// What a session has changed is saved, also if its client dies while it is answered.
func TestClientOfStdioDiesUnanswered(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		dir := enginetest.OrdinaryDir(t)
		r := p.raw("-workspace="+dir, "-exclude=none")
		r.begin(t)
		r.send(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"shell","arguments":{"command":"echo out >out.txt"}}}`)
		assert.Assert(t, r.lines.Scan())
		// More than the pipe takes.
		for i := range 50 {
			r.send(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, 100+i))
		}
		assert.NilError(t, r.stdout.Close())
		assert.NilError(t, r.Close())
		r.wait()
		_, err := os.Stat(filepath.Join(dir, "out.txt"))
		assert.NilError(t, err)
	})
}

// Nor is anything left of a server that is killed.
func TestServerIsKilled(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		cmd := p.command("-timeout=10m")
		s := connect(t, program(cmd), nil)
		go s.CallTool(t.Context(), &mcp.CallToolParams{Name: "shell", Arguments: args{"command": "sleep 600"}})
		p.until("the command runs", func() bool { return p.sleeps() })
		assert.NilError(t, cmd.Process.Kill())
		p.until("the container is gone", func() bool { return p.containers() == 0 })
	})
}

// Whatever comes by stdin, the server ends and leaves nothing, or goes on.
func TestHostileLines(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		for name, text := range map[string]string{
			"half a message": `{"jsonrpc":"2.0","id":2,"method":"tools/ca`,
			"no JSON":        "\x00\x01garbage\n",
			"no message":     "[]\n",
			"too deep":       strings.Repeat("[", 100_000) + "\n",
			"too long":       strings.Repeat("x", maxBody+1),
		} {
			r := p.raw()
			r.begin(t)
			r.send(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"shell","arguments":{"command":"true"}}}`)
			assert.Assert(t, r.lines.Scan(), name)
			io.WriteString(r, text) // the server may have ended before all of it
			r.Close()
			r.wait()
			assert.Equal(t, p.containers(), 0, name)
		}
	})
}

// A client that asks for too much at once is told so, and can go on.
func TestFlood(t *testing.T) {
	byBoth(t, plain, func(t *testing.T, p place, s session) {
		s.ok("shell", args{"command": "true"})
		var all sync.WaitGroup
		var replies journal
		for i := range 3 * maxPending {
			all.Go(func() {
				r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "shell", Arguments: args{"command": fmt.Sprint("sleep 0.05; echo ", i)}})
				if err != nil {
					replies.add("refused") // by HTTP
					return
				}
				replies.add(textOf(r))
			})
		}
		all.Wait()
		served, refused := 0, 0
		for _, text := range replies.all() {
			if strings.HasPrefix(text, "Too many calls at once") || text == "refused" {
				refused++
			} else {
				served++
			}
		}
		assert.Assert(t, served >= maxPending, "%d served", served)
		assert.Equal(t, served+refused, 3*maxPending)
		assert.Equal(t, s.ok("shell", args{"command": "echo on"}), "on\n")
		assert.Equal(t, p.containers(), 1)
	})
}

func TestFlags(t *testing.T) {
	enginetest.Engines(t)
	for _, c := range []struct{ args, says string }{
		{"-clients=0 -idle=0s -timeout=-1s -lifetime=0s -output=10", "-clients must be 1 or more\n-idle must be more than 0\n-timeout must be more than 0\n-lifetime must be more than 0\n-output must be 1000 or more"},
		{"-http=localhost:0 -roots", "can't be had with -http"},
		{"-roots -workspace=/tmp/x", "can't be had together"},
		{"-exclude=x", "-exclude needs"},
		{"x", "there are flags only"},
		{"-memory=1", "invalid"},
		{"-engine=/nowhere/docker", "/nowhere/docker"},
	} {
		_, err := parse(t.Context(), strings.Fields(c.args))
		assert.Check(t, cmp.ErrorContains(err, c.says), c.args)
	}
	// Without a token nobody listens where others can reach it.
	t.Setenv(tokenVar, "")
	o, err := parse(t.Context(), []string{"-http=0.0.0.0:0"})
	assert.NilError(t, err)
	assert.ErrorContains(t, serveHTTP(t.Context(), o), tokenVar)
}

// serve serves by HTTP until ctx ends, and returns the address, a client, and what
// serveListener returns.
func (p place) serve(ctx context.Context) (address string, s *mcp.ClientSession, served chan error) {
	p.t.Helper()
	l, err := net.Listen("tcp", "localhost:0")
	assert.NilError(p.t, err)
	address = l.Addr().String()
	served = make(chan error)
	server := newServer(p.options("-http=" + address))
	go func() { served <- serveListener(ctx, l, server) }()
	c := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil)
	s, err = c.Connect(p.t.Context(), dial(p.t, "http://"+address), nil)
	assert.NilError(p.t, err)
	return address, s, served
}

// The server itself is ended by its context, and ends its clients.
func TestServeHTTPEnds(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, s, served := p.serve(ctx)
		defer s.Close()
		go s.CallTool(t.Context(), &mcp.CallToolParams{Name: "shell", Arguments: args{"command": "sleep 600"}})
		p.until("the command runs", func() bool { return p.sleeps() })
		begin := time.Now()
		cancel()
		assert.NilError(t, <-served)
		assert.Equal(t, p.containers(), 0)
		t.Logf("ended after %v", time.Since(begin).Round(time.Millisecond))
	})
}

// A client that reads no answer does not keep the server.
func TestServeHTTPEndsWithoutReaders(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		address, s, served := p.serve(ctx)
		defer s.Close()
		_, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "shell", Arguments: args{
			"command": "mkdir artifacts; head -c 16000000 /dev/zero >artifacts/f"}})
		assert.NilError(t, err)
		body := `{"jsonrpc":"2.0","id":9,"method":"resources/read","params":{"uri":"cofferdam:///artifacts/f"}}`
		conn, err := net.Dial("tcp", address)
		assert.NilError(t, err)
		defer conn.Close()
		assert.NilError(t, conn.(*net.TCPConn).SetReadBuffer(4096))
		_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
			"Accept: application/json, text/event-stream\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s", s.ID(), len(body), body)
		assert.NilError(t, err)
		_, err = io.ReadFull(conn, make([]byte, 100_000))
		assert.NilError(t, err, "it has begun to answer")
		cancel()
		assert.NilError(t, <-served)
		assert.Equal(t, p.containers(), 0)
	})
}

func TestVisible(t *testing.T) {
	assert.Equal(t, visible("a\n\té\x1b[0m\u202e\u200b\r\x7f\xff"), "a\n\té\\u{1b}[0m\\u{202e}\\u{200b}\\u{d}\\u{7f}\ufffd")
	assert.Equal(t, visible("a\u3164\u2800b\ufe0f\U000e0101"), "a\\u{3164}\\u{2800}b\\u{fe0f}\\u{e0101}")
	assert.Equal(t, visible("a"+strings.Repeat("\n", 6)+"b\n"), "a\n\n\n\n\\u{a}\\u{a}b\n")
	assert.Equal(t, visible("a"+strings.Repeat("\n ", 6)+"b"), "a\n \n \n \n \\u{a}\\u{20}\\u{a}\\u{20}b")
	assert.Equal(t, visible(strings.Repeat(" ", maxBlank+1)+"b"), strings.Repeat(" ", maxBlank)+"\\u{20}b")
}

// The output schema is JSON Schema that fits what is sent.
func TestOutputSchema(t *testing.T) {
	var schema struct{ Properties map[string]any }
	assert.NilError(t, json.NewDecoder(bytes.NewReader(outputSchema)).Decode(&schema))
	text, err := json.Marshal(structured{Value: json.RawMessage("1")})
	assert.NilError(t, err)
	var fields map[string]any
	assert.NilError(t, json.Unmarshal(text, &fields))
	for name := range fields {
		assert.Check(t, schema.Properties[name] != nil, name)
	}
	assert.Equal(t, len(fields), len(schema.Properties))
}
