//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/kubeplug"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/private"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/setup"
	"github.com/seed-64a260eb/cofferdam/internal/filelock"
	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
)

// upTimeout bounds what takes ten seconds on an idle machine, without what the cache may
// lack.
const upTimeout = 5 * time.Minute

// A harness has a cluster that runs.
type harness struct {
	cluster
	lock    *os.File // held as long as the cluster may have something
	machine *exec.Cmd
	pipe    *os.File      // ends the machine when it is closed
	over    chan struct{} // closed when the machine has ended

	mu      sync.Mutex // held by who changes a part
	address string     // of the API server, on this machine
	api     net.Listener
	orders  net.Listener
}

// up brings up a cluster. It also returns a harness with an error if there is something
// to take down.
func up(ctx context.Context, progress io.Writer) (*harness, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("a cluster takes root")
	}
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	if err := fill(ctx, cache, progress); err != nil {
		return nil, err
	}
	h, err := reserve(cache)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, upTimeout,
		fmt.Errorf("the cluster is not up after %v", upTimeout))
	defer cancel()
	if err := h.up(ctx); err != nil {
		return h, fmt.Errorf("bringing up the cluster: %w\n%s", err, h.said())
	}
	return h, nil
}

// clustersLock is held by who makes or removes a cluster's directory.
const clustersLock = "kubernetes-clusters"

// reserve makes a directory for a cluster, and removes those of programs that were
// killed. The kernel has unlocked theirs.
func reserve(cache string) (*harness, error) {
	unlock, err := setup.Lock(clustersLock, false)
	if err != nil {
		return nil, err
	}
	defer unlock()
	clusters := filepath.Join(cache, "clusters")
	if err := os.MkdirAll(clusters, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(clusters)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		left := &harness{cluster: cluster{filepath.Join(clusters, entry.Name()), cache}}
		if err := left.open(); err != nil {
			return nil, err
		}
		if filelock.TryLock(left.lock) != nil {
			left.lock.Close() // it runs
			continue
		}
		if err := left.remove(); err != nil {
			return nil, err
		}
	}
	h := &harness{over: make(chan struct{})}
	dir, err := os.MkdirTemp(clusters, "")
	if err != nil {
		return nil, err
	}
	h.cluster = cluster{dir, cache}
	if err := h.open(); err != nil {
		return nil, err
	}
	return h, filelock.TryLock(h.lock)
}

func (h *harness) open() (err error) {
	h.lock, err = os.OpenFile(h.path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	return err
}

// remove removes what is left of a cluster that has ended.
func (h *harness) remove() error {
	err := errors.Join(private.RemoveCgroups(h.cgroup("")), os.RemoveAll(h.dir))
	return errors.Join(err, h.lock.Close())
}

func (h *harness) up(ctx context.Context) error {
	if err := h.prepare(); err != nil {
		return err
	}
	if err := h.boot(ctx); err != nil {
		return err
	}
	var err error
	if h.orders, err = serve(h.path(kubeplug.Socket), func(o kubeplug.Order) error {
		ctx, cancel := context.WithTimeout(context.Background(), upTimeout)
		defer cancel()
		return h.do(ctx, o)
	}); err != nil {
		return err
	}
	for _, part := range []string{"etcd", "apiserver"} {
		if err := h.forward(ctx, kubeplug.Order{Verb: "start", Part: part}); err != nil {
			return err
		}
	}
	// The nodes unpack images, while the API server starts.
	rest := append([]string{"controller-manager", "scheduler"}, kubeplug.Nodes()...)
	errs := make(chan error, len(rest))
	for _, part := range rest {
		go func() {
			var err error
			if _, isNode := nodeOf(part); !isNode {
				err = h.ready(ctx, "apiserver")
			}
			start := kubeplug.Order{Verb: "start", Part: part}
			errs <- errors.Join(err, h.forward(ctx, start))
		}()
	}
	for range rest {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		return err
	}
	if _, err := h.kubectl(ctx, "create", "-f", h.path("objects.yaml")); err != nil {
		return err
	}
	for _, n := range nodes() {
		if err := h.ready(ctx, n.String()); err != nil {
			return err
		}
	}
	if err := h.poll(ctx, func() error {
		_, err := h.kubectl(ctx, "get", "serviceaccount", "default")
		return err
	}); err != nil {
		return err
	}
	return h.prove(ctx)
}

// prepare writes the cluster's files.
func (h *harness) prepare() (err error) {
	if name := h.path(machineSocket); len(name) > 107 {
		return fmt.Errorf("%s is too long for a socket: set XDG_CACHE_HOME", name)
	}
	// Others on the machine may connect, and have no certificate.
	if h.api, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	h.address = h.api.Addr().String()
	if err := h.certificates(); err != nil {
		return err
	}
	if err := h.write(h.address); err != nil {
		return err
	}
	for _, dir := range []string{"log", "cni"} {
		if err := os.Mkdir(h.path(dir), 0o700); err != nil {
			return err
		}
	}
	for _, plugin := range []string{"ptp", "host-local", "loopback"} {
		err := os.Symlink(h.debian("usr/lib/cni/"+plugin), h.path("cni", plugin))
		if err != nil {
			return err
		}
	}
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	return os.WriteFile(h.path("cni", policyName), program, 0o700)
}

// boot starts process 1 of the machine.
func (h *harness) boot(ctx context.Context) error {
	log, err := os.Create(h.log("machine"))
	if err != nil {
		return err
	}
	defer log.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	h.pipe = write
	h.machine = namespaced(machineName, h.dir, h.cache)
	h.machine.Stdin, h.machine.Stdout, h.machine.Stderr = read, log, log
	if err := h.machine.Start(); err != nil {
		h.machine = nil
		return fmt.Errorf("namespaces of its own: %w", err)
	}
	go func() {
		_ = h.machine.Wait() // it is always ended
		close(h.over)
	}()
	h.listen(h.api)
	return h.poll(ctx, func() error {
		_, err := os.Stat(h.path(machineSocket))
		return err
	})
}

// listen passes on connections to the API server, which is in another network.
func (h *harness) listen(listener net.Listener) {
	h.api = listener
	to := h.path("api.sock")
	go relay(listener, func() (net.Conn, error) { return net.Dial("unix", to) })
}

// do carries out an order.
func (h *harness) do(ctx context.Context, o kubeplug.Order) error {
	if err := h.change(ctx, o); err != nil {
		return err
	}
	if o.Verb == "start" || o.Verb == "mend" {
		return h.ready(ctx, o.Part)
	}
	return nil
}

// change changes a part, and does not wait for its effect: a part may need another that
// is still to be started.
func (h *harness) change(ctx context.Context, o kubeplug.Order) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o == (kubeplug.Order{Verb: "kill", Part: "apiserver"}) {
		// So that connections are refused, as by a server that is gone.
		h.api.Close()
	}
	if err := h.forward(ctx, o); err != nil {
		return err
	}
	if o == (kubeplug.Order{Verb: "start", Part: "apiserver"}) {
		listener, err := net.Listen("tcp", h.address)
		if err != nil {
			return err
		}
		h.listen(listener)
	}
	return nil
}

func (h *harness) forward(ctx context.Context, o kubeplug.Order) error {
	return o.Send(ctx, h.socket(o.Part))
}

// ready waits until a part does its work.
func (h *harness) ready(ctx context.Context, part string) error {
	name := part
	if socket := filepath.Base(h.socket(part)); socket != machineSocket {
		name = strings.TrimSuffix(socket, ".sock")
	}
	if _, isNode := nodeOf(name); !isNode {
		return h.poll(ctx, func() error {
			_, err := h.kubectl(ctx, "get", "--raw=/readyz")
			return err
		})
	}
	return h.poll(ctx, func() error {
		// What the node's object says may be old, and is not enough.
		healthz := "/api/v1/nodes/" + name + "/proxy/healthz"
		if _, err := h.kubectl(ctx, "get", "--raw="+healthz); err != nil {
			return err
		}
		said, err := h.kubectl(ctx, "get", "node", name,
			`-o=jsonpath={.status.conditions[?(@.type=="Ready")].status}{.spec.taints}`)
		if err != nil {
			return err
		}
		if string(said) != "True" {
			return fmt.Errorf("%s is not ready: %s", name, said)
		}
		return h.knowsPods(ctx, name)
	})
}

// knowsPods returns an error if the kubelet of a node has not been told of all its pods
// since it started: till then it says of them that they do not exist.
func (h *harness) knowsPods(ctx context.Context, node string) error {
	pods := func(args ...string) (int, error) {
		said, err := h.kubectl(ctx, append([]string{"get"}, args...)...)
		if err != nil {
			return 0, err
		}
		var list struct{ Items []struct{} }
		err = json.Unmarshal(said, &list)
		return len(list.Items), err
	}
	all, err := pods("pods", "--all-namespaces", "--output=json",
		"--field-selector=spec.nodeName="+node)
	if err != nil {
		return err
	}
	known, err := pods("--raw=/api/v1/nodes/" + node + "/proxy/pods")
	if err == nil && known < all {
		err = fmt.Errorf("the kubelet of %s knows %d of %d pods", node, known, all)
	}
	return err
}

// poll asks until the answer is no error, or the context or the machine has ended.
func (h *harness) poll(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-h.over:
			return errors.New("the cluster's process 1 has ended")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// kubectl runs kubectl, and returns its stdout.
func (h *harness) kubectl(ctx context.Context, args ...string) ([]byte, error) {
	return output(ctx, procgroup.Cmd{Env: h.environ()},
		append([]string{h.kube("kubectl"), "--request-timeout=5s"}, args...)...)
}

// environ returns the variables by which programs know the cluster.
func (h *harness) environ() []string {
	return []string{
		"PATH=" + h.kube("") + string(os.PathListSeparator) + os.Getenv("PATH"),
		"KUBECONFIG=" + h.path("kubeconfig"),
		"KUBECACHEDIR=" + h.path("kubectl"), // else it is in the user's home
		kubeplug.DirVar + "=" + h.dir,
		kubeplug.NamespaceVar + "=" + namespace,
		kubeplug.ImageVar + "=" + imageName(),
		kubeplug.NetworkPolicyVar + "=" + networkPolicy,
		kubeplug.OutsideVar + "=" + net.JoinHostPort(outsideIP, "80"),
	}
}

// run runs a command in the main module.
func (h *harness) run(ctx context.Context, words []string) error {
	root, err := output(ctx, procgroup.Cmd{}, "go", "list", "-m", "-f={{.Dir}}", module)
	if err != nil {
		return err
	}
	// It finds the command on the PATH that the command has.
	env, err := exec.LookPath("env")
	if err != nil {
		return err
	}
	p, err := procgroup.Start(procgroup.Cmd{
		Path:   env,
		Args:   append([]string{"env"}, words...),
		Dir:    string(bytes.TrimSpace(root)),
		Env:    append(os.Environ(), h.environ()...),
		Stdout: os.Stdout, Stderr: os.Stderr,
		KillRest: true,
	})
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		if err := p.Stop(context.WithoutCancel(ctx), 10*time.Second); err != nil {
			return err
		}
		return context.Cause(ctx)
	}
	if !p.State().Success() {
		return fmt.Errorf("%s: %v", words[0], p.State())
	}
	return nil
}

// said returns the last lines of the logs.
func (h *harness) said() string {
	var all strings.Builder
	logs, _ := filepath.Glob(h.log("*")) // it fails for bad patterns only
	for _, log := range logs {
		content, _ := os.ReadFile(log)
		lines := strings.Split(string(bytes.TrimSpace(content)), "\n")
		for _, line := range lines[max(0, len(lines)-5):] {
			fmt.Fprintf(&all, "%s: %.500s\n", filepath.Base(log), line)
		}
	}
	return all.String()
}

// down takes the cluster down, in whatever state it is.
func (h *harness) down() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, listener := range []net.Listener{h.api, h.orders} {
		if listener != nil {
			listener.Close()
		}
	}
	if h.machine != nil {
		h.pipe.Close() // process 1 reads to the end, and ends
		timer := time.AfterFunc(30*time.Second, func() { _ = h.machine.Process.Kill() })
		defer timer.Stop()
		select {
		case <-h.over:
		case <-time.After(time.Minute):
			return fmt.Errorf("process 1 does not end: %s is left behind", h.dir)
		}
	}
	unlock, err := setup.Lock(clustersLock, false)
	if err != nil {
		return err
	}
	defer unlock()
	return h.remove()
}
