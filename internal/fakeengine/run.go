package fakeengine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

// A message is what a run's client and the keeper of its container tell each other. The
// client sends the spec, then "start", and "eof" when its stdin has ended, or "keep" if
// that must stay open when the client is gone. The keeper sends "created", "started" and
// "exited", or "refused".
type message struct {
	Event   string
	Spec    *spec    `json:",omitempty"`
	Process process  `json:",omitzero"`
	Code    int      `json:",omitempty"`
	Refusal *refusal `json:",omitempty"`
}

// A link is a client's end of what connects it with a container's keeper.
type link struct {
	stdin, stdout, stderr *os.File
	events                *json.Decoder

	mu     sync.Mutex
	orders *json.Encoder
}

func (l *link) send(m message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.orders.Encode(m)
}

// run makes a container. It is a child of a process of its own, its keeper, which lives
// on when the client is killed.
func (c *client) run() *refusal {
	f := c.state.control()
	if f.Warning != "" {
		fmt.Fprintln(c.stderr, f.Warning)
	}
	s, r := c.spec()
	if r != nil {
		return r
	}
	if r := c.imageFor(s.Image); r != nil {
		return r
	}
	for i, m := range s.Mounts {
		if f.NoExec && m.Source == "" {
			s.Mounts[i].Flags = append(m.Flags, "noexec")
		}
	}
	// From here on the engine goes on without its client.
	c.atSignal(func(sig os.Signal) {
		if c.kind == dockercli.Podman || c.state.control().ZeroOnTerm {
			os.Exit(0)
		}
		os.Exit(128 + int(sig.(syscall.Signal)))
	})
	l, err := c.startKeeper(s)
	if err != nil {
		return &refusal{125, err.Error() + "\n"}
	}
	if m := l.next(); m.Event != "created" {
		return c.over(m)
	}
	l.send(message{Event: "start"})
	m := l.next()
	if m.Event != "started" {
		return c.over(m)
	}
	if c.line.set("detach") {
		fmt.Fprintln(c.stdout, s.ID)
		l.send(message{Event: "eof"})
		return nil
	}
	c.proxySignals(m.Process)
	return c.attach(l, s)
}

func (l *link) next() message {
	var m message
	_ = l.events.Decode(&m)
	return m
}

// over is the end of a run of which m is the last word; no word at all means that the
// keeper is gone.
func (c *client) over(m message) *refusal {
	switch m.Event {
	case "refused":
		return m.Refusal
	case "exited":
		c.exitCode = m.Code
		return nil
	}
	return &refusal{125, lost(c.kind)}
}

// imageFor sees to it that the image is there, as --pull has it.
func (c *client) imageFor(image string) *refusal {
	has, pull := c.hasImage(image), c.line.value("pull")
	if has && pull != "always" {
		return nil
	}
	if pull == "never" {
		return refuseRun(c.kind, refusal{125, "No such image: " + image}, refusal{125, image + ": image not known"})
	}
	if c.kind == dockercli.Docker {
		fmt.Fprintf(c.stderr, "Unable to find image '%s' locally\n", image)
	} else {
		fmt.Fprintf(c.stderr, "Trying to pull %s...\n", image)
	}
	if r := c.hold("pull", image); r != nil {
		r.Code = 125
		return r
	}
	if err := c.state.setPulled(image); err != nil {
		return &refusal{125, err.Error() + "\n"}
	}
	return nil
}

// self returns the command that starts this program in another role.
func self(kind dockercli.Kind, role string) *exec.Cmd {
	program, err := os.Executable()
	return &exec.Cmd{Path: program, Args: []string{kind.String(), role}, Err: err}
}

// leastPipe is what every pipe holds.
const leastPipe = 4096

// startKeeper starts a container's keeper in a session of its own, where no signal to the
// client's group reaches it, and tells it what to make.
func (c *client) startKeeper(s spec) (*link, error) {
	l := new(link)
	var orders, events *os.File
	cmd := self(c.kind, keeperVerb)
	cmd.Dir = "/"
	cmd.SysProcAttr = ownSession()
	for i, mine := range []**os.File{&l.stdin, &l.stdout, &l.stderr, &orders, &events} {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		theirs := w
		*mine = r
		if i == 0 || i == 3 {
			*mine, theirs = w, r
		}
		cmd.ExtraFiles = append(cmd.ExtraFiles, theirs)
		defer theirs.Close()
	}
	// The container's stdin has to be open for as long as the keeper wants.
	cmd.ExtraFiles = append(cmd.ExtraFiles, l.stdin)
	l.orders, l.events = json.NewEncoder(orders), json.NewDecoder(events)
	first, err := json.Marshal(message{Spec: &s})
	if err != nil {
		return nil, err
	}
	// Who sees the keeper may kill this client, and the container is made all the same:
	// the keeper finds its first order there. Only a very long one has to wait for its
	// reader.
	ahead := len(first) <= leastPipe
	if ahead {
		_, _ = orders.Write(first)
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if !ahead {
		_, _ = orders.Write(first)
	}
	go cmd.Wait()
	return l, nil
}

// proxySignals passes signals on to the container, as the engines' clients do.
func (c *client) proxySignals(p process) {
	signal.Ignore(syscall.SIGPIPE) // writing then fails, and tells why
	count := 0
	c.atSignal(func(sig os.Signal) {
		if c.state.control().ZeroOnTerm {
			os.Exit(0)
		}
		if count++; count == 3 && c.kind == dockercli.Docker {
			fmt.Fprintln(os.Stderr, "\ngot 3 SIGTERM/SIGINTs, forcefully exiting")
			os.Exit(1)
		}
		name := "TERM"
		if sig == os.Interrupt {
			name = "INT"
		}
		_ = p.signal(name)
	})
}

// attach passes the streams on until the container has ended.
func (c *client) attach(l *link, s spec) *refusal {
	var stdout, stderr sync.Mutex // writes of a flood stand between others, never inside
	go c.disturb(l, &stdout, &stderr)
	go func() {
		if s.Interactive {
			c.relay(l.stdin, os.Stdin, new(sync.Mutex))
		}
		l.send(message{Event: "eof"})
		l.stdin.Close()
	}()
	var wg sync.WaitGroup
	wg.Go(func() { c.output(os.Stdout, l.stdout, &stdout, s) })
	wg.Go(func() { c.output(os.Stderr, l.stderr, &stderr, s) })
	wg.Wait()
	m := l.next()
	c.stallNow("run")
	return c.over(m)
}

// stallNow is stall for what is under way: any call may be the one after which the engine
// hangs.
func (c *client) stallNow(verb string) {
	if len(c.state.control().Hang) > 0 {
		c.stall(verb, c.state.lastCall()+1)
	}
}

// relay copies until the source ends or the destination fails, whose error it returns.
func (c *client) relay(to io.Writer, from io.Reader, mu *sync.Mutex) error {
	buf := make([]byte, 32<<10)
	for {
		n, readErr := from.Read(buf)
		c.stallNow("run")
		mu.Lock()
		_, err := to.Write(buf[:n])
		mu.Unlock()
		if err != nil {
			return err
		}
		if readErr != nil {
			return nil
		}
	}
}

// output relays a stream of the container. The engines differ in what they do when nobody
// reads it any more.
func (c *client) output(to, from *os.File, mu *sync.Mutex, s spec) {
	err := c.relay(to, from, mu)
	if err == nil {
		return
	}
	if c.kind == dockercli.Docker {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if found, ok := c.state.find(s.ID); ok && s.Remove {
		_ = c.state.destroy(found)
	}
	os.Exit(126)
}

// disturb does to a run that is under way what the faults say.
func (c *client) disturb(l *link, stdout, stderr *sync.Mutex) {
	flood := bytes.Repeat([]byte("no command printed this line\n"), 1000)
	for {
		f := c.state.control()
		switch {
		case f.LoseConnection:
			l.send(message{Event: "keep"})
			fmt.Fprint(os.Stderr, lost(c.kind))
			os.Exit(125)
		case f.Flood == "stdout":
			stdout.Lock()
			_, _ = os.Stdout.Write(flood)
			stdout.Unlock()
		case f.Flood == "stderr":
			stderr.Lock()
			_, _ = os.Stderr.Write(flood)
			stderr.Unlock()
		default:
			c.nap()
		}
	}
}

// exec runs one more command in a container. It lives on when the client is killed.
func (c *client) exec() *refusal {
	found, r := c.container()
	if r != nil {
		return r
	}
	if len(c.line.operands) < 2 {
		return refuseFlag(c.kind, "exec", "exec requires at least 2 arguments")
	}
	st := found.status()
	if st.Status != "running" {
		return refuse(c.kind, refusal{1, fmt.Sprintf("Container %s is not running", found.ID)},
			refusal{255, "can only create exec sessions on running containers: container state improper"})
	}
	// An exec that is asked to end says that all is well.
	c.atSignal(func(os.Signal) { os.Exit(0) })
	s := found.spec
	s.Argv, s.Env = c.line.operands[1:], c.environment(s.Env)
	if dir := c.line.value("workdir"); dir != "" {
		s.Workdir = dir
	}
	if user := c.line.value("user"); user != "" {
		s.User = user
	}
	var stdin io.Reader
	if c.line.set("interactive") {
		stdin = os.Stdin
	}
	code, err := enter(st.Process, s, stdin, c.stdout, c.stderr)
	if err != nil {
		if c.kind == dockercli.Podman {
			return &refusal{code, fmt.Sprintf("Error: %v\n", err)}
		}
		fmt.Fprintf(c.stdout, "OCI runtime exec failed: exec failed: unable to start container process: %v: unknown\n", err)
	}
	c.exitCode = code
	return nil
}
