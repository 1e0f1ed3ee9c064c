package execpolicy_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/private"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// A link carries connections over TCP to a unix socket, unless it is frozen: then it
// holds what comes, ends of streams included, and takes no connection.
type link struct {
	net.Listener
	socket string

	mu     sync.Mutex
	thawed sync.Cond
	frozen bool
	ended  bool
	held   int // chunks that have come towards the engine since it was frozen
	conns  []net.Conn
}

func newLink(t *testing.T, socket string) *link {
	t.Helper()
	l := &link{socket: socket}
	l.thawed.L = &l.mu
	var err error
	l.Listener, err = net.Listen("tcp", "127.0.0.1:0")
	assert.NilError(t, err)
	var carrying sync.WaitGroup
	carrying.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			carrying.Go(func() { l.carry(client) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		l.mu.Lock()
		l.ended = true
		l.thawed.Broadcast()
		for _, c := range l.conns {
			c.Close()
		}
		l.mu.Unlock()
		carrying.Wait()
	})
	return l
}

// pass returns when the link is not frozen, and reports whether the test goes on.
func (l *link) pass(up bool, conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, conns...)
	if l.frozen && up {
		l.held++
	}
	for l.frozen && !l.ended {
		l.thawed.Wait()
	}
	return !l.ended
}

func (l *link) carry(client net.Conn) {
	defer client.Close()
	if !l.pass(false, client) {
		return
	}
	engine, err := net.Dial("unix", l.socket)
	if err != nil {
		return
	}
	defer engine.Close()
	var both sync.WaitGroup
	for i, from := range []net.Conn{client, engine} {
		to := []net.Conn{engine, client}[i]
		both.Go(func() {
			buf := make([]byte, 32<<10)
			for {
				n, err := from.Read(buf)
				if !l.pass(i == 0, from) {
					return
				}
				if n > 0 {
					if _, err := to.Write(buf[:n]); err != nil {
						return
					}
				}
				if err != nil {
					to.(interface{ CloseWrite() error }).CloseWrite()
					return
				}
			}
		})
	}
	both.Wait()
}

func (l *link) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen, l.held = true, 0
}

func (l *link) thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = false
	l.thawed.Broadcast()
}

func (l *link) heldAny() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held > 0
}

// A link over TCP that breaks without a word ends the session at both ends, and one that
// breaks for less than the keep-alive costs nothing.
func TestSilentLink(t *testing.T) {
	if testing.Short() {
		leftout.Note(t, "it is measured against the clock")
		return
	}
	enginetest.Check(t)
	d, err := private.Start(t.Context(), os.Stderr)
	if errors.Is(err, errors.ErrUnsupported) {
		leftout.Skip(t, "%v", err)
	}
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, d.Close()) })
	near := ownEngine{d, place{engine: d.Engine(), image: d.Image(), labels: map[string]string{"cofferdam-test": "own"}}}

	const keepAlive = 3 * time.Second
	// dial returns the same engine over a link of the test's own.
	dial := func(t *testing.T, keepAlive time.Duration) (*link, execpolicy.DockerPolicy) {
		host := near.engine.Global[len(near.engine.Global)-1]
		_, socket, ok := strings.Cut(host, "unix://")
		assert.Assert(t, ok, "%q", near.engine.Global)
		l := newLink(t, socket)
		enginetest.Check(t) // before the link is closed
		e, err := dockercli.Lookup(t.Context(), fmt.Sprintf("docker --host tcp://%s", l.Addr()))
		assert.NilError(t, err)
		assert.Assert(t, e.Remote)
		p := near.answering()
		p.Engine, p.KeepAlive, p.TerminationTimeout, p.Transport = e, keepAlive, stopping, execpolicy.TransportAuto
		return l, p
	}
	spec := func() execpolicy.Spec { return near.spec() }
	// ended waits for what the end of a session ends.
	ended := func(t *testing.T, done <-chan struct{}) {
		t.Helper()
		select {
		case <-done:
		case <-time.After(2*keepAlive + 2*patience):
			t.Fatal("the session's end does not show")
		}
	}
	// lost checks why a session was lost.
	lost := func(t *testing.T, err error) {
		t.Helper()
		assert.ErrorIs(t, err, execpolicy.ErrSilent)
		assert.ErrorIs(t, err, execpolicy.ErrEnded)
		t.Log(err)
	}
	gone := func(t *testing.T, since time.Time) {
		t.Helper()
		near.empty(t)
		took := time.Since(since)
		t.Logf("the container was gone after %v", took)
		assert.Check(t, took < 2*keepAlive+slack)
	}

	t.Run("cut under a command", func(t *testing.T) {
		l, p := dial(t, keepAlive)
		s := open(t, p, spec())
		job, err := s.StartJob(t.Context(), execpolicy.Command{Script: "sleep 1000"})
		assert.NilError(t, err)
		r := s.start(t.Context(), execpolicy.Command{Script: "echo begun; sleep 1000", Timeout: -1})
		cut := time.Now()
		l.freeze()
		gone(t, cut)
		enginetest.Within(t, 2*keepAlive+slack, "the command", func() { ended(t, r.done) })
		lost(t, r.err)
		assert.Equal(t, r.result.Outcome, execpolicy.OutcomeSessionLost)
		assert.Equal(t, string(r.result.Stdout), "begun\n")
		ended(t, job.Done())
		res, err := job.Wait(t.Context())
		lost(t, err)
		assert.Equal(t, res.Outcome, execpolicy.OutcomeSessionLost)
		_, err = s.Run(t.Context(), execpolicy.Command{Script: ":"})
		lost(t, err)
		l.thaw()
		s.Close()
	})
	t.Run("cut between commands", func(t *testing.T) {
		l, p := dial(t, keepAlive)
		s := open(t, p, spec())
		assert.Equal(t, s.ok("echo begun"), "begun")
		cut := time.Now()
		l.freeze()
		gone(t, cut)
		ended(t, s.Done())
		_, err := s.Run(t.Context(), execpolicy.Command{Script: ":"})
		lost(t, err)
		l.thaw()
		s.Close()
	})
	t.Run("cut under an upload", func(t *testing.T) {
		l, p := dial(t, keepAlive)
		s := open(t, p, spec())
		assert.Equal(t, s.ok("echo begun"), "begun")
		// The pipe of the client takes the beginning of it.
		r, w := io.Pipe()
		uploaded := make(chan struct{})
		var upload error
		go func() {
			defer close(uploaded)
			_, upload = s.Run(t.Context(), execpolicy.Command{Script: "cat", Stdin: r})
			r.Close() // who writes waits no more
		}()
		_, err := w.Write(make([]byte, 100<<10))
		assert.NilError(t, err)
		cut := time.Now()
		l.freeze()
		w.Close()
		gone(t, cut)
		ended(t, uploaded)
		lost(t, upload)
		l.thaw()
		s.Close()
	})
	t.Run("frozen for less", func(t *testing.T) {
		l, p := dial(t, ample/2)
		s := open(t, p, spec())
		assert.Equal(t, s.ok("x=5; echo $x"), "5")
		r := s.start(t.Context(), execpolicy.Command{Script: "echo begun; until [ -e go ]; do sleep 0.1; done; echo $x"})
		l.freeze()
		// A beat or a tick waits in it, and whatever the session asks for next.
		wait(t, l.heldAny, "something is held")
		near.cli(t, "exec", s.Name(), "touch", "/workspace/go")
		l.thaw()
		ended(t, r.done)
		assert.NilError(t, r.err)
		assert.Equal(t, string(r.result.Stdout), "begun\n5\n")
		l.freeze()
		wait(t, l.heldAny, "a beat is held")
		l.thaw()
		assert.Equal(t, s.ok("echo $x"), "5")
		assert.NilError(t, s.Close())
	})
	t.Run("frozen for longer", func(t *testing.T) {
		l, p := dial(t, keepAlive)
		s := open(t, p, spec())
		r := s.start(t.Context(), execpolicy.Command{Script: "echo begun; sleep 1000", Timeout: -1})
		cut := time.Now()
		l.freeze()
		gone(t, cut)
		l.thaw()
		ended(t, r.done)
		lost(t, r.err)
		assert.Equal(t, r.result.Outcome, execpolicy.OutcomeSessionLost)
		s.restart()
		assert.Equal(t, s.ok("echo on"), "on")
		assert.NilError(t, s.Close())
	})
	t.Run("it would live on", func(t *testing.T) {
		// Without a keep-alive nobody is told.
		l, p := dial(t, -1)
		s := open(t, p, spec())
		r := s.start(t.Context(), execpolicy.Command{Script: "echo begun; sleep 1000", Timeout: 2 * keepAlive})
		l.freeze()
		ended(t, r.done)
		assert.Equal(t, r.result.Outcome, execpolicy.OutcomeTimedOut)
		assert.Assert(t, strings.Contains(near.cli(t, "ps"), s.Name()))
		l.thaw()
		s.Close()
	})
}

// An engine elsewhere gets a keep-alive without being asked, and one of this machine
// none.
func TestKeepAliveOfZeroPolicy(t *testing.T) {
	enginetest.Check(t)
	fake := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{})
	for _, c := range []struct {
		remote      bool
		asked, want time.Duration
	}{
		{true, 0, 2 * time.Minute},
		{true, -1, -1},
		{true, time.Hour, time.Hour},
		{false, 0, 0},
		{false, time.Hour, time.Hour},
	} {
		e := *fake.Engine
		e.Remote = c.remote
		proc, err := execpolicy.DockerPolicy{Engine: &e, KeepAlive: c.asked}.Spawn(t.Context(), execpolicy.Spec{})
		assert.NilError(t, err)
		assert.Check(t, proc.KeepAlive == c.want, "remote %v, asked %v: %v", c.remote, c.asked, proc.KeepAlive)
		assert.NilError(t, proc.Kill(t.Context()))
		proc.Stdin.Close()
		proc.Stdout.Close()
		proc.Stderr.Close()
	}
}

// Beside a clock that runs for an hour nothing waits for the next beat.
func TestCommandsBesideAClock(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		policy := p.attached()
		policy.KeepAlive = time.Hour
		for name, shell := range workersAt(t, p) {
			spec := p.spec()
			spec.Command = shell
			s := open(t, policy, spec)
			for _, stdin := range []string{"abc", "", strings.Repeat("x", 100_000), ""} {
				for _, c := range []execpolicy.Command{{Script: "cat"}, {Argv: []string{"cat"}}} {
					if stdin != "" {
						c.Stdin = strings.NewReader(stdin)
					}
					r := s.run(c)
					assert.Assert(t, r.Outcome == execpolicy.OutcomeExited && string(r.Stdout) == stdin, "%s: %d bytes: %v", name, len(stdin), r.Outcome)
				}
			}
			assert.NilError(t, s.Close())
		}
	})
}

// A session with a keep-alive outlives it, whatever it does meanwhile.
func TestKeepAlive(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		const keepAlive = 5 * time.Second
		policy := p.attached()
		policy.KeepAlive = keepAlive
		s := open(t, policy, p.spec())
		begin := time.Now()
		assert.Equal(t, s.ok("x=5; echo $x"), "5")
		data := strings.Repeat("0123456789abcdef", 64<<10)
		for n := 0; time.Since(begin) < 2*keepAlive; n++ {
			assert.NilError(t, s.WriteFile(t.Context(), "file", []byte(data), 0o644))
			got, err := s.ReadFile(t.Context(), "file", 4<<20)
			assert.NilError(t, err)
			assert.Assert(t, string(got) == data)
			r := s.run(execpolicy.Command{Script: "cat; echo err >&2", Stdin: strings.NewReader(data[:n])})
			assert.Equal(t, string(r.Stdout), data[:n])
			assert.Equal(t, string(r.Stderr), "err\n")
			s.ok("sleep 0.5")
		}
		r := s.run(execpolicy.Command{Script: "sleep 1000", Timeout: 2 * keepAlive})
		assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
		assert.Assert(t, r.Gone)
		assert.Equal(t, s.ok("echo $x"), "5")
		assert.NilError(t, s.Close())
	})
}
