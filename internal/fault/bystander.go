//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
)

// bystanderVar makes the suite's program a bystander.
const bystanderVar = "COFFERDAM_FAULT_BYSTANDER"

// A bystander is a process of the same user that has no part in anything. It must live on
// and get no signal.
type bystander struct {
	cmd   *exec.Cmd
	stdin io.Closer
	start string // of the process: another may get its number
	heard atomic.Pointer[string]
}

func newBystander() (*bystander, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &bystander{cmd: exec.Command(self)}
	c.cmd.Env = append(os.Environ(), bystanderVar+"=1")
	c.cmd.Stderr = os.Stderr
	// It must not hear Ctrl-C.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(stdout)
	lines.Scan() // it listens
	c.start = c.look().Start
	go func() {
		for lines.Scan() {
			line := lines.Text()
			c.heard.CompareAndSwap(nil, &line)
		}
	}()
	return c, nil
}

func (c *bystander) look() leftover.Process {
	for _, p := range leftover.Processes() {
		if p.PID == c.cmd.Process.Pid {
			return p
		}
	}
	return leftover.Process{}
}

// check returns an error if anything has happened to the bystander.
func (c *bystander) check() error {
	if line := c.heard.Load(); line != nil {
		return fmt.Errorf("the bystander got the signal %s", *line)
	}
	switch p := c.look(); {
	case p.Start != c.start, p.State == "Z", p.State == "X":
		return fmt.Errorf("the bystander is dead: %v", p)
	case p.State == "T", p.State == "t":
		return fmt.Errorf("the bystander is stopped")
	}
	return nil
}

func (c *bystander) close() {
	c.stdin.Close()
	c.cmd.Wait()
}

// tellSignals is the bystander's main function: it says which signals it gets, until its
// stdin ends.
func tellSignals() {
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	fmt.Println("listening")
	go func() {
		for s := range signals {
			// The runtime sends this one to itself.
			if s != syscall.SIGURG {
				fmt.Println(s)
			}
		}
	}()
	io.Copy(io.Discard, os.Stdin)
}
