package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
)

// patience bounds whatever is waited for.
const patience = 2 * time.Minute

// A client is the engine's program on two pipes, with nothing of the library between.
type client struct {
	stdin, stdout *os.File
	proc          *procgroup.Process
}

// runArgs returns the argument vector by which the policy itself would run the command.
// No word of it has a newline. It is the shell that gives the client its filter of system
// calls.
func runArgs(ctx context.Context, p execpolicy.DockerPolicy, command ...string) ([]string, error) {
	line, err := p.Explain(ctx, execpolicy.Spec{Command: command})
	if err != nil {
		return nil, err
	}
	return []string{"/bin/sh", "-c", "exec " + line}, nil
}

// startClient starts a client. Its container, if it has one, must end with its stdin.
func startClient(p execpolicy.DockerPolicy, argv []string) (*client, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer inR.Close()
	outR, outW, err := os.Pipe()
	if err != nil {
		inW.Close()
		return nil, err
	}
	defer outW.Close()
	c := &client{stdin: inW, stdout: outR}
	err = errors.Join(inW.SetDeadline(time.Now().Add(patience)), outR.SetDeadline(time.Now().Add(patience)))
	if err == nil {
		c.proc, err = procgroup.Start(procgroup.Cmd{Path: argv[0], Args: argv, Env: p.Engine.Env, Stdin: inR, Stdout: outW})
	}
	if err != nil {
		inW.Close()
		outR.Close()
		return nil, err
	}
	return c, nil
}

// close ends the client by its stdin, and its container with it.
func (c *client) close() error {
	c.stdin.Close()
	defer c.stdout.Close()
	select {
	case <-c.proc.Done():
	case <-time.After(patience):
		return fmt.Errorf("the client %d does not end at the end of its stdin", c.proc.Pid())
	}
	if code := c.proc.State().ExitCode(); code != 0 {
		return fmt.Errorf("the engine's client ended with status %d", code)
	}
	return nil
}

// discard reads n bytes.
func (c *client) discard(n int) error {
	buf := make([]byte, 128<<10)
	for n > 0 {
		got, err := c.stdout.Read(buf[:min(n, len(buf))])
		if err != nil {
			return fmt.Errorf("%d bytes before the end: %w", n, err)
		}
		n -= got
	}
	return nil
}

// bareStarts returns a subject that has clients run n containers, some at a time, each
// until its first byte and then until its end.
func bareStarts(ctx context.Context, p execpolicy.DockerPolicy, n, workers int) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		argvs := make([][]string, n) // each with a name of its own
		for i := range argvs {
			var err error
			if argvs[i], err = runArgs(ctx, p, "sh", "-c", "echo; read x || exit 0"); err != nil {
				return 0, err
			}
		}
		start := time.Now()
		err := inParallel(n, workers, func(i int) error {
			c, err := startClient(p, argvs[i])
			if err != nil {
				return err
			}
			return errors.Join(c.discard(1), c.close())
		})
		return time.Since(start), err
	}
}
