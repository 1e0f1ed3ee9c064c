package execpolicy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/container"
)

// An Egress is a way out of a container that has no network: to a list of hosts, through
// a proxy in this program. Package execpolicy/egress has the one that there is. It is an
// interface so that programs without one link no network code.
type Egress interface {
	// Check returns what may be reached, each as "host:port" and sorted, or one error
	// that wraps [ErrInvalid] and says all that is wrong.
	Check() ([]string, error)
	// Serve answers what connects to a socket that listens in the container, and takes
	// the socket over. It calls record for each connection, when that is over; record
	// does not wait. The library closes what Serve returns when the container has ended
	// or is being ended. That Close must return when no connection and no goroutine is
	// left, and may be called again.
	Serve(listener *os.File, record func(Event)) (io.Closer, error)
}

const (
	// egressPort is of the container's own 127.0.0.1, where nobody has listened before.
	egressPort = 3128
	// labelEgress has what may be reached. So it is in the records, and in what the
	// engine tells of the container.
	labelEgress = container.LabelPrefix + "egress"
)

// egressText returns what Egress allows as one text; empty if nothing.
func (p *DockerPolicy) egressText() string {
	if p.Egress == nil {
		return ""
	}
	all, _ := p.Egress.Check()
	return strings.Join(all, ",")
}

// checkEgress reports what is wrong with Egress on any engine.
func (v *validation) checkEgress() {
	if v.Egress == nil {
		return
	}
	if _, err := v.Egress.Check(); err != nil {
		v.List = append(v.List, err)
	}
	if v.NetworkEnabled {
		v.Add("Egress and NetworkEnabled are both set: a network is a way out to everything")
	}
}

// noEgress returns why a container of that engine can't have the Egress, or nil. It
// depends on this program and its machine.
func (p *DockerPolicy) noEgress(e *dockercli.Engine, spec Spec) error {
	if p.Egress == nil {
		return nil
	}
	why := ""
	switch {
	case len(spec.Supervisor) == 0:
		why = "only a session has one"
	case runtime.GOOS != "linux":
		why = "containers don't share the kernel of this system"
	case e.Remote:
		why = "the engine may be on another machine"
	case e.PodmanService:
		why = "podman's service may be on another machine"
	case e.Kernel == "":
		why = "it is not known which kernel the engine has"
	case e.Kernel != ownKernel():
		why = "the engine has another kernel: " + e.Kernel
	case e.Rootless:
		why = "the engine is rootless, and its containers are in a user namespace that this program can't enter"
	case p.Runtime != "" && p.Runtime != "runc" && p.Runtime != "crun":
		why = fmt.Sprintf("the runtime %q may have a network of its own", p.Runtime)
	}
	for _, name := range []string{"network", "pid", "pod", "pod-id-file", "runtime", "userns"} {
		if why == "" && p.extra(e, name) {
			why = "ExtraRunArgs have --" + name
		}
	}
	if why == "" {
		err := container.MayListen()
		if err == nil {
			return nil
		}
		why = err.Error()
	}
	return fmt.Errorf("Egress: there is no way out: %s", why)
}

// sessionEnv returns the variables that a session has unless the spec sets them.
func (p *DockerPolicy) sessionEnv(spec Spec) map[string]string {
	// The root of a read-only container, which would be the home of a user without one,
	// can't be written to.
	env := map[string]string{"HOME": "/tmp"}
	if p.Egress == nil {
		return env
	}
	proxy := "http://127.0.0.1:" + strconv.Itoa(egressPort)
	for name, value := range map[string]string{
		"HTTPS_PROXY": proxy, "HTTP_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": "localhost,127.0.0.1,::1",
	} {
		// Programs differ in which of the two they read first.
		small := strings.ToLower(name)
		_, set := spec.Env[name]
		_, smallSet := spec.Env[small]
		if !set && !smallSet {
			env[name], env[small] = value, value
		}
	}
	return env
}

// A gate is the way out of one container. A nil gate is none.
type gate struct {
	egress    Egress
	container *container.Container

	mu     sync.Mutex
	closed bool
	proxy  io.Closer // nil if it is not open
}

var errGateClosed = errors.New("the container has ended")

// newGate returns a gate that is not open.
func (p *DockerPolicy) newGate(c *container.Container) *gate {
	if p.Egress == nil {
		return nil
	}
	return &gate{egress: p.Egress, container: c}
}

// open opens the gate, once the command inside was heard. [Process.Kill] closes it, which
// a session calls also when the container has ended by itself.
func (g *gate) open(record func(Event)) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return errGateClosed
	}
	listener, err := g.container.Listen(egressPort)
	if err == nil {
		g.proxy, err = g.egress.Serve(listener, record)
	}
	if err != nil {
		return fmt.Errorf("Egress: the way out can't be opened: %w", err)
	}
	return nil
}

// close closes the gate for good, and returns when nothing is left of it.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	if g.proxy != nil {
		g.proxy.Close()
		g.proxy = nil
	}
}

// kill closes the gate while kill ends the container, which is killed also if the gate
// does not close in time.
func (g *gate) kill(ctx context.Context, kill func(context.Context) error) error {
	if g == nil {
		return kill(ctx)
	}
	closed := make(chan error, 1)
	go func() { closed <- g.closeBy(ctx) }()
	err := kill(ctx)
	return errors.Join(err, <-closed)
}

// closeBy closes the gate, and waits for that most of the time until ctx ends.
func (g *gate) closeBy(ctx context.Context) error {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)*3/4)
		defer cancel()
	}
	err := abandonOnCancel(ctx, func() error {
		g.close()
		return nil
	})
	if err != nil {
		return fmt.Errorf("Egress: the way out is not closed: %w: %w", ErrStillThere, err)
	}
	return nil
}
