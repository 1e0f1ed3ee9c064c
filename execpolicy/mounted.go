package execpolicy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/mountguard"
	"github.com/seed-64a260eb/cofferdam/internal/policyerr"
	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/truncate"
)

// A mounted directory is one of this machine that an engine was told to mount. An engine
// whose socket was forwarded, or mounted into a container, looks as if it were here, and
// mounts what has that name where it is.
type mounted struct {
	source string // on this machine; empty if there is none
	target string // inside
}

// shows returns what a session's container is to show of this machine.
func (p *DockerPolicy) shows(e *dockercli.Engine, spec Spec) mounted {
	dir, target := spec.Workspace, workspaceDir
	if p.compat {
		dir = compatWorkspace(spec)
		target = path.Clean(dir)
	}
	if dir == "" || len(spec.Supervisor) == 0 || e.Remote || runtime.GOOS != "linux" {
		return mounted{}
	}
	source, err := filepath.EvalSymlinks(dir)
	if err == nil {
		source, err = filepath.Abs(source)
	}
	if err != nil {
		source = dir // it is gone, and nothing will show it
	}
	return mounted{source, target}
}

const (
	// bootFile is one kernel's, from one start to the next.
	bootFile = "/proc/sys/kernel/random/boot_id"
	// tellMounts prints it and the table of mounts, with builtins of the shell only.
	tellMounts = `(read -r boot <` + bootFile + `; echo "$boot"; while read -r line; do echo "$line"; done </proc/self/mountinfo)`
	maxMounts  = 64 << 10
)

var errOther = errors.New("the engine has mounted another directory of that name: it is on another machine, or does not see this one's files")

// prove returns an error that wraps ErrNoMount unless the container shows the directory
// that it is to show: the kernel says so or, if the container does not have this
// machine's kernel, a file does that is made in the directory for a moment. Nothing of
// the caller's has run inside yet.
func (c *conn) prove(ctx context.Context, d mounted) error {
	if d.source == "" {
		return nil
	}
	deadline := after(c.limits.StartupTimeout)
	said, _, err := c.inquire(ctx, deadline, tellMounts, maxMounts)
	if err != nil {
		return err
	}
	boot, table, _ := strings.Cut(said, "\n")
	here, _ := os.ReadFile(bootFile)
	if boot != "" && boot == strings.TrimSpace(string(here)) {
		origin := mountguard.Origin(d.source)
		if origin != "" && origin == mountguard.OriginInside(table, d.target) {
			return nil
		}
	}
	f, err := os.CreateTemp(d.source, ".cofferdam-")
	if err != nil {
		return fmt.Errorf("%w: it is not known that what the engine has mounted is this machine's: %w", ErrNoMount, err)
	}
	defer os.Remove(f.Name())
	f.Close()
	_, seen, err := c.inquire(ctx, deadline, "[ -e "+shellwire.Quote(path.Join(d.target, filepath.Base(f.Name())))+" ]", 0)
	if err == nil && !seen {
		err = fmt.Errorf("%w: %w", ErrNoMount, errOther)
	}
	return err
}

// inquire runs a script of the library's own, and returns what it prints, and whether it
// succeeds.
func (c *conn) inquire(ctx context.Context, deadline time.Time, script string, limit int) (said string, ok bool, err error) {
	out := &shell.Sink{Kept: truncate.Buffer{Limit: limit}}
	r := c.Run(ctx, deadline, time.Time{}, shell.Unit(script), out, &shell.Sink{})
	c.escalated(r)
	switch {
	case r.Cause != nil:
		return "", false, r.Cause
	case r.Lost:
		return "", false, c.lost()
	}
	return string(out.Kept.Bytes()), r.Mark.Status == 0 && !r.Died, nil
}

// notThere reports whether an engine's words say that it does not see the directory.
func (d mounted) notThere(stderr []byte) bool {
	said := string(stderr)
	return d.source != "" && strings.Contains(said, d.source) &&
		(strings.Contains(said, "source path does not exist") || strings.Contains(said, "no such file or directory"))
}

var errUnseen = fmt.Errorf("%w: the engine does not see this machine's directory", policyerr.ErrNoMount)
