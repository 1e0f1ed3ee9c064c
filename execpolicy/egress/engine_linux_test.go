package egress_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/attest"
	"github.com/seed-64a260eb/cofferdam/execpolicy/egress"
	"github.com/seed-64a260eb/cofferdam/internal/container"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

// A recorder is an auditor that keeps what it gets.
type recorder struct {
	mu  sync.Mutex
	all []execpolicy.Event
}

func (r *recorder) take(e execpolicy.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, e)
	return nil
}

// of returns the records of a kind.
func (r *recorder) of(kind execpolicy.EventKind) []execpolicy.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var some []execpolicy.Event
	for _, e := range r.all {
		if e.Kind == kind {
			some = append(some, e)
		}
	}
	return some
}

// engines runs f for each engine that can have an Egress here.
func engines(t *testing.T, f func(t *testing.T, e enginetest.Engine)) {
	t.Helper()
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		if e.Rootless || e.Remote || e.PodmanService {
			leftout.Skip(t, "this engine's containers can't be entered")
		}
		if err := container.MayListen(); err != nil {
			leftout.Skip(t, "%v", err)
		}
		f(t, e)
	})
}

func policyOf(e enginetest.Engine, l egress.List) execpolicy.DockerPolicy {
	return execpolicy.DockerPolicy{Engine: e.Engine, Image: e.Image, Pull: dockercli.PullNever, Egress: l}
}

func start(t *testing.T, e enginetest.Engine, l egress.List, record execpolicy.Auditor) *execpolicy.Session {
	t.Helper()
	s, err := execpolicy.Start(t.Context(), policyOf(e, l), execpolicy.Spec{Labels: e.Labels, Audit: record})
	assert.NilError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func run(t *testing.T, s *execpolicy.Session, script string) string {
	t.Helper()
	res, err := s.Run(t.Context(), execpolicy.Command{Script: script, Timeout: patience})
	assert.NilError(t, err)
	assert.Equal(t, res.Outcome, execpolicy.OutcomeExited, res.Text())
	return string(res.Stdout) + string(res.Stderr)
}

// python runs a program that has read what the tests need.
func python(t *testing.T, s *execpolicy.Session, text string) string {
	t.Helper()
	return pythonTo(t, s, text, nil)
}

// pythonTo is python with a writer for what is printed.
func pythonTo(t *testing.T, s *execpolicy.Session, text string, stdout io.Writer) string {
	t.Helper()
	const begin = `
import os, socket, ssl, sys, urllib.request
def get(url):
    try:
        context = ssl._create_unverified_context()
        return urllib.request.urlopen(url, timeout=30, context=context).read().decode()
    except Exception as e:
        return repr(e)
def ask(data, whole=True):
    with socket.create_connection(("127.0.0.1", 3128), 30) as s:
        s.sendall(data)
        if whole: s.shutdown(socket.SHUT_WR)
        got = b""
        while True:
            more = s.recv(65536)
            if not more: return got.decode()
            got += more
def refused(f):
    try: f()
    except OSError as e: print("refused", e)
    else: print("REACHED")
`
	res, err := s.Run(t.Context(), execpolicy.Command{
		Argv: []string{"python3", "-"}, Stdin: strings.NewReader(begin + text), Stdout: stdout, Timeout: patience,
	})
	assert.NilError(t, err)
	assert.Equal(t, res.Outcome, execpolicy.OutcomeExited, res.Text())
	return string(res.Stdout) + string(res.Stderr)
}

// localTLS is a server that says hello, and the port that it has.
func localTLS(t *testing.T) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	server.Config.SetKeepAlivesEnabled(false)
	server.StartTLS()
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	assert.NilError(t, err)
	return port
}

// local is a list of one name that leads to this machine's loopback.
func local(port string) egress.List {
	l := egress.Allow("example.com:" + port).WithLookup(names(map[string][]string{"example.com": {"127.0.0.1"}}))
	l.AllowPrivate = loopback
	return l
}

func TestSession(t *testing.T) {
	engines(t, func(t *testing.T, e enginetest.Engine) {
		port := localTLS(t)
		var records recorder
		s := start(t, e, local(port), records.take)

		assert.Equal(t, python(t, s, fmt.Sprintf("print(get('https://example.com:%s'))", port)), "hello\n")
		assert.Assert(t, strings.Contains(python(t, s, "print(get('https://other.example'))"), "403"))
		assert.Assert(t, strings.Contains(python(t, s, "print(get('http://example.com'))"), "405"))
		// A job is in the same place.
		j, err := s.StartJob(t.Context(), execpolicy.Command{Argv: []string{"python3", "-c",
			"import socket; socket.create_connection(('127.0.0.1', 3128), 30); print('met')"}})
		assert.NilError(t, err)
		res, err := j.Wait(t.Context())
		assert.NilError(t, err)
		assert.Equal(t, string(res.Stdout), "met\n", res.Text())

		// After Restart too, and the old one is gone.
		assert.NilError(t, s.Restart(t.Context()))
		assert.Equal(t, python(t, s, fmt.Sprintf("print(get('https://example.com:%s'))", port)), "hello\n")
		assert.NilError(t, s.Close())

		all := records.of(execpolicy.EventEgress)
		assert.Equal(t, len(all), 5)
		assert.Equal(t, all[0].Target, "example.com:"+port)
		assert.Equal(t, all[0].Addr, "127.0.0.1:"+port)
		assert.Assert(t, all[0].In > 100 && all[0].Out > 100, "%+v", all[0])
		assert.Equal(t, all[1].Target, "other.example:443")
		assert.Assert(t, all[1].Error != "" && all[2].Error != "" && all[3].Error != "")
		spawns := records.of(execpolicy.EventSpawn)
		assert.Equal(t, len(spawns), 2)
		for i, seq := range []int{1, 2, 3, 4, 1} {
			assert.Equal(t, all[i].Seq, seq)
			assert.Equal(t, all[i].Name, spawns[i/4].Name)
		}
		assert.Assert(t, strings.Contains(strings.Join(spawns[0].Argv, " "), "--label=cofferdam.egress=example.com:"+port+" "))
	})
}

// The caller's own variables stay.
func TestVariables(t *testing.T) {
	engines(t, func(t *testing.T, e enginetest.Engine) {
		s, err := execpolicy.Start(t.Context(), policyOf(e, local("443")), execpolicy.Spec{
			Labels: e.Labels, Env: map[string]string{"https_proxy": "http://127.0.0.1:1"},
		})
		assert.NilError(t, err)
		defer s.Close()
		got := run(t, s, `echo "$HTTPS_PROXY" "$https_proxy" "$HTTP_PROXY" "$all_proxy" "$NO_PROXY"`)
		assert.Equal(t, got, " http://127.0.0.1:1 http://127.0.0.1:3128 http://127.0.0.1:3128 localhost,127.0.0.1,::1\n")
	})
}

// What has no proxy in its way has no way.
func TestNoOtherWay(t *testing.T) {
	engines(t, func(t *testing.T, e enginetest.Engine) {
		port := localTLS(t)
		own := ownAddr(t)
		s := start(t, e, local(port), nil)
		got := python(t, s, fmt.Sprintf(`
for host in ("127.0.0.1", "%[2]s", "8.8.8.8", "169.254.169.254"):
    refused(lambda: socket.create_connection((host, %[1]s), 5))
refused(lambda: socket.create_connection(("1.1.1.1", 53), 5))
refused(lambda: socket.getaddrinfo("example.com", 443))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
refused(lambda: u.sendto(b"x", ("8.8.8.8", 53)))
u6 = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
refused(lambda: u6.sendto(b"x", ("2001:4860:4860::8888", 53)))
`, port, own))
		assert.Assert(t, !strings.Contains(got, "REACHED"), got)
		assert.Equal(t, strings.Count(got, "refused ["), 8, got)
		// The container has loopback alone, and none of this machine's sockets.
		assert.Equal(t, run(t, s, "ls /sys/class/net 2>/dev/null | grep -v -e lo -e tunl0 -e sit0 -e gre -e ip6 -e erspan -e vti"), "")
		assert.Equal(t, run(t, s, "grep -c ' 0A ' /proc/net/tcp"), "1\n")
	})
}

// ownAddr returns an address of this machine that is not its loopback.
func ownAddr(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	assert.NilError(t, err)
	for _, a := range addrs {
		if prefix := netip.MustParsePrefix(a.String()); prefix.Addr().Is4() && !prefix.Addr().IsLoopback() {
			return prefix.Addr().String()
		}
	}
	return "192.0.2.1"
}

// namespaces returns the network namespaces that the kernel knows of processes.
func namespaces(t *testing.T) map[string]bool {
	t.Helper()
	threads, err := filepath.Glob("/proc/self/task/*/ns/net")
	assert.NilError(t, err)
	all := map[string]bool{}
	for _, thread := range threads {
		if target, err := os.Readlink(thread); err == nil {
			all[target] = true
		}
	}
	return all
}

// A container that dies takes everything with it: see enginetest.Check for what is left.
func TestKilledContainer(t *testing.T) {
	engines(t, func(t *testing.T, e enginetest.Engine) {
		held := make(chan struct{}, 1)
		port := upstream(t, func(conn *net.TCPConn) {
			held <- struct{}{}
			io.Copy(io.Discard, conn)
		})
		var records recorder
		s := start(t, e, local(port), records.take)
		run(t, s, fmt.Sprintf(`python3 -c 'import socket, time
s = socket.create_connection(("127.0.0.1", 3128))
s.sendall(b"CONNECT example.com:%s HTTP/1.1\r\n\r\n")
s.recv(100)
time.sleep(1000)' >/dev/null 2>&1 &`, port))
		select {
		case <-held:
		case <-time.After(patience):
			t.Fatal("nobody came")
		}
		assert.Equal(t, len(namespaces(t)), 1)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		assert.NilError(t, e.Remove(ctx, s.Name()))
		select {
		case <-s.Done():
		case <-ctx.Done():
			t.Fatal("the session goes on")
		}
		assert.NilError(t, s.Close())
		all := records.of(execpolicy.EventEgress)
		assert.Equal(t, len(all), 1)
		assert.Equal(t, all[0].Target, "example.com:"+port)
	})
}

// A writerFunc is called for each write.
type writerFunc func(b []byte)

func (f writerFunc) Write(b []byte) (int, error) {
	f(b)
	return len(b), nil
}

// Hostile requests get answers, and a flood of them displaces no record of the caller's
// commands.
func TestHostile(t *testing.T) {
	engines(t, func(t *testing.T, e enginetest.Engine) {
		port := upstream(t, func(*net.TCPConn) { t.Error("the server was reached") })
		l := egress.Allow("example.com:"+port, "rebinds.example:"+port).WithLookup(names(map[string][]string{
			"example.com": {"127.0.0.1"}, "rebinds.example": {"169.254.169.254", "64:ff9b::7f00:1"},
		}))
		var records recorder
		slow := make(chan struct{})
		s := start(t, e, l, func(r execpolicy.Event) error {
			if r.Kind == execpolicy.EventEgress {
				<-slow // the flood is over before the first is taken
				if r.Seq == 1 {
					return errors.New("no room")
				}
			}
			return records.take(r)
		})
		flooded := sync.OnceFunc(func() { close(slow) })
		defer flooded()
		got := pythonTo(t, s, fmt.Sprintf(`
for target in ("example.com:%[1]s", "rebinds.example:%[1]s", "127.0.0.1:%[1]s", "[::1]:%[1]s", "[::ffff:127.0.0.1]:%[1]s",
        "0x7f.1:%[1]s", "2130706433:%[1]s", "a@example.com:%[1]s", "example.com:%[1]s#", "example.com\0:%[1]s", "example.com:53",
        "http://example.com:%[1]s/", "127.0.0.1:3128"):
    print(ask(f"CONNECT {target} HTTP/1.1\r\nHost: example.com:%[1]s\r\n\r\n".encode()).split("\r\n")[0])
for _ in range(300):
    ask(b"CONNECT flood.example:443 HTTP/1.1\r\n\r\n")
print("flooded")
`, port), writerFunc(func(b []byte) {
			if strings.Contains(string(b), "flooded") {
				flooded()
			}
		}))
		lines := strings.Split(strings.TrimSpace(got), "\n")
		assert.Equal(t, len(lines), 14, got)
		for _, line := range lines[:13] {
			assert.Assert(t, strings.HasPrefix(line, "HTTP/1.1 40"), line)
		}
		assert.Equal(t, run(t, s, "echo still here"), "still here\n")
		err := s.Close()
		assert.ErrorIs(t, err, execpolicy.ErrAudit)
		assert.ErrorContains(t, err, "no room")
		assert.ErrorContains(t, err, "more were lost")
		commands, results := records.of(execpolicy.EventCommand), records.of(execpolicy.EventResult)
		assert.Equal(t, len(commands), 2)
		assert.Equal(t, len(results), 2)
		assert.Equal(t, len(records.of(execpolicy.EventEnd)), 1)
		last := 1
		for _, r := range records.of(execpolicy.EventEgress) {
			assert.Assert(t, r.Seq > last, "%d comes after %d", r.Seq, last)
			last = r.Seq
		}
	})
}

// What can't have a way out is refused before anything is started.
func TestRefusedBeforeStart(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		good := egress.Allow("example.com:443")
		for _, c := range []struct {
			why    string
			change func(p *execpolicy.DockerPolicy)
		}{
			{"Egress has 0 destinations", func(p *execpolicy.DockerPolicy) { p.Egress = egress.List{} }},
			{"Egress and NetworkEnabled", func(p *execpolicy.DockerPolicy) { p.NetworkEnabled = true }},
			{"may have a network of its own", func(p *execpolicy.DockerPolicy) { p.Runtime = "runsc" }},
			{"ExtraRunArgs have --network", func(p *execpolicy.DockerPolicy) {
				p.ExtraRunArgs, p.AllowUnsafeArgs = []string{"--network=bridge"}, []string{"network"}
			}},
			{"ExtraRunArgs have --pod", func(p *execpolicy.DockerPolicy) {
				p.ExtraRunArgs, p.AllowUnsafeArgs = []string{"--pod=other"}, []string{"pod"}
			}},
			{"on another machine", func(p *execpolicy.DockerPolicy) {
				remote := *e.Engine
				remote.Remote = true
				p.Engine = &remote
			}},
			{"rootless", func(p *execpolicy.DockerPolicy) {
				rootless := *e.Engine
				rootless.Rootless = true
				p.Engine = &rootless
			}},
			{"another kernel", func(p *execpolicy.DockerPolicy) {
				other := *e.Engine
				other.Kernel = "1.0"
				p.Engine = &other
			}},
		} {
			if strings.HasSuffix(c.why, "--pod") && e.Kind != dockercli.Podman {
				continue // no other engine has pods
			}
			p := policyOf(e, good)
			c.change(&p)
			err := execpolicy.Check(t.Context(), p, execpolicy.Spec{})
			assert.ErrorIs(t, err, execpolicy.ErrInvalid)
			assert.ErrorContains(t, err, c.why)
			_, err = p.Spawn(t.Context(), execpolicy.Spec{Supervisor: []string{"sh"}})
			assert.ErrorContains(t, err, c.why)
		}
		_, err := policyOf(e, good).Spawn(t.Context(), execpolicy.Spec{})
		assert.ErrorContains(t, err, "only a session has one")
		compat := execpolicy.Compat()
		compat.Engine, compat.Egress = e.Engine, good
		assert.ErrorContains(t, execpolicy.Check(t.Context(), compat, execpolicy.Spec{}), "Egress is not among the fields")
	})
}

// A report names what may be reached, and says that there is no network.
func TestAttested(t *testing.T) {
	engines(t, func(t *testing.T, e enginetest.Engine) {
		s, r, err := attest.Start(t.Context(), policyOf(e, egress.Allow("b.example:443", "a.example:443")),
			execpolicy.Spec{Labels: e.Labels}, attest.Options{Require: []attest.Protection{attest.NoNetwork}})
		assert.NilError(t, err)
		assert.NilError(t, s.Close())
		assert.DeepEqual(t, r.Egress, []string{"a.example:443", "b.example:443"})
		found := r.Finding(attest.NoNetwork)
		assert.Equal(t, found.InForce, attest.Yes)
		assert.Assert(t, strings.Contains(found.Note, "reaches 2 destinations"), found.Note)
	})
}

// brokenEgress can't serve.
type brokenEgress struct{ egress.List }

func (brokenEgress) Serve(listener *os.File, _ func(execpolicy.Event)) (io.Closer, error) {
	listener.Close()
	return nil, errors.New("it is broken")
}

// A way out that can't be opened fails the start, and leaves nothing.
func TestFailsClosed(t *testing.T) {
	engines(t, func(t *testing.T, e enginetest.Engine) {
		p := policyOf(e, egress.List{})
		p.Egress = brokenEgress{egress.Allow("example.com:443")}
		_, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{Labels: e.Labels})
		assert.ErrorIs(t, err, execpolicy.ErrStart)
		assert.ErrorContains(t, err, "it is broken")
	})
}

// stuckEgress does not close in time.
type stuckEgress struct {
	egress.List
	end chan struct{}
}

func (s stuckEgress) Serve(listener *os.File, _ func(execpolicy.Event)) (io.Closer, error) {
	listener.Close()
	return s, nil
}

func (s stuckEgress) Close() error {
	<-s.end
	return nil
}

// A way out that does not close is told of, and its container is removed all the same.
func TestStuck(t *testing.T) {
	engines(t, func(t *testing.T, e enginetest.Engine) {
		stuck := stuckEgress{egress.Allow("example.com:443"), make(chan struct{})}
		p := policyOf(e, egress.List{})
		p.Egress = stuck
		s, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{Labels: e.Labels})
		assert.NilError(t, err)
		err = s.Close()
		close(stuck.end)
		assert.ErrorIs(t, err, execpolicy.ErrStillThere)
		assert.ErrorContains(t, err, "the way out is not closed")
		assert.Assert(t, !strings.Contains(err.Error(), s.Name()), "the container is not gone: %v", err)
		_, err = e.Inspect(t.Context(), s.Name())
		assert.ErrorIs(t, err, dockercli.ErrNoContainer)
	})
}

// A real engine without root's rights is known for one before anything is started.
func TestRootless(t *testing.T) {
	e := enginetest.Rootless(t)
	p := policyOf(e, egress.Allow("example.com:443"))
	p.User = "0:0" // there is no other
	_, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{Labels: e.Labels})
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
	assert.ErrorContains(t, err, "rootless")
}
