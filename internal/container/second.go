package container

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
)

// A Second is one more command in a container, with streams of its own.
type Second struct {
	// Stdin, Stdout and Stderr are our ends of the command's streams.
	Stdin          *os.File
	Stdout, Stderr io.ReadCloser
	// Inside is what has to be run in the container so that the command begins. It is nil
	// if the engine's client has the command run.
	Inside []string

	part   func()             // gives up what the streams took
	client *procgroup.Process // nil if there is none
}

// Second starts one more command in the container, whose first was heard: by FIFOs if
// that has them, else by the engine's client. It has to be ended.
func (c *Container) Second(command []string) (*Second, error) {
	if c.detached != nil {
		ends, err := c.detached.More()
		if err != nil {
			return nil, err
		}
		return &Second{ends.Stdin, ends.Stdout, ends.Stderr, ends.Command(command), ends.Part, nil}, nil
	}
	argv, err := c.Engine.ExecArgs(dockercli.ExecOptions{Interactive: true, Container: c.Name, Command: command})
	if err != nil {
		return nil, err
	}
	client, ours, err := procgroup.StartPiped(procgroup.Cmd{
		Path: argv[0],
		Args: argv,
		Env:  c.Engine.RunEnv(),
		Dir:  c.Engine.Dir(),
	})
	if err != nil {
		return nil, err
	}
	return &Second{ours[0], ours[1], ours[2], nil, func() {}, client}, nil
}

// End gives up the streams, and the client, if there is one, which has a second to end by
// itself. That does not end the command: what runs in the container has to be ended
// there.
func (s *Second) End(ctx context.Context) error {
	s.Stdin.Close()
	s.part()
	defer s.Stdout.Close()
	defer s.Stderr.Close()
	if s.client == nil {
		return nil
	}
	select {
	case <-s.client.Done():
		return nil
	case <-ctx.Done():
	case <-time.After(clientGrace):
	}
	return s.client.Stop(context.WithoutCancel(ctx), clientGrace/4)
}
