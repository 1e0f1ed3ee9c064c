//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/kubeplug"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/private"
)

// The program runs as several processes, which know by their first words what they are.
const (
	machineName = "cofferdam-kubernetes-machine"
	nodeName    = "cofferdam-kubernetes-node"
	policyName  = "cofferdam-policy"
)

// namespaced returns this program in another role, as process 1 of namespaces of its own.
// The mounts are unshared, and not cloned, because then package syscall makes them
// private first.
func namespaced(role string, args ...string) *exec.Cmd {
	return &exec.Cmd{
		Path: "/proc/self/exe",
		Args: append([]string{role}, args...),
		// Nothing of what the machine's programs were told.
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=/run"},
		Dir: "/",
		SysProcAttr: &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNET |
				syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
			Unshareflags: syscall.CLONE_NEWNS,
			Setsid:       true,
		},
	}
}

// serve takes orders on a socket.
func serve(socket string, do func(kubeplug.Order) error) (net.Listener, error) {
	// One of a node that lost its power.
	if err := os.RemoveAll(socket); err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	go accept(listener, func(conn net.Conn) {
		line, err := bufio.NewReader(io.LimitReader(conn, 1000)).ReadString('\n')
		var order kubeplug.Order
		if err == nil {
			order, err = kubeplug.Parse(strings.TrimSuffix(line, "\n"))
		}
		if err == nil {
			err = do(order)
		}
		answer := "done"
		if err != nil {
			answer = err.Error()
		}
		fmt.Fprintln(conn, answer)
	})
	return listener, nil
}

// accept handles connections until the listener is closed.
func accept(listener net.Listener, handle func(net.Conn)) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			handle(conn)
		}()
	}
}

// relay connects each connection to another one, until both directions have ended.
func relay(listener net.Listener, dial func() (net.Conn, error)) {
	accept(listener, func(a net.Conn) {
		b, err := dial()
		if err != nil {
			return
		}
		defer b.Close()
		done := make(chan struct{})
		go func() {
			copyHalf(a, b)
			close(done)
		}()
		copyHalf(b, a)
		<-done
	})
}

func copyHalf(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		// It was reset. The other side must not take it for an end.
		to.Close()
		from.Close()
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // it may be closed already
	}
}

// A machine is process 1 of the machine with the control plane.
type machine struct {
	cluster
	procs *procs
}

// runMachine brings up the network and the API server's way out, and takes orders. It
// ends with its stdin, and then the kernel ends everything that was ever started here,
// nodes and pods included, and takes the mounts and the networks away.
func runMachine(c cluster) error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	if os.Getpid() != 1 {
		return errors.New("this is not process 1")
	}
	if err := privateMounts(); err != nil {
		return err
	}
	m := &machine{c, newProcs()}
	err := m.procs.runAll(
		[]string{"ip", "link", "set", "dev", "lo", "up"},
		[]string{"ip", "address", "add", outsideIP + "/32", "dev", "lo"},
		[]string{"ip", "link", "add", "name", "nodes", "type", "bridge"},
		[]string{"ip", "address", "add", controlIP + "/24", "dev", "nodes"},
		[]string{"ip", "link", "set", "dev", "nodes", "up"})
	if err != nil {
		return err
	}
	outside, err := net.Listen("tcp", net.JoinHostPort(outsideIP, "80"))
	if err != nil {
		return err
	}
	go accept(outside, func(conn net.Conn) {
		if _, err := bufio.NewReader(conn).ReadString('\n'); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.0 200 OK\r\n\r\noutside\n")
		}
	})
	api, err := net.Listen("unix", c.path("api.sock"))
	if err != nil {
		return err
	}
	go relay(api, func() (net.Conn, error) { return net.Dial("tcp", apiHost) })
	if _, err := serve(c.path(machineSocket), m.do); err != nil {
		return err
	}
	select {}
}

func (m *machine) do(o kubeplug.Order) error {
	n, isNode := nodeOf(o.Part)
	switch {
	case o.Verb == "cut":
		return m.procs.run("ip", "link", "set", "dev", o.Part, "down")
	case o.Verb == "mend":
		return m.procs.run("ip", "link", "set", "dev", o.Part, "up")
	case o.Verb == "start" && isNode:
		return m.startNode(n)
	}
	return control(m.cluster, m.procs, o)
}

// control does what can be done with a single process.
func control(c cluster, p *procs, o kubeplug.Order) error {
	switch o.Verb {
	case "kill":
		return p.kill(o.Part)
	case "start":
		words := c.argv(o.Part)
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Dir = "/run"
		return p.startNamed(o.Part, c.log(o.Part), cmd)
	case "pause":
		_, err := p.signal(o.Part, syscall.SIGSTOP)
		return err
	case "resume":
		_, err := p.signal(o.Part, syscall.SIGCONT)
		return err
	}
	return fmt.Errorf("no %s for %s", o.Verb, o.Part)
}

// startNode switches a node on. Its cgroups are gone when it lost its power, as on any
// machine, and its disk is as it was.
func (m *machine) startNode(n node) error {
	if m.procs.get(n.String()) != nil {
		return fmt.Errorf("%v runs already", n)
	}
	if err := private.RemoveCgroups(m.cgroup(n.String())); err != nil {
		return err
	}
	if err := makeCgroup(m.cgroup(n.String())); err != nil {
		return err
	}
	// It may be gone with the node's network.
	_ = m.procs.run("ip", "link", "delete", "dev", n.String())
	if err := os.RemoveAll(m.path(n.String() + ".sock")); err != nil {
		return err
	}
	cmd := namespaced(nodeName, m.dir, m.cache, n.String())
	if err := m.procs.startNamed(n.String(), m.log(n.String()), cmd); err != nil {
		return err
	}
	child := m.procs.get(n.String())
	if child == nil {
		return fmt.Errorf("%v ended at once: see %s", n, m.log(n.String()))
	}
	err := m.procs.runAll(
		[]string{"ip", "link", "add", "name", n.String(), "type", "veth",
			"peer", "name", "eth0", "netns", fmt.Sprint(child.pid)},
		[]string{"ip", "link", "set", "dev", n.String(), "master", "nodes"},
		[]string{"ip", "link", "set", "dev", n.String(), "up"})
	if err == nil {
		err = await(func() error {
			_, err := os.Stat(m.path(n.String() + ".sock"))
			if m.procs.get(n.String()) == nil {
				return errEnded
			}
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("%v: %w: see %s", n, err, m.log(n.String()))
	}
	return nil
}

// runNode brings up a node, and takes orders.
func runNode(c cluster, n node) error {
	if os.Getpid() != 1 {
		return errors.New("this is not process 1")
	}
	if err := privateMounts(); err != nil {
		return err
	}
	if err := pretendProcessors(); err != nil {
		return err
	}
	p := newProcs()
	if err := await(func() error {
		_, err := net.InterfaceByName("eth0")
		return err
	}); err != nil {
		return err
	}
	for _, name := range []string{"ipv4/ip_forward", "ipv6/conf/all/disable_ipv6"} {
		// There may be no IPv6.
		err := os.WriteFile("/proc/sys/net/"+name, []byte("1"), 0o644)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	err := p.runAll(
		[]string{"ip", "link", "set", "dev", "lo", "up"},
		[]string{"ip", "address", "add", n.address() + "/24", "dev", "eth0"},
		[]string{"ip", "link", "set", "dev", "eth0", "up"},
		[]string{"ip", "route", "add", "default", "via", controlIP},
		// What kube-proxy would do for the one service that every cluster has.
		[]string{"iptables", "-w", "-t", "nat", "-A", "PREROUTING", "-d", serviceIP,
			"-p", "tcp", "--dport", "443", "-j", "DNAT",
			"--to-destination", apiHost})
	if err != nil {
		return err
	}
	for _, other := range nodes() {
		if other != n {
			err := p.run("ip", "route", "add", other.podNet(), "via", other.address())
			if err != nil {
				return err
			}
		}
	}
	const socket = "--address=/run/containerd/containerd.sock"
	ctr := c.debian("usr/bin/ctr")
	do := func(o kubeplug.Order) error {
		if err := control(c, p, o); err != nil {
			return err
		}
		if o.Verb == "start" && o.Part == n.part("containerd") {
			return await(func() error { return p.run(ctr, socket, "version") })
		}
		return nil
	}
	if err := do(kubeplug.Order{Verb: "start", Part: n.part("containerd")}); err != nil {
		return err
	}
	for _, image := range c.images() {
		err := p.run(ctr, socket, "--namespace=k8s.io", "images", "import", image)
		if err != nil {
			return err
		}
	}
	if err := do(kubeplug.Order{Verb: "start", Part: n.part("kubelet")}); err != nil {
		return err
	}
	if _, err := serve(c.path(n.String()+".sock"), do); err != nil {
		return err
	}
	select {}
}
