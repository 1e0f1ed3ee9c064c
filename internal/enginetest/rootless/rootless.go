// Package rootless runs podman without root's rights, on a store of its own: where
// control groups are those of the first version, it is an engine that drops every limit.
//
// Root becomes a user that nobody is, for each run of the client. Any other user stays
// what they are. All that podman keeps lies below one directory. It is left, with one
// process that holds podman's namespaces, if the program is killed.
package rootless

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/setup"
	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
)

// Prefix begins the name of the directory, which is among the arguments of all that
// podman starts.
const Prefix = "cofferdam-rootless-"

const (
	verbTimeout = time.Minute // for one run of the client, on a machine under load
	// firstUser and those after it belong to nobody: they lie above all that systems give
	// out.
	firstUser = 1_900_000_000
)

// A Podman is an engine.
type Podman struct {
	dir    string // of this program's user
	own    string // of podman's user
	engine *dockercli.Engine
	closed sync.Once
	err    error // of Close
}

// Start makes a podman that holds an image, which it has from an engine of the machine,
// under the same name, and has run a container of it. ctx bounds the start only. It takes
// Linux, podman and user namespaces, and setpriv if this program is root's.
func Start(ctx context.Context, from *dockercli.Engine, image string) (*Podman, error) {
	p := new(Podman)
	err := p.install()
	if err == nil {
		err = p.answer(ctx)
	}
	if err == nil {
		err = setup.Copy(ctx, from, image, p.command(ctx, "load", "--quiet"))
	}
	if err == nil {
		err = p.run(ctx, "run", "--rm", "--pull=never", "--network=none", "--log-driver=none", "--user=0:0", "--",
			image, "true")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("podman without root's rights: %w", err), p.Close())
	}
	return p, nil
}

// Engine returns the client. Its containers have one user for certain, which is 0.
func (p *Podman) Engine() *dockercli.Engine { return p.engine }

// install writes a program called podman that runs podman as another user, with nothing
// of this program's environment and settings.
func (p *Podman) install() (err error) {
	if runtime.GOOS != "linux" {
		return errors.New("it takes Linux")
	}
	podman, err := exec.LookPath("podman")
	if err != nil {
		return err
	}
	var become []string
	uid := os.Getuid()
	if uid == 0 {
		setpriv, err := exec.LookPath("setpriv")
		if err != nil {
			return err
		}
		uid = firstUser + os.Getpid()
		become = []string{setpriv, fmt.Sprintf("--reuid=%d", uid), fmt.Sprintf("--regid=%d", uid), "--clear-groups"}
	}
	if p.dir, err = os.MkdirTemp("", Prefix); err != nil {
		return err
	}
	p.own = filepath.Join(p.dir, "own")
	conf := filepath.Join(p.own, "containers.conf")
	words := append(become, "env", "-i", "PATH="+os.Getenv("PATH"), "HOME="+p.own, "TMPDIR="+p.own,
		"XDG_RUNTIME_DIR="+p.own, "CONTAINERS_CONF="+conf,
		podman, "--root="+p.graph(), "--runroot="+filepath.Join(p.own, "run"),
		// The driver that works everywhere. Where only one user is there, all files are
		// that user's.
		"--storage-driver=vfs", "--storage-opt=vfs.ignore_chown_errors=true")
	script := "#!/bin/sh\ncd " + shellquote.Quote(p.own) + " && exec"
	for _, word := range words {
		script += " " + shellquote.Quote(word)
	}
	err = errors.Join(
		os.Chmod(p.dir, 0o711),
		os.WriteFile(filepath.Join(p.dir, "podman"), []byte(script+" \"$@\"\n"), 0o755),
		os.Mkdir(p.own, 0o700),
		os.WriteFile(conf, []byte(settings()), 0o644),
	)
	if uid != os.Getuid() {
		err = errors.Join(err, os.Chown(conf, uid, uid), os.Chown(p.own, uid, uid))
	}
	return err
}

// graph returns the directory of images and containers. Its files may be those of users
// whom only podman can be.
func (p *Podman) graph() string { return filepath.Join(p.own, "graph") }

// settings returns what works on every machine, and keeps podman's locks, which would
// stay in shared memory, in its directory. The limits that podman has of its own may not
// be set everywhere, and crun refuses control groups of both versions at once.
func settings() string {
	text := `[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
`
	if _, err := exec.LookPath("runc"); err == nil {
		text += "runtime = \"runc\"\n"
	}
	return text
}

// answer finds the client out.
func (p *Podman) answer(ctx context.Context) error {
	// The first run makes the store, for which a busy machine may need longer than a look
	// is given.
	if err := p.run(ctx, "info"); err != nil {
		return err
	}
	e, err := setup.Lookup(ctx, filepath.Join(p.dir, "podman"))
	if err == nil && (e.Kind != dockercli.Podman || !e.Rootless) {
		return fmt.Errorf("%v is no podman without root's rights", e.Kind)
	}
	p.engine = e
	return err
}

func (p *Podman) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(p.dir, "podman"), args...)
	cmd.WaitDelay = verbTimeout // what it leaves may hold its output
	return cmd
}

// run runs one verb; what podman said is in the error.
func (p *Podman) run(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, verbTimeout)
	defer cancel()
	if said, err := p.command(ctx, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", args[0], err, bytes.TrimSpace(said))
	}
	return nil
}

// Close removes the containers and all that podman has kept, and ends the process that it
// leaves. Closing again does nothing, and returns the same error.
func (p *Podman) Close() error {
	p.closed.Do(func() { p.err = p.close() })
	return p.err
}

func (p *Podman) close() error {
	if p.dir == "" {
		return nil
	}
	ctx := context.Background()
	var err error
	if pid := p.holder(); pid > 0 {
		err = errors.Join(
			p.run(ctx, "rm", "--all", "--force", "--time=0"),
			p.run(ctx, "unshare", "rm", "-rf", "--", p.graph()),
			// It is what ends the process.
			p.run(ctx, "system", "migrate"),
			gone(pid),
		)
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}

// holder returns the process that holds podman's namespaces, or 0 if there is none.
func (p *Podman) holder() int {
	text, _ := os.ReadFile(filepath.Join(p.own, "libpod", "tmp", "pause.pid"))
	pid, _ := strconv.Atoi(string(bytes.TrimSpace(text)))
	return pid
}

// gone waits for the end of a process, not for process 1 to take notice of it.
func gone(pid int) error {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); len(args) == 0 {
			return nil
		}
	}
	return fmt.Errorf("process %d is left", pid)
}
