package kube

import (
	"context"
	"strings"
	"sync"

	"github.com/seed-64a260eb/cofferdam/internal/kubectl"
)

// A Cluster is a kubectl program and where it points. The zero Cluster is the kubectl on
// PATH with its own configuration.
type Cluster struct {
	// Path is the kubectl program. If empty, it is looked for on PATH.
	Path string
	// Kubeconfig is the configuration file. If empty, kubectl chooses it, by the variable
	// KUBECONFIG.
	Kubeconfig string
	// Context is a name in the configuration. If empty, it is the current context.
	Context string
	// Namespace is that of the pods. If empty, it is the context's.
	Namespace string
	// Env is the environment of kubectl, each entry "key=value". If nil, it is this
	// program's. KUBERC=off is added: a user's own preferences could add flags.
	Env []string
}

// found are the clusters that were found, by what they were made of.
var found sync.Map

// Find returns the cluster with Path, Namespace and Env filled in, and Context if the
// configuration has one. An empty Kubeconfig stays empty. Find asks kubectl and not the
// cluster, and remembers the answer for the program's life. As a rule an error wraps
// [ErrNoKubectl], [ErrTooOld] or [ErrNoCluster], or the cause of ctx.
func (c Cluster) Find(ctx context.Context) (Cluster, error) {
	k, err := c.client(ctx)
	if err != nil {
		return Cluster{}, err
	}
	return Cluster{
		Path:       k.Path,
		Kubeconfig: k.Kubeconfig,
		Context:    k.Context,
		Namespace:  k.Namespace,
		Env:        k.Env,
	}, nil
}

// client returns what runs kubectl.
func (c Cluster) client(ctx context.Context) (*kubectl.Client, error) {
	key := strings.Join(
		[]string{c.Path, c.Kubeconfig, c.Context, c.Namespace, strings.Join(c.Env, "\x00")},
		"\x00\x00")
	if c.Env == nil {
		key += "\x00\x00nil"
	}
	if k, ok := found.Load(key); ok {
		return k.(*kubectl.Client), nil
	}
	k, err := kubectl.Find(ctx, kubectl.Client(c))
	if err != nil {
		return nil, err
	}
	found.Store(key, k)
	return k, nil
}

// String returns the cluster's name for results and errors.
func (c Cluster) String() string { return (*kubectl.Client)(&c).String() }
