// Package remote runs engines of the tests' own that are reached as engines on other
// machines are: docker's by TCP with TLS and by ssh, and podman's by TCP and by ssh.
//
// Each is a [private.Daemon], which has its own network, processes, and mounts but for
// the host's directories. Beside one that is reached by ssh runs an sshd, with its own
// keys. All of it ends with the program that started it. Between the client and what it
// is connected to is a [Link], which can be cut.
package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/private"
	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
)

// Ways are the ways to reach an engine.
var Ways = []string{"docker-tls", "docker-ssh", "podman-tcp", "podman-ssh"}

// The ports on the loopback of the daemon's network.
const (
	sshPort = "22"
	tcpPort = "2376"
)

// podmanSocket is where podman's service listens for ssh.
const podmanSocket = "/run/podman/podman.sock"

// An Engine is reached from afar.
type Engine struct {
	*private.Daemon
	// Link is what the client's connections go by.
	Link *Link
	// Client is the path of a program that is the engine's client. It takes the place of
	// the environment and the configuration that a user would have.
	Client string
	// Chosen are the environment variables, each "key=value", by which the machine's own
	// client reaches the engine.
	Chosen []string
	// Elsewhere is a directory of this machine in whose place the engine has another one,
	// as a machine elsewhere has. That one has the directory "there" in it.
	Elsewhere string

	dir string
}

// Start starts an engine that is reached by one of the Ways, and holds the tests' image;
// ctx bounds the start only. What takes time is told to log. It takes Linux, root, the
// engine and its client, and for ssh OpenSSH's server and client: where one of them is
// missing, the error wraps [errors.ErrUnsupported].
func Start(ctx context.Context, way string, log io.Writer) (*Engine, error) {
	e := new(Engine)
	err := e.start(ctx, way, log)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", way, err), e.Close())
	}
	return e, nil
}

func (e *Engine) start(ctx context.Context, way string, log io.Writer) (err error) {
	engine, line, _ := strings.Cut(way, "-")
	if !slices.Contains(Ways, way) {
		return fmt.Errorf("there is no such way; there are %s", strings.Join(Ways, ", "))
	}
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return fmt.Errorf("%w: it takes Linux and root", errors.ErrUnsupported)
	}
	if e.dir, err = os.MkdirTemp("", "remote-"); err != nil {
		return err
	}
	e.Elsewhere = e.path("elsewhere")
	// Everybody may come to what is there.
	if err := errors.Join(os.Chmod(e.dir, 0o711), os.Mkdir(e.Elsewhere, 0o755)); err != nil {
		return err
	}
	port := tcpPort
	if line == "ssh" {
		port = sshPort
	}
	if e.Link, err = newLink(func(ctx context.Context) (io.ReadWriteCloser, error) { return e.Daemon.Dial(ctx, port) }); err != nil {
		return err
	}
	setup := private.Setup{
		Podman: engine == "podman", Client: e.path(engine),
		Beside: "mount -t tmpfs -o mode=755 tmpfs " + shellquote.Quote(e.Elsewhere) + "\nmkdir -m 777 " + shellquote.Quote(e.Elsewhere+"/there") + "\n",
	}
	e.Client = setup.Client
	address := "tcp://" + e.Link.Address()
	switch way {
	case "docker-tls":
		if err := e.certify(); err != nil {
			return err
		}
		setup.Args = []string{"--host=tcp://127.0.0.1:" + tcpPort, "--tlsverify", "--tlscacert=" + e.path("tls/ca.pem"),
			"--tlscert=" + e.path("tls/server.pem"), "--tlskey=" + e.path("tls/server-key.pem")}
		e.Chosen = []string{"DOCKER_HOST=" + address, "DOCKER_TLS_VERIFY=1", "DOCKER_CERT_PATH=" + e.path("tls")}
	case "docker-ssh":
		// Where the client at the other end of ssh looks by itself.
		setup.Args = []string{"--host=unix:///run/docker.sock"}
		e.Chosen = []string{"DOCKER_HOST=ssh://root@" + e.Link.Address()}
	case "podman-tcp":
		setup.Args = []string{"system", "service", "--time=0", "tcp://127.0.0.1:" + tcpPort}
		e.Chosen = []string{"CONTAINER_HOST=" + address}
	case "podman-ssh":
		setup.Args = []string{"system", "service", "--time=0", "unix://" + podmanSocket}
		e.Chosen = []string{"CONTAINER_HOST=ssh://root@" + e.Link.Address() + podmanSocket, "CONTAINER_SSHKEY=" + e.path("ssh/key")}
	}
	if engine == "podman" {
		if err := e.configurePodman(&setup); err != nil {
			return err
		}
	}
	if line == "ssh" {
		if err := e.configureSSH(ctx, &setup); err != nil {
			return err
		}
	}
	if err := e.install(engine); err != nil {
		return err
	}
	if e.Daemon, err = private.New(setup); err != nil {
		return err
	}
	e.Link.open()
	return e.Fill(ctx, log)
}

// Forward returns a command that forwards a socket of this machine to the daemon's, by
// ssh, until it is killed.
func (e *Engine) Forward(ctx context.Context, socket string) *exec.Cmd {
	far := "/run/docker.sock"
	if filepath.Base(e.Client) == "podman" {
		far = podmanSocket
	}
	host, port, _ := strings.Cut(e.Link.Address(), ":")
	return exec.CommandContext(ctx, e.path("ssh/ssh"), "-N", "-o", "ExitOnForwardFailure=yes", "-p", port, "-L", socket+":"+far, "root@"+host)
}

func (e *Engine) path(name string) string { return filepath.Join(e.dir, name) }

// install writes the client, which begins with what chooses the engine.
func (e *Engine) install(name string) error {
	client, err := exec.LookPath(name)
	if err != nil {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	script := "#!/bin/sh\n"
	for _, v := range e.Chosen {
		name, value, _ := strings.Cut(v, "=")
		script += "export " + name + "=" + shellquote.Quote(value) + "\n"
	}
	if name == "docker" {
		// Nothing of the user's settings. Podman reads the same file, if it is told its
		// name.
		script += "export DOCKER_CONFIG=" + shellquote.Quote(e.path("docker-config")) + "\n"
	}
	script += "exec " + shellquote.Quote(client) + " \"$@\"\n"
	return os.WriteFile(e.path(name), []byte(script), 0o755)
}

// configurePodman sets up a podman whose service needs nothing of the machine's podman.
func (e *Engine) configurePodman(setup *private.Setup) error {
	settings := `[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
conmon_path = ["/run/cofferdam-conmon"]
`
	// Podman's usual runtime does not take cgroups of both versions at once.
	if _, err := exec.LookPath("runc"); err == nil {
		settings += "runtime = \"runc\"\n"
	}
	setup.Env = append(setup.Env, "CONTAINERS_CONF="+e.path("containers.conf"))
	// Its locks are in shared memory. By a name of their own, its helpers are not taken
	// for lost ones of the machine's podman.
	setup.Beside += `mount -t tmpfs -o mode=1777 tmpfs /dev/shm
ln -s "$(PATH=$PATH:/usr/libexec/podman:/usr/lib/podman command -v conmon)" /run/cofferdam-conmon
mkdir -p /run/podman
`
	return os.WriteFile(e.path("containers.conf"), []byte(settings), 0o644)
}

// Close ends the engine in whatever state it is, and removes what it has on the host.
func (e *Engine) Close() error {
	var err error
	if e.Link != nil {
		err = e.Link.close()
	}
	if e.Daemon != nil {
		err = errors.Join(err, e.Daemon.Close())
	}
	if e.dir != "" {
		err = errors.Join(err, os.RemoveAll(e.dir))
	}
	return err
}
