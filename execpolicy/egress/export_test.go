package egress

import (
	"context"
	"net/netip"
	"time"
)

// WithHeadTimeout returns the list with another time for a request to come.
func (l List) WithHeadTimeout(timeout time.Duration) List {
	l.headTimeout = timeout
	return l
}

// WithLookup returns the list with a resolver of the test's own.
func (l List) WithLookup(lookup func(ctx context.Context, name string) ([]netip.Addr, error)) List {
	l.lookup = lookup
	return l
}
