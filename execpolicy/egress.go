package execpolicy

import (
	"fmt"
	"io"
	"maps"
	"os"
	"strings"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/container"
	"github.com/seed-64a260eb/cofferdam/internal/gate"
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
	why := container.NoListening(e, p.Runtime)
	if len(spec.Supervisor) == 0 {
		why = "only a session has one"
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
	if p.Egress != nil {
		maps.Copy(env, gate.ProxyVars(egressPort, spec.Env))
	}
	return env
}

// opener returns what opens the gate, once the command inside was heard. [Process.Kill]
// closes it, which a session calls even when the container has ended by itself.
func opener(g *gate.Gate, egress Egress, c *container.Container) func(record func(Event)) error {
	return func(record func(Event)) error {
		return g.Open(func() (io.Closer, error) {
			listener, err := c.Listen(egressPort)
			if err != nil {
				return nil, err
			}
			return egress.Serve(listener, record)
		})
	}
}
