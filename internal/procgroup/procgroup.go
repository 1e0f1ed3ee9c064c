// Package procgroup starts programs in process groups of their own, and ends them.
//
// Every program this module runs goes through [Start] or [Output], so each start has
// exactly one wait, no goroutine is ever left behind in os/exec, and a signal only ever
// reaches a group that is still ours.
package procgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"
)

// reapDelay bounds how long [Process.Stop] waits for a group after the KILL signal. A
// process obeys KILL at once unless the kernel holds it, and then no length of waiting
// helps.
const reapDelay = 2 * time.Second

// A Cmd says what to run.
type Cmd struct {
	// Path is the program's file. It is not looked up on PATH.
	Path string
	// Args is the argument vector, Args[0] included. If empty, it is Path alone.
	Args []string
	// Env is the environment, each entry "key=value". If nil, the environment of this
	// process.
	Env []string
	// Dir is the working directory. If empty, that of this process.
	Dir string
	// Stdin, Stdout and Stderr are handed to the program as they are; they stay open, and
	// the caller's to close. If nil, the null device. They are files and not readers or
	// writers because a copying goroutine inside os/exec that is stuck in one can't be
	// freed.
	Stdin, Stdout, Stderr *os.File
	// Extra are handed to the program as its descriptors from 3 on, and stay the caller's
	// to close. One that is nil is closed there. On Windows any makes Start fail.
	Extra []*os.File
	// NewSession also takes the program away from the controlling terminal, so that
	// nothing it starts can prompt there. It has no effect on Windows.
	NewSession bool
	// KillRest kills what is left of the group when its leader has ended. If false, that
	// happens only after [Process.Kill] or [Process.Stop]: the client of an engine may
	// leave a helper behind on purpose. Only Linux and macOS let a group be killed safely
	// then: elsewhere the rest lives on in any case.
	KillRest bool
}

// A Process is a started program and the group it leads. Its methods may be called at the
// same time.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}

	mu sync.Mutex
	// ended says that the leader is dead and about to be reaped: the number of its group
	// may be used anew from here on.
	ended    bool
	killRest bool
}

// Start starts c as the leader of a new process group. The program is reaped as soon as
// it ends, whether anyone waits or not.
func Start(c Cmd) (*Process, error) {
	cmd := &exec.Cmd{Path: c.Path, Args: c.Args, Env: c.Env, Dir: c.Dir, SysProcAttr: attributes(c.NewSession)}
	if len(c.Args) == 0 {
		cmd.Args = []string{c.Path}
	}
	// A nil *os.File in an interface would not be nil.
	if c.Stdin != nil {
		cmd.Stdin = c.Stdin
	}
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		cmd.Stderr = c.Stderr
	}
	cmd.ExtraFiles = c.Extra
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, done: make(chan struct{}), killRest: c.KillRest}
	go p.reap()
	return p, nil
}

// reap marks the group as gone before its leader is reaped, so that no signal can reach a
// stranger that was given its number. Where a child's end can't be awaited without
// reaping it, the mark comes right after.
func (p *Process) reap() {
	if awaitExit(p.cmd.Process.Pid) {
		p.end(true)
	}
	// Only files were given to the command, so the error can only repeat what the state
	// says.
	_ = p.cmd.Wait()
	p.end(false)
	close(p.done)
}

// end marks the group as gone. What is left of it is killed only while its leader is
// still to be reaped.
func (p *Process) end(unreaped bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if unreaped && p.killRest {
		killRest(p.cmd.Process.Pid)
	}
}

// Pid returns the leader's process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the leader has ended and was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// State returns how the leader ended, or nil before Done is closed. Its exit code is -1
// if a signal ended it.
func (p *Process) State() *os.ProcessState {
	select {
	case <-p.done:
		return p.cmd.ProcessState
	default:
		return nil
	}
}

// Terminate asks the group to end. On Windows, which has no such signal, it is Kill. It
// returns an error that wraps os.ErrProcessDone if the leader has ended, and then signals
// nothing.
func (p *Process) Terminate() error { return p.signal(terminate, false) }

// Kill kills the group, and again what its members started meanwhile, once the leader is
// dead. On Windows it kills the leader alone. It returns an error that wraps
// os.ErrProcessDone if the leader has ended, and then signals nothing.
func (p *Process) Kill() error { return p.signal(kill, true) }

func (p *Process) signal(send func(*os.Process) error, thenKillRest bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return os.ErrProcessDone
	}
	p.killRest = p.killRest || thenKillRest
	return send(p.cmd.Process)
}

// Stop terminates the group, kills it after grace or when ctx ends, whichever is earlier,
// and returns when the leader was reaped. Those of the group who outlive their leader are
// killed at once. It returns an error if the leader was not reaped within 2 s of the
// kill.
func (p *Process) Stop(ctx context.Context, grace time.Duration) error {
	if err := p.signal(terminate, true); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return p.stopNow(err)
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return p.stopNow(nil)
}

// stopNow kills the group and waits for its leader; cause is what made an earlier attempt
// fail.
func (p *Process) stopNow(cause error) error {
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		cause = errors.Join(cause, err)
	}
	timer := time.NewTimer(reapDelay)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return errors.Join(fmt.Errorf("process %d did not end within %v of being killed", p.Pid(), reapDelay), cause)
	}
}
