package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxBody is how many bytes a message may have: a call's input, as JSON within JSON.
	maxBody = 16 << 20
	// maxRequests is how many requests of HTTP each client may have at once, on average.
	maxRequests = maxPending + 8
	// smallBody is how many bytes a message has as a rule. Of those that may have more,
	// each client may send maxLarge at once, on average.
	smallBody = 64 << 10
	maxLarge  = 2
	// bodyTimeout is how long a request's header may take to come, and then its body.
	bodyTimeout = 30 * time.Second
	// refusedTimeout is how long the connection of a request that is refused unread stays
	// open, so that a client which still sends finds the answer first.
	refusedTimeout = time.Second
	// grace is how long answers may take when the server ends.
	grace = 5 * time.Second

	sessionHeader = "Mcp-Session-Id"
)

// serveStdio serves one client until it goes or ctx ends.
func serveStdio(ctx context.Context, o *options) error {
	// A client that dies while it is answered must not end the program before it has
	// saved. A signal that were ignored would be ignored by the engine's clients too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	c := newClient(o, "")
	defer context.AfterFunc(ctx, c.end)()
	ran := make(chan error, 1)
	go func() {
		ran <- c.Run(ctx, &mcp.IOTransport{Reader: input{os.Stdin, c.end}, Writer: os.Stdout, MaxLineLength: maxBody})
	}()
	var err error
	select {
	case err = <-ran:
	case <-c.life.Done():
		// The SDK waits for answers that the client may not read.
		select {
		case err = <-ran:
		case <-time.After(grace):
		}
	}
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, c.close())
}

// An input is read until the client goes, which it tells.
type input struct {
	io.ReadCloser
	gone func()
}

func (i input) Read(p []byte) (int, error) {
	n, err := i.ReadCloser.Read(p)
	if err != nil {
		i.gone()
	}
	return n, err
}

// A server serves clients by HTTP.
type server struct {
	options  *options
	mcp      http.Handler
	none     *mcp.Server // for requests that begin nothing
	requests chan struct{}
	large    chan struct{} // of requests that may be large
	timeout  time.Duration // of a body

	mu      sync.Mutex
	clients map[string]*client
	closed  bool
	running sync.WaitGroup // of clients
}

func newServer(o *options) *server {
	s := &server{
		options: o, none: mcp.NewServer(&mcp.Implementation{Name: "cofferdam"}, &mcp.ServerOptions{SupportedProtocolVersions: versions}),
		requests: make(chan struct{}, o.clients*maxRequests), large: make(chan struct{}, o.clients*maxLarge), timeout: bodyTimeout,
		clients: map[string]*client{},
	}
	s.mcp = mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		if c, ok := r.Context().Value(beginner{}).(*client); ok {
			return c.Server
		}
		return s.none
	}, &mcp.StreamableHTTPOptions{SessionTimeout: o.idle, MaxRequestBodyBytes: maxBody})
	return s
}

// beginner is the key of the client that a request begins.
type beginner struct{}

// serveHTTP serves clients until ctx ends.
func serveHTTP(ctx context.Context, o *options) error {
	l, err := net.Listen("tcp", o.http)
	if err != nil {
		return err
	}
	if a, ok := l.Addr().(*net.TCPAddr); o.token == "" && (!ok || !a.IP.IsLoopback()) {
		l.Close()
		return fmt.Errorf("%v can be reached from elsewhere, and %s is not set", l.Addr(), tokenVar)
	}
	log.Printf("listening on http://%s", l.Addr())
	return serveListener(ctx, l, newServer(o))
}

// serveListener serves the clients that l accepts until ctx ends, and closes l.
func serveListener(ctx context.Context, l net.Listener, s *server) (err error) {
	h := &http.Server{Handler: s, ReadHeaderTimeout: bodyTimeout, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	served := make(chan error, 1)
	go func() { served <- h.Serve(l) }()
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.close()
	}()
	end, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if h.Shutdown(end) != nil {
		// With it end the answers that a client does not read, for which close waits.
		h.Close()
	}
	<-ended
	return err
}

// ServeHTTP refuses what must not be served, and leaves the rest to the SDK.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if code, why := s.refuse(r); code != 0 {
		// net/http reads a little of a body that nobody has read, and has no time for it.
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusedTimeout))
		if code == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, why, code)
		return
	}
	select {
	case s.requests <- struct{}{}:
		defer func() { <-s.requests }()
	default:
		s.busy(w, r)
		return
	}
	if r.Method != http.MethodPost {
		if _, err := s.read(w, r, smallBody); err != nil {
			unread(w, err)
			return
		}
		if c := s.client(r.Header.Get(sessionHeader)); c != nil && r.Method == http.MethodDelete {
			// The SDK waits for the calls that are under way.
			c.end()
		}
		s.mcp.ServeHTTP(w, r)
		return
	}
	if r.ContentLength < 0 || r.ContentLength > smallBody {
		select {
		case s.large <- struct{}{}:
			defer func() { <-s.large }()
		default:
			s.busy(w, r)
			return
		}
	}
	body, err := s.read(w, r, maxBody)
	if err != nil {
		unread(w, err)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if r.Header.Get(sessionHeader) != "" {
		s.mcp.ServeHTTP(w, r)
		return
	}
	c := s.begin()
	if c == nil {
		s.busy(w, r)
		return
	}
	// What begins no session leaves none behind.
	defer s.watch(c)
	s.mcp.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), beginner{}, c)))
}

// busy refuses what may be sent again later. It has the body come first and keeps nothing
// of it: a client that still sends when the connection is closed may not see the answer.
func (s *server) busy(w http.ResponseWriter, r *http.Request) {
	if err := s.receive(w, r, io.Discard, maxBody); err != nil {
		unread(w, err)
		return
	}
	w.Header().Set("Retry-After", "10")
	http.Error(w, "too many clients, or too many requests at once", http.StatusServiceUnavailable)
}

// refuse returns with which status a request is refused, and why; or 0. The SDK looks at
// the Host header, with which an origin may agree.
func (s *server) refuse(r *http.Request) (code int, why string) {
	origin := r.Header.Get("Origin")
	if origin != "" && origin != "http://"+r.Host && !slices.Contains(s.options.origins, origin) {
		return http.StatusForbidden, "the origin is not allowed"
	}
	if s.options.token == "" {
		return 0, ""
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || subtle.ConstantTimeCompare([]byte(token), []byte(s.options.token)) != 1 {
		return http.StatusUnauthorized, "the bearer token is missing or wrong"
	}
	return 0, ""
}

// unread refuses a request whose body did not come.
func unread(w http.ResponseWriter, err error) {
	var tooLarge *http.MaxBytesError
	code := http.StatusBadRequest
	if errors.As(err, &tooLarge) {
		code = http.StatusRequestEntityTooLarge
	}
	http.Error(w, err.Error(), code)
}

// read returns a request's body.
func (s *server) read(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	var body bytes.Buffer
	err := s.receive(w, r, &body, most)
	return body.Bytes(), err
}

// receive copies a request's body, for which there is a time.
func (s *server) receive(w http.ResponseWriter, r *http.Request, to io.Writer, most int64) error {
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(s.timeout)); err != nil {
		return err
	}
	if _, err := io.Copy(to, http.MaxBytesReader(w, r.Body, most)); err != nil {
		return err
	}
	return control.SetReadDeadline(time.Time{})
}

func (s *server) client(id string) *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clients[id]
}

// begin returns a new client, or nil if there are too many.
func (s *server) begin() *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.clients) >= s.options.clients {
		return nil
	}
	c := newClient(s.options, rand.Text())
	s.clients[c.id] = c
	s.running.Add(1)
	return c
}

// watch ends a client when its session has ended, or at once if it has none.
func (s *server) watch(c *client) {
	go func() {
		defer s.running.Done()
		s.mu.Lock()
		closed := s.closed
		s.mu.Unlock()
		if closed {
			// It may have connected after close had looked.
			c.disconnect()
		}
		for session := range c.Sessions() {
			session.Wait()
		}
		if err := c.close(); err != nil {
			log.Print(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.clients, c.id)
	}()
}

// close ends all clients, and waits until nothing of them is left.
func (s *server) close() {
	s.mu.Lock()
	s.closed = true
	clients := make([]*client, 0, len(s.clients))
	for _, c := range s.clients {
		clients = append(clients, c)
	}
	s.mu.Unlock()
	for _, c := range clients {
		c.end()
	}
	for _, c := range clients {
		c.disconnect()
	}
	s.running.Wait()
}

// disconnect closes what the client talks by.
func (c *client) disconnect() {
	for session := range c.Sessions() {
		session.Close()
	}
}
