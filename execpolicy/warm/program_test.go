package warm_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/warm"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
)

// programVar tells this binary that it is a program of a test, and which.
const programVar = "COFFERDAM_TEST_WARM"

// runProgram holds a pool until the program is ended, if this is such a program.
func runProgram() {
	name := os.Getenv(programVar)
	if name == "" {
		return
	}
	e, err := enginetest.FromEnviron()
	if err == nil {
		err = hold(name, e)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// hold prints a line when there is something to see.
func hold(name string, e enginetest.Engine) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	policy := places.Policy(e.Engine, e.Image, execpolicy.Limits{StartupTimeout: patience, TerminationTimeout: patience})
	w, err := warm.New(policy, execpolicy.Spec{Labels: e.Labels}, warm.Options{Size: 3})
	if err != nil {
		return err
	}
	s, err := w.Take(ctx, execpolicy.Spec{})
	if err != nil {
		return err
	}
	for w.Stats().Idle < 3 {
		time.Sleep(10 * time.Millisecond)
	}
	if name == "holder" {
		fmt.Println("ready")
		s.Run(context.Background(), execpolicy.Command{Script: "trap '' TERM; while :; do :; done", Timeout: -1})
		return fmt.Errorf("the command has ended")
	}
	if err := s.Close(); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	if err := serve(ctx, l, w, 32); err != nil {
		return err
	}
	return w.Close()
}

// start starts a program, and returns it with the line that it prints.
func (p place) start(t *testing.T, name string) (cmd *exec.Cmd, line string, wait func() error) {
	t.Helper()
	cmd = exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(p.Environ(t), programVar+"="+name)
	stdout, err := cmd.StdoutPipe()
	assert.NilError(t, err)
	cmd.Stderr = os.Stderr
	assert.NilError(t, cmd.Start())
	wait = sync.OnceValue(cmd.Wait)
	t.Cleanup(func() {
		cmd.Process.Kill()
		wait()
	})
	assert.NilError(t, stdout.(*os.File).SetReadDeadline(time.Now().Add(5*patience)))
	line, err = bufio.NewReader(stdout).ReadString('\n')
	assert.NilError(t, err)
	return cmd, strings.TrimSpace(line), wait
}

// gone waits until there is no container.
func (p place) gone(t *testing.T) {
	t.Helper()
	begin := time.Now()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if left := p.Containers(t); len(left) > 0 {
			return poll.Continue("left: %q", left)
		}
		return poll.Success()
	}, poll.WithTimeout(patience), poll.WithDelay(50*time.Millisecond))
	t.Logf("gone after %v", time.Since(begin).Round(time.Millisecond))
}

// Of a program that is killed neither what was taken nor what is idle is left.
func TestSIGKILL(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		cmd, line, wait := p.start(t, "holder")
		assert.Equal(t, line, "ready")
		assert.Equal(t, len(p.Containers(t)), 4)
		assert.NilError(t, cmd.Process.Kill())
		wait()
		p.gone(t)
	})
}
