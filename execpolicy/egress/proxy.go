package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

const (
	// maxHead bounds a request.
	maxHead = 8 << 10
	// connectTimeout is for a lookup and all that is tried after it, and tryTimeout for
	// one address of at most maxTries.
	connectTimeout = 30 * time.Second
	tryTimeout     = 10 * time.Second
	maxTries       = 8
	// answerTimeout is for a client to take a refusal, and maxUnread what it may send
	// meanwhile: a connection that is closed with bytes unread is reset, and the refusal
	// may be lost.
	answerTimeout = time.Second
	maxUnread     = 64 << 10
	copyBytes     = 32 << 10
)

var (
	errIdle   = errors.New("nothing came for the time that an idle connection may stay")
	errBytes  = errors.New("MaxBytes are used up")
	errClosed = errors.New("the session's end")
)

// A proxy serves one container.
type proxy struct {
	rules    *rules
	lookup   func(ctx context.Context, name string) ([]netip.Addr, error)
	record   func(execpolicy.Event)
	listener *net.TCPListener
	slots    chan struct{} // one for each connection that is served
	idle     time.Duration
	request  time.Duration // for one to come
	limited  bool          // left counts
	left     atomic.Int64

	ctx     context.Context // ends with the proxy
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// Close ends the proxy and all that it does. It may be called again.
func (p *proxy) Close() error {
	p.cancel()
	p.listener.Close()
	p.running.Wait()
	return nil
}

// accept takes connections as long as there is room.
func (p *proxy) accept() {
	for {
		select {
		case p.slots <- struct{}{}:
		case <-p.ctx.Done():
			return
		}
		conn, err := p.listener.AcceptTCP()
		if err == nil {
			p.running.Go(func() {
				defer func() { <-p.slots }()
				p.serve(conn)
			})
			continue
		}
		<-p.slots
		// It may be that this program has no descriptor left for now.
		select {
		case <-p.ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// serve answers one connection, and records it.
func (p *proxy) serve(inside *net.TCPConn) {
	e := execpolicy.Event{Kind: execpolicy.EventEgress, Time: time.Now()}
	stop := context.AfterFunc(p.ctx, func() { inside.Close() })
	err := p.attempt(inside, &e)
	stop()
	inside.Close()
	if p.ctx.Err() != nil {
		err = errClosed
	}
	if err != nil {
		e.Error = err.Error()
	}
	e.Duration = time.Since(e.Time)
	p.record(e)
}

// attempt reads a request, does what it asks for or refuses it, and notes what becomes of
// that.
func (p *proxy) attempt(inside *net.TCPConn, e *execpolicy.Event) error {
	outside, early, err := p.open(inside, e)
	if err != nil {
		var refused *refusal
		if errors.As(err, &refused) {
			answer(inside, refused)
		}
		return err
	}
	stop := context.AfterFunc(p.ctx, func() { outside.Close() })
	defer stop()
	defer outside.Close()
	inside.SetDeadline(time.Now().Add(answerTimeout))
	if _, err := inside.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		return err
	}
	inside.SetDeadline(time.Time{})
	// A socket takes more only when a part of its buffer is free again, for which a
	// reader that is slow would need longer than it has, if the buffer could grow.
	inside.SetWriteBuffer(2 * copyBytes)
	t := &tunnel{proxy: p, inside: inside, outside: outside, start: time.Now()}
	err = t.carry(early)
	e.In, e.Out = t.in.Load(), t.out.Load()
	return err
}

// answer sends a refusal, and sees to it that the client can read it.
func answer(inside *net.TCPConn, refused *refusal) {
	inside.SetDeadline(time.Now().Add(answerTimeout))
	if _, err := inside.Write(refused.response()); err != nil {
		return
	}
	inside.CloseWrite()
	io.CopyN(io.Discard, inside, maxUnread)
}

// open returns a connection to what the client asks for, and what the client has sent
// after its request.
func (p *proxy) open(inside *net.TCPConn, e *execpolicy.Event) (outside *net.TCPConn, early []byte, err error) {
	inside.SetDeadline(time.Now().Add(p.request))
	head, early, err := readHead(inside)
	if err != nil {
		return nil, nil, err
	}
	d, target, refused := parseRequest(head)
	if refused != nil {
		return nil, nil, refused
	}
	e.Target = target
	if !p.rules.destinations[d] {
		return nil, nil, refuse(403, "%s is not a destination that this session may reach", target)
	}
	e.Target = d.String()
	ctx, cancel := context.WithTimeout(p.ctx, connectTimeout)
	defer cancel()
	addrs, err := p.addresses(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	for _, addr := range addrs[:min(len(addrs), maxTries)] {
		var tried error
		if outside, tried = dial(ctx, netip.AddrPortFrom(addr, d.port)); tried == nil {
			e.Addr = outside.RemoteAddr().String()
			return outside, early, nil
		}
		err = cmp.Or(err, tried)
	}
	return nil, nil, refuse(502, "%s can't be reached", d).because(err)
}

// readHead returns the head of a request, and what came after it.
func readHead(r io.Reader) (head, early []byte, err error) {
	buf := make([]byte, maxHead)
	for n := 0; n < len(buf); {
		got, err := r.Read(buf[n:])
		n += got
		if end := headEnd(buf[:n]); end > 0 {
			return buf[:end], buf[end:n], nil
		}
		if n > 0 && (buf[0] < 'A' || buf[0] > 'Z') {
			return nil, nil, refuse(400, "what does not begin with a capital letter is not HTTP")
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, nil, refuse(408, "the request did not come in time")
		case err == io.EOF:
			return nil, nil, refuse(400, "the request has no end")
		case err != nil:
			return nil, nil, err
		}
	}
	return nil, nil, refuse(431, "the request has more than %d bytes", maxHead)
}

// addresses returns where a destination may be reached. Nothing is looked up again after
// it, so what was judged is what is used.
func (p *proxy) addresses(ctx context.Context, d destination) ([]netip.Addr, error) {
	if d.addr.IsValid() {
		return []netip.Addr{d.addr}, nil
	}
	all, err := p.lookup(ctx, d.name)
	if err != nil {
		return nil, refuse(502, "the name %s was not found", d.name).because(err)
	}
	own, err := ownAddrs()
	if err != nil {
		return nil, refuse(502, "the addresses of this machine are not known").because(err)
	}
	var good []netip.Addr
	why := errors.New("it has no address")
	for _, addr := range all {
		if bad := p.rules.refuses(addr, own); bad != "" {
			why = fmt.Errorf("%v %s", addr, bad)
			continue
		}
		good = append(good, addr.Unmap())
	}
	if len(good) == 0 {
		return nil, refuse(403, "%s leads to no public address", d.name).because(why)
	}
	return good, nil
}

func dial(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// take reports whether that many more bytes may be carried.
func (p *proxy) take(n int) bool { return !p.limited || p.left.Add(-int64(n)) >= 0 }

// A tunnel carries bytes both ways.
type tunnel struct {
	*proxy
	inside, outside *net.TCPConn
	in, out         atomic.Int64 // bytes
	start           time.Time
	last            atomic.Int64 // when the last byte came, in nanoseconds after start
}

// until returns when the tunnel has been idle for too long, whatever becomes of the
// machine's clock meanwhile.
func (t *tunnel) until() time.Time { return t.start.Add(time.Duration(t.last.Load())).Add(t.idle) }

// carry returns when both ways have come to their ends, or one has failed.
func (t *tunnel) carry(early []byte) error {
	first := make(chan error, 1)
	fail := func(err error) {
		if err == nil {
			return
		}
		select {
		case first <- err:
		default:
		}
		t.inside.Close()
		t.outside.Close()
	}
	var other sync.WaitGroup
	other.Go(func() { fail(t.pass(t.inside, t.outside, &t.in, nil)) })
	fail(t.pass(t.outside, t.inside, &t.out, early))
	other.Wait()
	select {
	case err := <-first:
		return err
	default:
		return nil
	}
}

// write writes all of b, as long as some of it is taken, or the other way carries
// something, within the time that a connection may be idle.
func (t *tunnel) write(to *net.TCPConn, b []byte, count *atomic.Int64) error {
	for until := time.Now().Add(t.idle); ; until = t.until() {
		to.SetWriteDeadline(until)
		n, err := to.Write(b)
		count.Add(int64(n))
		if n > 0 {
			t.last.Store(int64(time.Since(t.start)))
		}
		switch b = b[n:]; {
		case err == nil:
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case !time.Now().Before(t.until()):
			return errIdle
		}
	}
}

// pass copies one way, and hands on its end.
func (t *tunnel) pass(to, from *net.TCPConn, count *atomic.Int64, early []byte) error {
	buf := make([]byte, copyBytes)
	for n, err := copy(buf, early), error(nil); ; {
		if n > 0 {
			if !t.take(n) {
				return errBytes
			}
			if err := t.write(to, buf[:n], count); err != nil {
				return err
			}
		}
		// The other way may have carried something meanwhile.
		until := t.until()
		switch {
		case err == io.EOF:
			to.CloseWrite()
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(until), err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			return errIdle
		default:
			return err
		}
		from.SetReadDeadline(until)
		n, err = from.Read(buf)
	}
}
