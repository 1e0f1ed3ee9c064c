package egress

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
)

// A List says what the programs of a container may reach. Its zero value names nothing,
// which a policy refuses. It is an [execpolicy.Egress].
type List struct {
	// Destinations are what may be reached, each a host and a port as in "pypi.org:443",
	// at most 256. A host is compared as a whole, without regard to case. There are no
	// patterns: "*.example.com" would let in whoever can make a name below it, and every
	// name is a message to the name server of its domain.
	//
	// A host may be an address, as in "192.0.2.1:443" or "[2001:db8::1]:443". It is
	// reached by that address only, even if that is private.
	Destinations []string
	// AllowPrivate are networks that a name in Destinations may lead to although their
	// addresses are not public or belong to this machine. If empty, such an address is
	// refused, because whoever answers for the name could make it lead to a service of
	// this machine, of its network or of its cloud.
	AllowPrivate []netip.Prefix
	// MaxTunnels is how many connections the proxy serves at a time. More wait. If zero,
	// 32. It is from 0 to 1024.
	MaxTunnels int
	// IdleTimeout is how long a connection may carry no byte before it is ended. If zero,
	// 5 min. It must not be negative. A program that reads less than 128 KiB in that time
	// may be taken for one that reads nothing, because the kernel tells no more.
	IdleTimeout time.Duration
	// MaxBytes is how many bytes all connections of one container may carry, both ways
	// together. If zero, there is no limit. It must not be negative.
	MaxBytes int64

	// lookup returns the addresses of a name. If nil, the system's resolver does.
	lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	// headTimeout is for a request to come. If zero, 10 s.
	headTimeout time.Duration
}

// Allow returns the List of these destinations.
func Allow(destinations ...string) List { return List{Destinations: destinations} }

const (
	maxDestinations    = 256
	defaultMaxTunnels  = 32
	maxMaxTunnels      = 1024
	defaultIdleTimeout = 5 * time.Minute
	defaultHeadTimeout = 10 * time.Second
)

// Check returns what the list allows, each as "host:port" and sorted, or one error that
// says all that is wrong with it and wraps [execpolicy.ErrInvalid].
func (l List) Check() ([]string, error) {
	r, err := l.rules()
	if err != nil {
		return nil, err
	}
	return r.texts(), nil
}

// rules reads the list.
func (l List) rules() (*rules, error) {
	r := &rules{destinations: map[destination]bool{}, private: l.AllowPrivate}
	var found problems.List
	for _, text := range l.Destinations {
		d, err := parseListed(text)
		if err != nil {
			found.Add("Egress: the destination %q: %w", text, err)
		}
		r.destinations[d] = true
	}
	if n := len(l.Destinations); n == 0 || n > maxDestinations {
		found.Add("Egress has %d destinations: it has to have 1 to %d", n, maxDestinations)
	}
	for _, network := range l.AllowPrivate {
		if !network.IsValid() || network.Addr().Is4In6() {
			found.Add("Egress: AllowPrivate has %v, which is not a network of IPv4 or IPv6", network)
		}
	}
	if l.MaxTunnels < 0 || l.MaxTunnels > maxMaxTunnels {
		found.Add("Egress: MaxTunnels is %d: it has to be 1 to %d, or 0 for %d", l.MaxTunnels, maxMaxTunnels, defaultMaxTunnels)
	}
	if l.IdleTimeout < 0 {
		found.Add("Egress: IdleTimeout is %v: it must not be negative", l.IdleTimeout)
	}
	if l.MaxBytes < 0 {
		found.Add("Egress: MaxBytes is %d: it must not be negative", l.MaxBytes)
	}
	return r, problems.Join(found...)
}

// Serve takes a listening socket over, and answers what connects to it until what Serve
// returns is closed. After an error, which wraps [execpolicy.ErrInvalid] if the list is
// at fault, the socket is closed. Close returns when no connection is left. Only a lookup
// that was given up may wait longer for its name server, as a rule for 5 s. record is
// called for each connection, when it is over.
func (l List) Serve(listener *os.File, record func(execpolicy.Event)) (io.Closer, error) {
	defer listener.Close()
	r, err := l.rules()
	if err != nil {
		return nil, err
	}
	socket, err := net.FileListener(listener)
	if err != nil {
		return nil, err
	}
	tcp, ok := socket.(*net.TCPListener)
	if !ok {
		socket.Close()
		return nil, fmt.Errorf("the listener is of %s and not of tcp", socket.Addr().Network())
	}
	p := &proxy{
		rules:    r,
		lookup:   l.lookup,
		record:   record,
		listener: tcp,
		slots:    make(chan struct{}, orDefault(l.MaxTunnels, defaultMaxTunnels)),
		idle:     orDefault(l.IdleTimeout, defaultIdleTimeout),
		limited:  l.MaxBytes > 0,
		request:  orDefault(l.headTimeout, defaultHeadTimeout),
	}
	p.left.Store(l.MaxBytes)
	if p.lookup == nil {
		p.lookup = lookup
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.running.Go(p.accept)
	return p, nil
}

func orDefault[T int | time.Duration](n, zero T) T {
	if n == 0 {
		return zero
	}
	return n
}

// lookup asks the system's name servers. The resolver that is written in Go gives up at
// once when ctx ends, where the C library's would stay behind in a thread.
func lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	resolver := net.Resolver{PreferGo: true}
	// Without the dot at its end the name might be completed by one of the search list.
	return resolver.LookupNetIP(ctx, "ip", name+".")
}
