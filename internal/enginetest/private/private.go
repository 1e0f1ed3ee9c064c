// Package private runs a daemon of the tests' own, docker's or podman's, which can be
// stopped, resumed, killed and started again without touching the machine's engines.
//
// The daemon lives in namespaces of its own for processes, mounts, the network and IPC,
// with a small process 1 that starts it and sends it signals. So a signal can reach
// nothing else, nothing is changed on the host's network or among its mounts, and
// whatever happens to the program that started it, the kernel ends all of it, containers
// included, as soon as that program is gone. Its images and containers are in memory. On
// the host there is one directory, which holds its socket and its log, and one cgroup;
// they stay, empty of processes, if the program is killed.
package private

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/setup"
)

//go:embed init.sh
var initScript string

// Name is the first word of the command line of a daemon's process 1, which is a child of
// the program that started it.
const Name = "cofferdam-private-engine"

const (
	// startTimeout is for the daemon to answer. On an idle machine it does so after a
	// fifth of a second.
	startTimeout = time.Minute
	fillTimeout  = 10 * time.Minute // for the image, which may have to be made
	tellTimeout  = time.Minute      // for process 1 to obey, which takes milliseconds
	closeTimeout = time.Minute      // for the kernel to end everything

	socket     = "/docker.sock"
	longestDir = 107 - len(socket) // which is as long as the name of a unix socket may be
)

// A Setup says what a daemon is, and what is beside it. The zero Setup is a dockerd that
// is reached by its socket.
type Setup struct {
	// Podman says that it is podman's service.
	Podman bool
	// Args are the last words of the daemon's command line.
	Args []string
	// Beside is a script for bash that runs before the daemon starts, among its mounts.
	// What it leaves running ends with the daemon.
	Beside string
	// Client is the command line of the daemon's client. If empty, it is docker's, by the
	// daemon's socket.
	Client string
	// Env are more variables of the daemon's environment, each "key=value".
	Env []string
}

// A Daemon is an engine. Its methods may be called at the same time, but for those
// that start and end it.
type Daemon struct {
	setup  Setup
	dir    string
	cgroup string // of all its containers
	engine *dockercli.Engine
	image  string

	first   *exec.Cmd // process 1
	over    chan struct{}
	mu      sync.Mutex // held by who talks to process 1
	orders  *os.File
	answers *os.File
	closed  sync.Once
	err     error // of Close
}

// Start starts a dockerd that holds the tests' image, with these flags; ctx bounds the
// start only. What takes time is told to log. It takes Linux, root, bash, dockerd and the
// docker client: where one of them is missing, the error wraps [errors.ErrUnsupported].
func Start(ctx context.Context, log io.Writer, flags ...string) (*Daemon, error) {
	d, err := New(Setup{Args: flags})
	if err != nil {
		return nil, err
	}
	if err := d.Fill(ctx, log); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// New makes what a daemon runs in, and nothing that answers yet. It takes what [Start]
// takes, or podman in place of docker.
func New(setup Setup) (*Daemon, error) {
	d := &Daemon{setup: setup, over: make(chan struct{})}
	if err := d.boot(); err != nil {
		return nil, errors.Join(fmt.Errorf("an engine of the tests' own: %w", err), d.Close())
	}
	return d, nil
}

// Fill starts the daemon for the first time, and sees to it that it holds the tests'
// image. What takes time is told to log.
func (d *Daemon) Fill(ctx context.Context, log io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, fillTimeout,
		fmt.Errorf("the daemon does not hold the image after %v", fillTimeout))
	defer cancel()
	err := d.Start(ctx)
	if err == nil {
		err = d.load(ctx, log)
	}
	if err != nil {
		return fmt.Errorf("an engine of the tests' own: %w", err)
	}
	return nil
}

// boot starts process 1.
func (d *Daemon) boot() (err error) {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return fmt.Errorf("%w: it takes Linux and root", errors.ErrUnsupported)
	}
	programs := map[string]string{"bash": "", "dockerd": "", "docker": ""}
	if d.setup.Podman {
		programs = map[string]string{"bash": "", "podman": ""}
	}
	for name := range programs {
		if programs[name], err = exec.LookPath(name); err != nil {
			return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
		}
	}
	if d.dir, err = os.MkdirTemp("", "engine-"); err != nil {
		return err
	}
	if len(d.dir) > longestDir || strings.HasPrefix(d.dir, "/run/") {
		return fmt.Errorf("%s can't hold its socket: set TMPDIR to a short path that is not below /run", d.dir)
	}
	d.cgroup = CgroupOf(d.dir)
	log, err := os.Create(filepath.Join(d.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	read, orders, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	d.orders = orders
	answers, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer write.Close()
	d.answers = answers
	daemon := []string{programs["dockerd"],
		"--config-file=/run/daemon.json", "--host=" + d.host(), "--data-root=/run/data", "--exec-root=/run/docker",
		"--pidfile=/run/docker.pid",
		"--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false",
		// Another driver would ask systemd to keep the containers.
		"--exec-opt=native.cgroupdriver=cgroupfs", "--cgroup-parent=/" + d.cgroup,
	}
	if d.setup.Podman {
		daemon = []string{programs["podman"], "--root=/run/data", "--runroot=/run/containers"}
	}
	first := &exec.Cmd{
		Path: programs["bash"],
		Args: slices.Concat([]string{Name, "-c", initScript, Name, d.dir, d.setup.Beside}, daemon, d.setup.Args),
		// Nothing of what the machine's engine was told.
		Env:   append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/run"}, d.setup.Env...),
		Dir:   "/",
		Stdin: read, Stdout: write, Stderr: log,
	}
	isolate(first)
	if err := first.Start(); err != nil {
		return fmt.Errorf("%w: namespaces of its own: %w", errors.ErrUnsupported, err)
	}
	d.first = first
	go func() {
		_ = first.Wait() // it is always ended
		close(d.over)
	}()
	return d.inNetwork(loopback)
}

// CgroupOf returns the name of the cgroup of a dockerd in that directory.
func CgroupOf(dir string) string { return "cofferdam-" + filepath.Base(dir) }

func (d *Daemon) host() string { return "unix://" + d.dir + socket }

// client returns the command line of the daemon's client, and its kind.
func (d *Daemon) client() (spec string, kind dockercli.Kind) {
	if d.setup.Podman {
		kind = dockercli.Podman
	}
	if spec = d.setup.Client; spec == "" {
		spec = fmt.Sprintf("docker --host '%s'", d.host())
	}
	return spec, kind
}

// Dial connects to a port of the daemon's loopback, which only its own processes could
// reach else.
func (d *Daemon) Dial(ctx context.Context, port string) (conn net.Conn, err error) {
	err = d.inNetwork(func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", port))
		return err
	})
	return conn, err
}

// Engine returns the client, set to this daemon.
func (d *Daemon) Engine() *dockercli.Engine { return d.engine }

// Image returns the name of the tests' image, which the daemon holds.
func (d *Daemon) Image() string { return d.image }

// Start starts the daemon again after Kill or Stop, on the same data, and returns when it
// answers.
func (d *Daemon) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout,
		fmt.Errorf("the daemon did not answer within %v", startTimeout))
	defer cancel()
	if alive, err := d.alive(); alive || err != nil {
		return errors.Join(errors.New("the daemon runs already, or process 1 does not"), err)
	}
	if _, err := d.tell("start"); err != nil {
		return err
	}
	client, kind := d.client()
	for {
		e, err := dockercli.Lookup(ctx, client)
		if err == nil && e.Kind != kind {
			return fmt.Errorf("%s is no client of %s", e.Path, kind)
		}
		if err == nil {
			if d.engine == nil {
				d.engine = e
			}
			return nil
		}
		alive, aliveErr := d.alive()
		switch {
		case errors.Is(err, dockercli.ErrNoEngine), ctx.Err() != nil, aliveErr != nil:
			return errors.Join(err, context.Cause(ctx), aliveErr, d.said())
		case !alive:
			return fmt.Errorf("the daemon ended: %w", d.said())
		}
		wait(ctx, pause)
	}
}

// pause is between two looks.
const pause = 20 * time.Millisecond

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// said returns the last lines of the log.
func (d *Daemon) said() error {
	log, _ := os.ReadFile(filepath.Join(d.dir, "log"))
	lines := strings.Split(string(bytes.TrimSpace(log)), "\n")
	return errors.New(strings.Join(lines[max(0, len(lines)-5):], "\n"))
}

// load loads the tests' image and tries it out.
func (d *Daemon) load(ctx context.Context, log io.Writer) (err error) {
	copyImage(ctx, command(ctx, d.engine, "load", "--quiet"), log)
	d.image, err = setup.Ready(ctx, d.engine, log)
	return err
}

// copyImage gives a command the tests' image from an engine of the machine, where it is
// made only once.
var copyImage = func(ctx context.Context, load *exec.Cmd, log io.Writer) {
	for _, name := range setup.Wanted() {
		e, err := setup.Lookup(ctx, name)
		if err != nil {
			continue
		}
		image, err := setup.Image(ctx, e, log)
		if err == nil {
			err = setup.Copy(ctx, e, image, load)
		}
		if err == nil {
			break
		}
		fmt.Fprintln(log, err)
	}
}

func command(ctx context.Context, e *dockercli.Engine, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, e.Path, append(e.Global[:len(e.Global):len(e.Global)], args...)...)
	cmd.Env, cmd.WaitDelay = e.Env, startTimeout
	return cmd
}

// Pause stops every thread of the daemon, as with SIGSTOP. Its containers run on, but
// nothing of what they print is passed on, and clients wait.
func (d *Daemon) Pause() error { return d.signal("STOP") }

// Resume undoes Pause.
func (d *Daemon) Resume() error { return d.signal("CONT") }

func (d *Daemon) signal(name string) error {
	_, err := d.tell(name)
	return err
}

// Kill kills the daemon. The kernel kills its containerd with it; what looks after its
// containers lives on.
func (d *Daemon) Kill() error {
	if err := d.signal("KILL"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), tellTimeout)
	defer cancel()
	return d.ended(ctx)
}

// Stop asks the daemon to end, which ends its containers first, and returns when it has
// ended. One that is paused is resumed.
func (d *Daemon) Stop(ctx context.Context) error {
	if err := d.signal("TERM"); err != nil {
		return err
	}
	if err := d.signal("CONT"); err != nil {
		return err
	}
	return d.ended(ctx)
}

// Restart is Stop and Start.
func (d *Daemon) Restart(ctx context.Context) error {
	if err := d.Stop(ctx); err != nil {
		return err
	}
	return d.Start(ctx)
}

// Others describes the processes that the daemon has beside itself and its containerd:
// those of containers, and of what looks after them.
func (d *Daemon) Others() ([]string, error) { return d.tell("others") }

// ended waits for the daemon's end.
func (d *Daemon) ended(ctx context.Context) error {
	for {
		alive, err := d.alive()
		if !alive || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the daemon has not ended: %w", context.Cause(ctx))
		}
		wait(ctx, pause)
	}
}

func (d *Daemon) alive() (bool, error) {
	answer, err := d.tell("alive")
	return len(answer) > 0, err
}

// tell has process 1 do something and returns the lines that it answers.
func (d *Daemon) tell(verb string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	deadline := time.Now().Add(tellTimeout)
	_ = d.orders.SetDeadline(deadline) // pipes have deadlines
	_ = d.answers.SetDeadline(deadline)
	if _, err := d.orders.WriteString(verb + "\n"); err != nil {
		return nil, fmt.Errorf("process 1: %s: %w", verb, err)
	}
	var answer []byte
	for !bytes.HasSuffix(append([]byte("\n"), answer...), []byte("\n\n")) {
		b := make([]byte, 4096)
		n, err := d.answers.Read(b)
		answer = append(answer, b[:n]...)
		if err != nil {
			return nil, fmt.Errorf("process 1: %s: %w: %w", verb, err, d.said())
		}
	}
	lines := strings.Split(string(answer), "\n")
	lines = lines[:len(lines)-2]
	if len(lines) == 1 && lines[0] == "failed" {
		return nil, fmt.Errorf("the daemon can't %s: is it running?", verb)
	}
	return lines, nil
}

// Close ends the daemon in whatever state it is, its containers and all that belongs to
// them, and removes what it has on the host. Closing again does nothing, and returns the
// same error.
func (d *Daemon) Close() error {
	d.closed.Do(func() { d.err = d.close() })
	return d.err
}

func (d *Daemon) close() error {
	groups := d.groups()
	for _, pipe := range []*os.File{d.orders, d.answers} {
		if pipe != nil {
			pipe.Close() // process 1 reads to the end, and ends
		}
	}
	if d.first != nil {
		timer := time.AfterFunc(closeTimeout/2, func() { _ = d.first.Process.Kill() })
		defer timer.Stop()
		select {
		case <-d.over:
		case <-time.After(closeTimeout):
			return fmt.Errorf("process 1 does not end; %s is left behind", d.dir)
		}
	}
	err := RemoveCgroups(groups...)
	if d.dir != "" {
		err = errors.Join(err, os.RemoveAll(d.dir))
	}
	return err
}

// groups returns the names of the daemon's cgroups. Podman puts those of its containers
// beside those of the machine's, under names that no other container has.
func (d *Daemon) groups() (names []string) {
	if d.first == nil {
		return nil
	}
	if !d.setup.Podman {
		return []string{d.cgroup}
	}
	others, err := d.Others()
	if err != nil {
		return nil // all has ended
	}
	return PodmanCgroups(others)
}

// PodmanCgroups returns the names of the cgroups of the containers that podman's helpers
// are for, as their command lines say.
func PodmanCgroups(lines []string) (names []string) {
	for _, line := range lines {
		words := strings.Fields(line)
		if i := slices.Index(words, "-c"); i >= 0 && i+1 < len(words) && len(words[i+1]) == 64 {
			names = append(names, "libpod_parent/libpod-"+words[i+1], "libpod_parent/libpod-conmon-"+words[i+1])
		}
	}
	return names
}

// RemoveCgroups removes the cgroups of those names, and those below, which have no
// processes any more: the kernel refuses to remove others. It is for the daemon of a
// program that was killed.
func RemoveCgroups(names ...string) error {
	var err error
	var roots []string
	for _, name := range names {
		roots = append(roots, cgroups(name)...)
	}
	for _, root := range roots {
		for end := time.Now().Add(closeTimeout); ; time.Sleep(pause) {
			var dirs []string
			_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
				if err == nil && entry.IsDir() {
					dirs = append(dirs, path)
				}
				return nil
			})
			var left error
			for i := len(dirs) - 1; i >= 0; i-- { // the lower ones first
				if e := os.Remove(dirs[i]); !errors.Is(e, fs.ErrNotExist) {
					left = errors.Join(left, e)
				}
			}
			if left == nil {
				break
			}
			if time.Now().After(end) {
				err = errors.Join(err, left)
				break
			}
		}
	}
	return err
}

// cgroups returns the cgroups of that name. With the first version there is a hierarchy
// for each controller.
func cgroups(name string) []string {
	one, _ := filepath.Glob("/sys/fs/cgroup/" + name)
	each, _ := filepath.Glob("/sys/fs/cgroup/*/" + name)
	return append(one, each...)
}
