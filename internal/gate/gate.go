// Package gate opens a way out of a container, and sees to it that nothing is left of it
// when the container has been ended.
package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/policyerr"
)

// A Gate is the way out of one container. A nil Gate is none.
type Gate struct {
	// Field is what the policy has it by, for errors.
	Field string

	mu     sync.Mutex
	closed bool
	way    io.Closer // nil if it is not open
}

// ProxyVars returns the variables by which programs find a proxy that listens on that
// port of their own 127.0.0.1, but for those that are set.
func ProxyVars(port int, set map[string]string) map[string]string {
	proxy := "http://127.0.0.1:" + strconv.Itoa(port)
	vars := map[string]string{}
	for name, value := range map[string]string{
		"HTTPS_PROXY": proxy, "HTTP_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": "localhost,127.0.0.1,::1",
	} {
		// Programs differ in which of the two they read first.
		small := strings.ToLower(name)
		_, isSet := set[name]
		_, smallIsSet := set[small]
		if !isSet && !smallIsSet {
			vars[name], vars[small] = value, value
		}
	}
	return vars
}

var errClosed = errors.New("the container has ended")

// Open opens the gate, which closes what open returns.
func (g *Gate) Open(open func() (io.Closer, error)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return errClosed
	}
	var err error
	if g.way, err = open(); err != nil {
		return fmt.Errorf("%s: the way out can't be opened: %w", g.Field, err)
	}
	return nil
}

// close closes the gate for good, and returns when nothing is left of it.
func (g *Gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	if g.way != nil {
		g.way.Close()
		g.way = nil
	}
}

// Kill closes the gate while kill ends the container, which is killed even if the gate
// does not close in time.
func (g *Gate) Kill(ctx context.Context, kill func(context.Context) error) error {
	if g == nil {
		return kill(ctx)
	}
	closed := make(chan error, 1)
	go func() { closed <- g.closeBy(ctx) }()
	err := kill(ctx)
	return errors.Join(err, <-closed)
}

// closeBy closes the gate, and waits for that most of the time until ctx ends.
func (g *Gate) closeBy(ctx context.Context) error {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)*3/4)
		defer cancel()
	}
	err := bound.Call(ctx, func() error {
		g.close()
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: the way out is not closed: %w: %w", g.Field, policyerr.ErrStillThere, err)
	}
	return nil
}
