package remote

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// dialTimeout bounds a connection to a port of the same machine.
const dialTimeout = 10 * time.Second

// A Link passes on what goes over its connections, until it is cut. Its methods may be
// called at the same time.
type Link struct {
	listener net.Listener
	dial     func(ctx context.Context) (io.ReadWriteCloser, error)
	accepts  sync.WaitGroup

	mu     sync.Mutex
	ends   map[io.Closer]bool // of the connections that are there
	whole  chan struct{}      // closed while the link is not cut
	closed bool
}

// newLink makes a link with an address at this end, where nobody answers before it is
// opened.
func newLink(dial func(ctx context.Context) (io.ReadWriteCloser, error)) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Link{listener: listener, dial: dial, ends: map[io.Closer]bool{}, whole: make(chan struct{})}
	close(l.whole)
	return l, nil
}

// Address returns the address at this end, as "127.0.0.1:4711".
func (l *Link) Address() string { return l.listener.Addr().String() }

func (l *Link) open() {
	l.accepts.Add(1)
	go func() {
		defer l.accepts.Done()
		for {
			conn, err := l.listener.Accept()
			if err != nil {
				return
			}
			l.accepts.Add(1)
			go func() {
				defer l.accepts.Done()
				l.pass(conn)
			}()
		}
	}()
}

// Cut lets nothing through any more. As with a cable that is pulled, neither end is told.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.whole:
		l.whole = make(chan struct{})
	default:
	}
}

// Mend undoes Cut. What was sent meanwhile arrives.
func (l *Link) Mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.whole:
	default:
		close(l.whole)
	}
}

// Break ends every connection, of which both ends are told, as by a machine between them
// that starts anew. New ones can be made.
func (l *Link) Break() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for end := range l.ends {
		end.Close()
	}
}

// pass passes on one connection.
func (l *Link) pass(near net.Conn) {
	defer near.Close()
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	far, err := l.dial(ctx)
	if err != nil {
		near.(*net.TCPConn).SetLinger(0) // refused
		return
	}
	defer far.Close()
	if !l.add(near, far) {
		return
	}
	defer l.drop(near, far)
	var both sync.WaitGroup
	for to, from := range map[io.ReadWriteCloser]io.ReadWriteCloser{near: far, far: near} {
		both.Add(1)
		go func() {
			defer both.Done()
			err := l.copy(to, from)
			if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
				half.CloseWrite()
				return
			}
			to.Close()
			from.Close()
		}()
	}
	both.Wait()
}

func (l *Link) add(ends ...io.Closer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, end := range ends {
		l.ends[end] = true
	}
	return !l.closed
}

func (l *Link) drop(ends ...io.Closer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, end := range ends {
		delete(l.ends, end)
	}
}

// copy copies one direction. It returns nil at its end.
func (l *Link) copy(to io.Writer, from io.Reader) error {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		l.mu.Lock()
		whole := l.whole
		l.mu.Unlock()
		<-whole
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (l *Link) close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	err := l.listener.Close()
	l.Mend()
	l.Break()
	l.accepts.Wait()
	return err
}
