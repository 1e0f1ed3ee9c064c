//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
)

// Procs are the children of a process 1, which also reaps what others leave to it. So it
// can't wait for a child by package os.
type procs struct {
	mu    sync.Mutex
	all   map[int]*proc
	named map[string]*proc
}

type proc struct {
	pid    int
	over   chan struct{} // closed when it has ended
	status syscall.WaitStatus
}

func newProcs() *procs {
	p := &procs{all: map[int]*proc{}, named: map[string]*proc{}}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		for range ended {
			p.reap()
		}
	}()
	return p
}

func (p *procs) reap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if child := p.all[pid]; child != nil {
			delete(p.all, pid)
			child.status = status
			close(child.over)
		}
	}
}

// start starts a command whose streams are files.
func (p *procs) start(cmd *exec.Cmd) (*proc, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	child := &proc{pid: cmd.Process.Pid, over: make(chan struct{})}
	p.all[child.pid] = child
	return child, nil
}

// run runs a command to its end.
func (p *procs) run(words ...string) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = write, write
	child, err := p.start(cmd)
	write.Close()
	if err != nil {
		return err
	}
	said, _ := io.ReadAll(read)
	<-child.over
	if child.status != 0 {
		return fmt.Errorf("%q: %s: %s", words, describe(child.status),
			bytes.TrimSpace(said))
	}
	return nil
}

// runAll runs commands one after the other, until one fails.
func (p *procs) runAll(commands ...[]string) error {
	for _, words := range commands {
		if err := p.run(words...); err != nil {
			return err
		}
	}
	return nil
}

// startNamed starts a part that does not run. What it says goes to a file.
func (p *procs) startNamed(name, log string, cmd *exec.Cmd) error {
	if p.get(name) != nil {
		return fmt.Errorf("%s runs already", name)
	}
	file, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	child, err := p.start(cmd)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.named[name] = child
	return nil
}

// get returns a part that runs, or nil.
func (p *procs) get(name string) *proc {
	p.mu.Lock()
	defer p.mu.Unlock()
	child := p.named[name]
	if child == nil || p.all[child.pid] != child {
		return nil
	}
	return child
}

// signal sends a signal to a part. The lock keeps its number from being another's.
func (p *procs) signal(name string, s syscall.Signal) (*proc, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	child := p.named[name]
	if child == nil || p.all[child.pid] != child {
		return nil, fmt.Errorf("%s does not run", name)
	}
	return child, syscall.Kill(child.pid, s)
}

// kill kills a part, and waits until it has ended.
func (p *procs) kill(name string) error {
	child, err := p.signal(name, syscall.SIGKILL)
	if err != nil {
		return err
	}
	<-child.over
	return nil
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}
