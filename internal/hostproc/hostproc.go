// Package hostproc starts a program on the host itself, with directories of its own that
// are removed with it.
package hostproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
)

// A Proc is a program that was started. Its methods may be called at the same time.
type Proc struct {
	Stdin, Stdout, Stderr *os.File
	// Scratch is a directory that nothing else uses.
	Scratch string

	proc     *procgroup.Process
	removing sync.Mutex
	own      string // the directory that holds those made for it
}

// Start starts the program at path, with those arguments, in a process group of its own,
// in dir; if that is empty, in a new directory that is gone with it.
func Start(path string, argv, env []string, dir string) (_ *Proc, err error) {
	p := new(Proc)
	if p.own, err = os.MkdirTemp("", "cofferdam-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			// A program may have no descriptor left. These are empty, and take none.
			for _, dir := range []string{"scratch", "workspace", ""} {
				os.Remove(filepath.Join(p.own, dir))
			}
		}
	}()
	if dir == "" {
		dir = filepath.Join(p.own, "workspace")
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
	}
	p.Scratch = filepath.Join(p.own, "scratch")
	if err := os.Mkdir(p.Scratch, 0o700); err != nil {
		return nil, err
	}
	proc, ours, err := procgroup.StartPiped(procgroup.Cmd{
		Path: path,
		Args: argv,
		Env:  env,
		Dir:  dir,
		// What the command left in its group ends with it.
		KillRest: true,
	})
	if err != nil {
		return nil, err
	}
	p.proc, p.Stdin, p.Stdout, p.Stderr = proc, ours[0], ours[1], ours[2]
	return p, nil
}

// PID returns the number of the process.
func (p *Proc) PID() int { return p.proc.Pid() }

// Done returns a channel that is closed when the program has ended.
func (p *Proc) Done() <-chan struct{} { return p.proc.Done() }

// ExitCode returns the exit status once the program has ended, -1 if it has none.
func (p *Proc) ExitCode() int { return p.proc.State().ExitCode() }

const removeMoment = 250 * time.Millisecond

// Kill kills the process group, and removes the directories that were made for it. If ctx
// ends first, they are removed all the same, if they can be.
func (p *Proc) Kill(ctx context.Context) error {
	err := p.proc.Stop(ctx, 0)
	// Who has no time left gets the moment that it mostly takes.
	if bound.Left(ctx) < removeMoment {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), removeMoment)
		defer cancel()
	}
	removed := bound.Call(ctx, func() error {
		p.removing.Lock()
		defer p.removing.Unlock()
		return removeAll(p.own)
	})
	if removed != nil && ctx.Err() != nil {
		removed = fmt.Errorf("removing %s: %w", p.own, removed)
	}
	return errors.Join(err, removed)
}

// Limited returns argv with a shell in front of it that sets the limits, so that they are
// in force before the command starts. A limit that can't be set fails the command. Zero
// sets none.
func Limited(argv []string, cpuSeconds int, memoryBytes int64) []string {
	script := ""
	if cpuSeconds > 0 {
		script += "ulimit -t " + strconv.Itoa(cpuSeconds) + " && "
	}
	if memoryBytes > 0 {
		script += "ulimit -v " + strconv.FormatInt(memoryBytes/1024, 10) + " && "
	}
	if script == "" {
		return argv
	}
	return append([]string{"sh", "-c", script + `exec "$@"`, "sh"}, argv...)
}

// Env returns an environment with those variables, and with nothing of this program's but
// what programs need to find their way.
func Env(env map[string]string) []string {
	list := []string{}
	for _, name := range []string{"PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			list = append(list, name+"="+value)
		}
	}
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	return list
}
