// Package kubeplug tells tests of the cluster that they run beside, which is that of
// internal/kubernetes, and pulls its plugs: it kills, pauses, starts and cuts off parts
// of it.
package kubeplug

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// These are the variables of the environment by which the cluster's program tells tests
// of it. KUBECONFIG and PATH name the credentials and kubectl, as they do anywhere.
const (
	// DirVar names the directory with the cluster's socket, certificates and logs. It is
	// set where there is a cluster.
	DirVar = "COFFERDAM_KUBERNETES"
	// NamespaceVar names the namespace for the tests, which is that of KUBECONFIG too.
	// Pod Security "restricted" is enforced there.
	NamespaceVar = "COFFERDAM_KUBERNETES_NAMESPACE"
	// ImageVar names the tests' image, which each node holds.
	ImageVar = "COFFERDAM_KUBERNETES_IMAGE"
	// NetworkPolicyVar names the NetworkPolicy of the namespace that denies everything to
	// pods with the label cofferdam.network=none.
	NetworkPolicyVar = "COFFERDAM_KUBERNETES_NETWORK_POLICY"
	// OutsideVar holds the host:port of a web server outside of the cluster, which pods
	// reach if they have a network.
	OutsideVar = "COFFERDAM_KUBERNETES_OUTSIDE"
)

// Socket is the name of the socket for orders in a directory.
const Socket = "orders.sock"

// Nodes returns the names of the nodes.
func Nodes() []string { return []string{"node-1", "node-2"} }

// Parts returns the names of all that can be killed, paused and started. A kubelet and a
// containerd have the number of their node. A node that is killed loses its power: its
// kubelet, its containerd and every process of its pods end at once.
func Parts() []string {
	return append([]string{"etcd", "apiserver", "controller-manager", "scheduler",
		"kubelet-1", "kubelet-2", "containerd-1", "containerd-2"}, Nodes()...)
}

// Kill kills a part, and returns when it has ended.
func Kill(ctx context.Context, part string) error { return tell(ctx, "kill", part) }

// Start starts a part that was killed, and returns when it works again, for which all
// that it needs must work too.
func Start(ctx context.Context, part string) error { return tell(ctx, "start", part) }

// Pause stops a part, which keeps its connections and answers nothing. A node can't be
// paused.
func Pause(ctx context.Context, part string) error { return tell(ctx, "pause", part) }

// Resume lets a part go on that was paused.
func Resume(ctx context.Context, part string) error { return tell(ctx, "resume", part) }

// Cut disconnects a node from everything else. Its pods go on.
func Cut(ctx context.Context, node string) error { return tell(ctx, "cut", node) }

// Mend connects a node that was cut off, and returns when it works again.
func Mend(ctx context.Context, node string) error { return tell(ctx, "mend", node) }

func tell(ctx context.Context, verb, part string) error {
	dir := os.Getenv(DirVar)
	if dir == "" {
		return errors.New(DirVar + " names no cluster")
	}
	o, err := Parse(verb + " " + part)
	if err != nil {
		return err
	}
	return o.Send(ctx, filepath.Join(dir, Socket))
}

// An Order is what a test wants done to a part of the cluster.
type Order struct {
	Verb, Part string
}

func (o Order) String() string { return o.Verb + " " + o.Part }

// Parse returns the order that a line holds.
func Parse(line string) (Order, error) {
	verb, part, _ := strings.Cut(line, " ")
	parts := Parts()
	switch verb {
	case "kill", "start":
	case "pause", "resume":
		parts = slices.DeleteFunc(parts, isNode)
	case "cut", "mend":
		parts = Nodes()
	default:
		return Order{}, fmt.Errorf("%q is not an order", line)
	}
	if !slices.Contains(parts, part) {
		return Order{}, fmt.Errorf("%s %q: it is none of %s", verb, part,
			strings.Join(parts, ", "))
	}
	return Order{verb, part}, nil
}

func isNode(part string) bool { return slices.Contains(Nodes(), part) }

// Send sends the order to a socket, and waits until it is done.
func (o Order) Send(ctx context.Context, socket string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("%v: %w", o, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := fmt.Fprintln(conn, o); err != nil {
		return fmt.Errorf("%v: %w", o, err)
	}
	// A receiver that dies has not said that it is done.
	answer, err := io.ReadAll(conn)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%v: %w", o, context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("%v: %w", o, err)
	case string(answer) != "done\n":
		said := strings.TrimSpace(string(answer))
		if said == "" {
			said = "the cluster has ended"
		}
		return fmt.Errorf("%v: %s", o, said)
	}
	return nil
}
