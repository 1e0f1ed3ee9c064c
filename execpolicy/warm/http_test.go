package warm_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/execpolicy/warm"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

func TestExamples(t *testing.T) {
	t.Chdir(t.TempDir())
	assert.NilError(t, os.Mkdir("project", 0o755))
	assert.NilError(t, os.WriteFile("project/main.py", []byte("print(1)\n"), 0o644))
	places.Examples(t, &sandbox, nil, []places.Example{
		{Name: "Example", Run: Example, Want: "ann has [secret TOKEN]\nbob has [secret TOKEN]\n"},
		{Name: "New", Run: ExampleNew, Want: "ready\n"},
		{Name: "Take", Run: ExamplePool_Take_workspace, Want: "print(1)\n"},
		{Name: "Options", Run: ExampleOptions, Want: "true\n"},
	})
}

// post sends a script to the example's server.
func post(ctx context.Context, url, script string) (code int, outcome, body string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/run", strings.NewReader(script))
	if err != nil {
		return 0, "", "", err
	}
	r.Close = true // so that nothing of the client is left
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, response.Header.Get("Outcome"), string(text), err
}

func (p pool) server() *httptest.Server {
	server := httptest.NewServer(handler{p.Pool, make(chan struct{}, 32)})
	p.t.Cleanup(server.Close)
	return server
}

func TestHTTP(t *testing.T) {
	p := onFake(t, fakeengine.Faults{})
	w := p.pool(t, warm.Options{Size: 2})
	url := w.server().URL
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			code, outcome, body, err := post(t.Context(), url, "echo hello; ls -A; echo mine >mine")
			assert.Check(t, err)
			assert.Check(t, code == http.StatusOK && outcome == "exited" && body == "hello\n", "%d %s %s", code, outcome, body)
		})
	}
	all.Wait()
	code, _, _, err := post(t.Context(), url, strings.Repeat("#", 1<<20+1))
	assert.NilError(t, err)
	assert.Equal(t, code, http.StatusRequestEntityTooLarge)
	assert.Equal(t, w.Stats().Taken, int64(8))
}

func TestHTTPBusy(t *testing.T) {
	p := onFake(t, fakeengine.Faults{Hang: []string{"run"}})
	w := p.pool(t, warm.Options{Size: 1, MaxWaiting: 1})
	url := w.server().URL
	var all sync.WaitGroup
	all.Go(func() {
		code, _, body, err := post(t.Context(), url, "echo hello")
		assert.Check(t, err)
		assert.Check(t, code == http.StatusOK && body == "hello\n", "%d %s", code, body)
	})
	w.until("one waits", func(s warm.Stats) bool { return s.Waiting == 1 })
	code, _, _, err := post(t.Context(), url, "echo hello")
	assert.NilError(t, err)
	assert.Equal(t, code, http.StatusTooManyRequests)
	p.Fake.Set(fakeengine.Faults{})
	all.Wait()
}

// So many sandboxes are in use at a time, and no more.
func TestHTTPIsFull(t *testing.T) {
	p := onFake(t, fakeengine.Faults{})
	w := p.pool(t, warm.Options{Size: 2})
	l, err := net.Listen("tcp", "localhost:0")
	assert.NilError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, l, w.Pool, 1) }()
	url := "http://" + l.Addr().String()
	first, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		_, _, _, err := post(first, url, "while :; do :; done")
		assert.Check(t, errors.Is(err, context.Canceled), "%v", err)
	})
	w.until("taken", func(s warm.Stats) bool { return s.Taken == 1 })
	code, _, _, err := post(t.Context(), url, "echo hello")
	assert.NilError(t, err)
	assert.Equal(t, code, http.StatusTooManyRequests)
	leave()
	all.Wait()
	stop()
	assert.NilError(t, <-served)
	assert.Equal(t, w.Stats().Taken, int64(1))
}

// The command of a client that goes away ends, and its container with it.
func TestHTTPClientGoesAway(t *testing.T) {
	p := onFake(t, fakeengine.Faults{})
	w := p.pool(t, warm.Options{Size: 1})
	w.full(1)
	name := p.Containers(t)[0]
	server := w.server()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		_, _, _, err := post(ctx, server.URL, "while :; do :; done")
		assert.Check(t, errors.Is(err, context.Canceled), "%v", err)
	})
	w.until("taken", func(s warm.Stats) bool { return s.Taken == 1 && s.Idle == 1 })
	assert.Assert(t, p.Fake.Pid(name) != 0)
	begin := time.Now()
	cancel()
	all.Wait()
	server.Close() // waits for the handler
	assert.Assert(t, time.Since(begin) < 8*time.Second, "it ran until its deadline")
	assert.Equal(t, p.Fake.Pid(name), 0)
}

// A request that is under way at a SIGTERM is answered, and then nothing is left.
func TestHTTPSIGTERM(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		cmd, address, wait := p.start(t, "server")
		answered := make(chan string, 1)
		go func() {
			code, _, body, err := post(t.Context(), "http://"+address, "echo begun; until [ -e /tmp/go ]; do sleep 0.1; done; echo done")
			assert.Check(t, err)
			assert.Check(t, code == http.StatusOK, "%d", code)
			answered <- body
		}()
		// One is taken, and another takes its place.
		poll.WaitOn(t, func(poll.LogT) poll.Result {
			if n := len(p.Containers(t)); n < 4 {
				return poll.Continue("there are %d containers", n)
			}
			return poll.Success()
		}, poll.WithTimeout(patience))
		names := p.Containers(t)
		assert.NilError(t, cmd.Process.Signal(syscall.SIGTERM))
		for _, name := range names {
			// Those that are idle end.
			enginetest.Engine{Engine: p.Policy.Engine}.Client("exec", name, "touch", "/tmp/go")
		}
		assert.Equal(t, <-answered, "begun\ndone\n")
		assert.NilError(t, wait())
		assert.Equal(t, len(p.Containers(t)), 0)
	})
}
