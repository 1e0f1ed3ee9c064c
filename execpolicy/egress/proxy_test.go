package egress_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/egress"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

// patience is for what comes at once unless the machine is busy.
const patience = time.Minute

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// names answers with the same addresses each time.
func names(of map[string][]string) func(context.Context, string) ([]netip.Addr, error) {
	return func(_ context.Context, name string) ([]netip.Addr, error) {
		var all []netip.Addr
		for _, addr := range of[name] {
			all = append(all, netip.MustParseAddr(addr))
		}
		if all == nil {
			return nil, errors.New("no such host")
		}
		return all, nil
	}
}

// A served list is a proxy on this machine's own loopback, with its records.
type served struct {
	addr    string
	records chan execpolicy.Event
	close   func()
}

func serve(t *testing.T, l egress.List) served {
	t.Helper()
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NilError(t, err)
	file, err := socket.(*net.TCPListener).File()
	assert.NilError(t, err)
	socket.Close()
	s := served{addr: socket.Addr().String(), records: make(chan execpolicy.Event, 1000)}
	closer, err := l.Serve(file, func(e execpolicy.Event) { s.records <- e })
	assert.NilError(t, err)
	s.close = func() { assert.Check(t, closer.Close()) }
	t.Cleanup(s.close)
	return s
}

// dial connects to the proxy.
func (s served) dial(t *testing.T) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	assert.NilError(t, err)
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	return conn.(*net.TCPConn)
}

// ask sends a request and returns the answer's status and text.
func (s served) ask(t *testing.T, request string) (status int, text string) {
	t.Helper()
	conn := s.dial(t)
	_, err := io.WriteString(conn, request)
	assert.NilError(t, err)
	defer conn.Close()
	return readAnswer(t, bufio.NewReader(conn))
}

func readAnswer(t *testing.T, r *bufio.Reader) (status int, text string) {
	t.Helper()
	answer, err := http.ReadResponse(r, &http.Request{Method: "GET"})
	assert.NilError(t, err)
	if answer.StatusCode == 200 {
		return 200, ""
	}
	body, err := io.ReadAll(answer.Body)
	assert.NilError(t, err)
	return answer.StatusCode, string(body)
}

// record returns the next record.
func (s served) record(t *testing.T) execpolicy.Event {
	t.Helper()
	select {
	case e := <-s.records:
		assert.Equal(t, e.Kind, execpolicy.EventEgress)
		return e
	case <-time.After(patience):
		t.Fatal("there is no record")
		panic("unreachable")
	}
}

// upstream is a server of lines on loopback: it returns the port.
func upstream(t *testing.T, serve func(*net.TCPConn)) string {
	t.Helper()
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NilError(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := socket.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				conn.SetDeadline(time.Now().Add(patience))
				serve(conn.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		socket.Close()
		running.Wait()
	})
	_, port, err := net.SplitHostPort(socket.Addr().String())
	assert.NilError(t, err)
	return port
}

func echo(conn *net.TCPConn) {
	io.Copy(conn, conn)
	conn.CloseWrite()
}

func connect(target string) string {
	return "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n"
}

// A client that knows proxies reaches a listed host by https.
func TestClient(t *testing.T) {
	enginetest.Check(t)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	l := egress.Allow("Example.com:" + port).WithLookup(names(map[string][]string{"example.com": {"127.0.0.1"}}))
	l.AllowPrivate = loopback
	s := serve(t, l)
	transport := server.Client().Transport.(*http.Transport).Clone()
	transport.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: s.addr})
	transport.TLSClientConfig.ServerName = "example.com"
	client := &http.Client{Transport: transport, Timeout: patience}
	answer, err := client.Get("https://example.com:" + port)
	assert.NilError(t, err)
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	assert.NilError(t, err)
	assert.Equal(t, string(body), "hello")
	transport.CloseIdleConnections()
	e := s.record(t)
	assert.Equal(t, e.Target, "example.com:"+port)
	assert.Equal(t, e.Addr, "127.0.0.1:"+port)
	// The client closes without reading what the server says to that, and what lies
	// unread by then makes the end a reset.
	if !strings.HasSuffix(e.Error, ": connection reset by peer") {
		assert.Equal(t, e.Error, "")
	}
	assert.Assert(t, e.In > 100 && e.Out > 100 && e.Duration > 0 && !e.Time.IsZero(), "%+v", e)

	answer, err = client.Get("http://example.com:" + port)
	assert.NilError(t, err)
	answer.Body.Close()
	assert.Equal(t, answer.StatusCode, http.StatusMethodNotAllowed)
	_, err = client.Get("https://other.example:" + port)
	assert.ErrorContains(t, err, "Forbidden")
	transport.CloseIdleConnections()
}

func TestRefuses(t *testing.T) {
	enginetest.Check(t)
	reached := make(chan string, 100)
	port := upstream(t, func(conn *net.TCPConn) { reached <- conn.RemoteAddr().String() })
	listed := upstream(t, echo)
	l := egress.Allow("good.example:"+port, "metadata.example:80", "mapped.example:80", "sixto4.example:80",
		"nat64.example:80", "unspecified.example:80", "mine.example:80", "none.example:80", "127.0.0.1:"+listed)
	own := "::1"
	addrs, err := net.InterfaceAddrs()
	assert.NilError(t, err)
	for _, a := range addrs {
		if prefix := netip.MustParsePrefix(a.String()); prefix.Addr().Is4() && !prefix.Addr().IsLoopback() {
			own = prefix.Addr().String()
		}
	}
	l = l.WithLookup(names(map[string][]string{
		"good.example": {"127.0.0.1"}, "other.example": {"127.0.0.1"}, "metadata.example": {"169.254.169.254"},
		"mapped.example": {"::ffff:127.0.0.1"}, "sixto4.example": {"2002:7f00:1::"}, "nat64.example": {"64:ff9b::a9fe:a9fe"},
		"unspecified.example": {"0.0.0.0", "::"}, "mine.example": {own},
	}))
	s := serve(t, l)
	for _, c := range []struct {
		request string
		status  int
		text    string
	}{
		{connect("good.example:" + port), 403, "127.0.0.1 is a loopback"},
		{connect("good.example:1"), 403, "not a destination"},
		{connect("other.example:" + port), 403, "not a destination"},
		{connect("sub.good.example:" + port), 403, "not a destination"},
		{connect("127.0.0.1:" + port), 403, "not a destination"},
		{connect("2130706433:" + port), 400, "number in a form"},
		{connect("0177.0.0.1:" + port), 400, "number in a form"},
		{connect("[::1]:" + port), 403, "not a destination"},
		{connect("[::ffff:127.0.0.1]:" + listed), 400, "mapped"},
		{connect("good.example:" + port + "@127.0.0.1:" + listed), 400, "the host has to be"},
		{connect("x@good.example:" + port), 400, "the host has to be"},
		{connect("good.example:" + port + "#"), 400, "port"},
		{connect("good.example\x00.evil.example:" + port), 400, "not HTTP"},
		{connect("metadata.example:80"), 403, "link-local"},
		{connect("mapped.example:80"), 403, "loopback"},
		{connect("sixto4.example:80"), 403, "loopback"},
		{connect("nat64.example:80"), 403, "link-local"},
		{connect("unspecified.example:80"), 403, "no public address"},
		{connect("mine.example:80"), 403, "no public address"},
		{connect("none.example:80"), 502, "not found"},
		{"GET http://good.example:" + port + "/ HTTP/1.1\r\nHost: good.example\r\n\r\n", 405, "only CONNECT"},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 50_000), 405, "only CONNECT"},
		{"CONNECT good.example:" + port + " HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "no content"},
		{"\x16\x03\x01\x02\x00", 400, "not HTTP"},
		{"CONNECT good.example:" + port + " HTTP/1.1\r\nA: " + strings.Repeat("a", 9000), 431, "bytes"},
	} {
		status, text := s.ask(t, c.request)
		e := s.record(t)
		assert.Check(t, status == c.status && strings.Contains(e.Error, c.text), "%.100q: %d %s", c.request, status, e.Error)
		// What names lead to outside is for the record alone.
		for _, outside := range []string{"link-local", "loopback", "lookup"} {
			assert.Check(t, !strings.Contains(text, outside), "%.100q: %s", c.request, text)
		}
		assert.Check(t, e.Error != "" && e.Addr == "" && e.In == 0 && e.Out == 0, "%.100q: %+v", c.request, e)
	}
	select {
	case from := <-reached:
		t.Fatalf("the server was reached from %s", from)
	default:
	}
	// What is an address in the list is reached by it.
	status, _ := s.ask(t, connect("127.0.0.1:"+listed))
	assert.Equal(t, status, 200)
	assert.Equal(t, s.record(t).Addr, "127.0.0.1:"+listed)
}

// The address that was judged is the one that is used, and each connection is judged
// anew.
func TestRebinding(t *testing.T) {
	enginetest.Check(t)
	port := upstream(t, echo)
	var lookups int
	answers := [][]string{{"127.0.0.1"}, {"127.0.1.1"}, {"127.0.1.1", "127.0.0.1", "10.0.0.1"}}
	l := egress.Allow("example.com:" + port).WithLookup(func(ctx context.Context, name string) ([]netip.Addr, error) {
		lookups++
		return names(map[string][]string{name: answers[lookups-1]})(ctx, name)
	})
	l.AllowPrivate = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/24")}
	s := serve(t, l)
	for i, want := range []int{200, 403, 200} {
		status, text := s.ask(t, connect("example.com:"+port))
		assert.Equal(t, status, want, text)
		assert.Equal(t, lookups, i+1)
		if want == 403 {
			e := s.record(t)
			for e.Addr != "" {
				e = s.record(t) // the first was that of the connection before
			}
			assert.Assert(t, strings.Contains(e.Error, "127.0.1.1 is a loopback"), e.Error)
		}
	}
}

// What follows a request is content of the tunnel, whatever it looks like.
func TestSecondRequest(t *testing.T) {
	enginetest.Check(t)
	port := upstream(t, echo)
	l := egress.Allow("example.com:" + port).WithLookup(names(map[string][]string{"example.com": {"127.0.0.1"}}))
	l.AllowPrivate = loopback
	s := serve(t, l)
	second := connect("evil.example:1")
	conn := s.dial(t)
	_, err := io.WriteString(conn, connect("example.com:"+port)+second)
	assert.NilError(t, err)
	r := bufio.NewReader(conn)
	status, _ := readAnswer(t, r)
	assert.Equal(t, status, 200)
	assert.NilError(t, conn.CloseWrite())
	rest, err := io.ReadAll(r)
	assert.NilError(t, err)
	assert.Equal(t, string(rest), second)
	e := s.record(t)
	assert.Equal(t, e.Error, "")
	assert.Equal(t, e.In, int64(len(second)))
	assert.Equal(t, e.Out, int64(len(second)))
}

// One way of a tunnel may end long before the other.
func TestHalfClose(t *testing.T) {
	enginetest.Check(t)
	const size = 1 << 20
	port := upstream(t, func(conn *net.TCPConn) {
		sent, _ := io.ReadAll(conn)
		fmt.Fprintf(conn, "%d bytes", len(sent))
		conn.Write(make([]byte, size))
	})
	l := egress.Allow("127.0.0.1:" + port)
	s := serve(t, l)
	conn := s.dial(t)
	io.WriteString(conn, connect("127.0.0.1:"+port))
	r := bufio.NewReader(conn)
	status, _ := readAnswer(t, r)
	assert.Equal(t, status, 200)
	_, err := conn.Write(make([]byte, size))
	assert.NilError(t, err)
	assert.NilError(t, conn.CloseWrite())
	got, err := io.ReadAll(r)
	assert.NilError(t, err)
	assert.Assert(t, strings.HasPrefix(string(got), fmt.Sprint(size, " bytes")), "%.20q", got)
	e := s.record(t)
	assert.Equal(t, e.Error, "")
	assert.Equal(t, e.Out, int64(size))
	assert.Equal(t, e.In, int64(len(got)))
}

func TestIdleTimeout(t *testing.T) {
	enginetest.Check(t)
	port := upstream(t, echo)
	l := egress.Allow("127.0.0.1:" + port)
	l.IdleTimeout = 300 * time.Millisecond
	s := serve(t, l)
	conn := s.dial(t)
	io.WriteString(conn, connect("127.0.0.1:"+port))
	_, err := io.ReadAll(conn)
	assert.Assert(t, !errors.Is(err, os.ErrDeadlineExceeded), err)
	e := s.record(t)
	assert.Assert(t, strings.Contains(e.Error, "idle"), e.Error)
	assert.Assert(t, e.Duration >= l.IdleTimeout)
}

// A connection carries something if one of its ways does. The other may wait for longer
// than it may be idle, as that of a body that the server reads only later.
func TestOneWayWaits(t *testing.T) {
	enginetest.Check(t)
	const size = 8 << 20
	l := egress.Allow()
	l.IdleTimeout = time.Second
	pause := l.IdleTimeout / 10
	port := upstream(t, func(conn *net.TCPConn) {
		for range 40 {
			if _, err := conn.Write([]byte("x")); err != nil {
				return
			}
			time.Sleep(pause)
		}
		io.Copy(io.Discard, conn)
	})
	l.Destinations = []string{"127.0.0.1:" + port}
	s := serve(t, l)
	conn := s.dial(t)
	io.WriteString(conn, connect("127.0.0.1:"+port))
	status, _ := readAnswer(t, bufio.NewReaderSize(conn, 16))
	assert.Equal(t, status, 200)
	go io.Copy(io.Discard, conn)
	_, err := conn.Write(make([]byte, size))
	assert.NilError(t, err)
	assert.NilError(t, conn.CloseWrite())
	e := s.record(t)
	assert.Equal(t, e.Error, "")
	assert.Equal(t, e.Out, int64(size))
}

// A reader that is slow takes something within the time all the same.
func TestSlowReader(t *testing.T) {
	enginetest.Check(t)
	const size = 8 << 20
	port := upstream(t, func(conn *net.TCPConn) { conn.Write(make([]byte, size)) })
	l := egress.Allow("127.0.0.1:" + port)
	l.IdleTimeout = time.Second
	s := serve(t, l)
	conn := s.dial(t)
	io.WriteString(conn, connect("127.0.0.1:"+port))
	status, _ := readAnswer(t, bufio.NewReaderSize(conn, 16))
	assert.Equal(t, status, 200)
	for begin, read := time.Now(), 0; time.Since(begin) < 3*l.IdleTimeout; time.Sleep(20 * time.Millisecond) {
		n, err := conn.Read(make([]byte, 8<<10))
		read += n
		assert.NilError(t, err, "after %d bytes", read)
	}
	conn.Close()
	e := s.record(t)
	assert.Assert(t, !strings.Contains(e.Error, "idle") && !strings.Contains(e.Error, "timeout"), e.Error)
	assert.Assert(t, e.Duration >= 3*l.IdleTimeout)
}

// What is quoted of a request is whole, so that a secret in it is found.
func TestRefusalsAreWhole(t *testing.T) {
	enginetest.Check(t)
	s := serve(t, egress.Allow("example.com:443"))
	secret := strings.Repeat("secret", 100)
	for request, want := range map[string]int{
		"GET http://example.com/?key=" + secret + " HTTP/1.1\r\n\r\n":     405,
		"CONNECT " + secret + " HTTP/3\r\n\r\n":                           505,
		"CONNECT " + secret + ":443 HTTP/1.1\r\n\r\n":                     400,
		"CONNECT example.com:443 HTTP/1.1\r\nX (: " + secret + "\r\n\r\n": 400,
		"A B C D " + secret + "\r\n\r\n":                                  400,
	} {
		status, text := s.ask(t, request)
		assert.Equal(t, status, want, request)
		assert.Assert(t, strings.Contains(text, secret), text)
		assert.Assert(t, strings.Contains(s.record(t).Error, secret))
	}
	// A secret would not be found in small letters.
	status, text := s.ask(t, "CONNECT A-Secret.example:443 HTTP/1.1\r\n\r\n")
	assert.Equal(t, status, 403)
	assert.Assert(t, strings.Contains(text, "A-Secret"), text)
	e := s.record(t)
	assert.Equal(t, e.Target, "A-Secret.example:443")
	assert.Assert(t, strings.Contains(e.Error, "A-Secret"), e.Error)
	// Nothing is quoted of what may be anything.
	status, text = s.ask(t, secret)
	assert.Equal(t, status, 400)
	assert.Assert(t, !strings.Contains(text, "secret"), text)
}

func TestMaxBytes(t *testing.T) {
	enginetest.Check(t)
	port := upstream(t, echo)
	l := egress.Allow("127.0.0.1:" + port)
	l.MaxBytes = 1000
	s := serve(t, l)
	conn := s.dial(t)
	io.WriteString(conn, connect("127.0.0.1:"+port)+strings.Repeat("x", 400))
	r := bufio.NewReader(conn)
	status, _ := readAnswer(t, r)
	assert.Equal(t, status, 200)
	_, err := io.ReadFull(r, make([]byte, 400))
	assert.NilError(t, err)
	io.WriteString(conn, strings.Repeat("x", 201))
	io.Copy(io.Discard, conn)
	e := s.record(t)
	assert.Assert(t, strings.Contains(e.Error, "MaxBytes"), e.Error)
	assert.Assert(t, e.In+e.Out <= 1000, "%+v", e)
	// Another connection has no more.
	conn = s.dial(t)
	io.WriteString(conn, connect("127.0.0.1:"+port)+"x")
	io.Copy(io.Discard, conn)
	e = s.record(t)
	assert.Assert(t, strings.Contains(e.Error, "MaxBytes") && e.Out == 0, "%+v", e)
}

// Connections beyond the limit wait, and slow requests give way.
func TestSlowRequests(t *testing.T) {
	enginetest.Check(t)
	port := upstream(t, echo)
	l := egress.Allow("127.0.0.1:" + port).WithHeadTimeout(time.Second)
	l.MaxTunnels = 2
	s := serve(t, l)
	for range 4 {
		io.WriteString(s.dial(t), "CONNECT 127.0.0.1")
	}
	status, text := s.ask(t, connect("127.0.0.1:"+port))
	assert.Equal(t, status, 200, text)
	late := 0
	for range 5 {
		if strings.Contains(s.record(t).Error, "in time") {
			late++
		}
	}
	assert.Equal(t, late, 4)
}

// Close ends connections in each of their states, and lookups.
func TestClose(t *testing.T) {
	enginetest.Check(t)
	hold, ended := make(chan struct{}), make(chan struct{}, 2)
	port := upstream(t, func(conn *net.TCPConn) {
		io.Copy(io.Discard, conn)
		ended <- struct{}{}
		<-hold
	})
	t.Cleanup(func() { close(hold) })
	asked := make(chan struct{})
	l := egress.Allow("127.0.0.1:"+port, "slow.example:1").WithLookup(func(ctx context.Context, _ string) ([]netip.Addr, error) {
		close(asked)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	s := serve(t, l)
	s.dial(t) // asks for nothing
	io.WriteString(s.dial(t), connect("slow.example:1"))
	for _, half := range []bool{false, true} {
		conn := s.dial(t)
		io.WriteString(conn, connect("127.0.0.1:"+port))
		status, _ := readAnswer(t, bufio.NewReader(conn))
		assert.Equal(t, status, 200)
		if half {
			assert.NilError(t, conn.CloseWrite())
			<-ended
		}
	}
	<-asked
	s.close()
	s.close()
	for range 4 {
		assert.Equal(t, s.record(t).Error, "the session's end")
	}
	_, err := net.Dial("tcp", s.addr)
	assert.Assert(t, err != nil)
}

// A flood of connections is served in turn, each with a record.
func TestFlood(t *testing.T) {
	enginetest.Check(t)
	l := egress.Allow("example.com:443")
	l.MaxTunnels = 4
	s := serve(t, l)
	const many = 300
	var running sync.WaitGroup
	for range 10 {
		running.Go(func() {
			for range many / 10 {
				conn, err := net.Dial("tcp", s.addr)
				if !assert.Check(t, err) {
					return
				}
				io.WriteString(conn, connect("other.example:443"))
				io.Copy(io.Discard, conn)
				conn.Close()
			}
		})
	}
	running.Wait()
	for range many {
		s.record(t)
	}
}

func TestServeRefuses(t *testing.T) {
	enginetest.Check(t)
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	assert.NilError(t, err)
	defer socket.Close()
	file, err := socket.File()
	assert.NilError(t, err)
	_, err = egress.Allow("example.com:443").Serve(file, nil)
	assert.Assert(t, err != nil)
	file, err = socket.File()
	assert.NilError(t, err)
	_, err = egress.List{}.Serve(file, nil)
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
}
