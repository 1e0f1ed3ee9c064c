package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/docker/docker/api/types/container"
	dockerclient "github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/seed-64a260eb/cofferdam/internal/bench/contest"
)

// A client runs each command by the exec of Docker's Go client.
type client struct {
	*dockerclient.Client
	id string
}

func (c *client) Start(ctx context.Context, in contest.Container) (err error) {
	if c.Client == nil {
		c.Client, err = dockerclient.NewClientWithOpts(dockerclient.FromEnv, dockerclient.WithAPIVersionNegotiation())
		if err != nil {
			return err
		}
	}
	host := &container.HostConfig{AutoRemove: true}
	harden(host)
	config := &container.Config{Image: in.Image, Labels: in.Labels, Cmd: idle, User: "65534:65534"}
	made, err := c.ContainerCreate(ctx, config, host, nil, nil, "")
	if err != nil {
		return err
	}
	c.id = made.ID
	return c.ContainerStart(ctx, c.id, container.StartOptions{})
}

// Run returns when ctx ends, as a caller expects who gives one.
func (c *client) Run(ctx context.Context, script string) (int, error) {
	made, err := c.ContainerExecCreate(ctx, c.id, container.ExecOptions{
		Cmd: []string{"sh", "-c", script}, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return 0, err
	}
	attached, err := c.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
	if err != nil {
		return 0, err
	}
	defer attached.Close()
	defer context.AfterFunc(ctx, attached.Close)() // nothing else ends the copy
	var stdout, stderr bytes.Buffer
	if _, err := stdcopy.StdCopy(&stdout, &stderr, attached.Reader); err != nil {
		return 0, errors.Join(ctx.Err(), err)
	}
	ended, err := c.ContainerExecInspect(ctx, made.ID)
	if err == nil && ended.ExitCode != 0 {
		err = fmt.Errorf("exit code %d: %s", ended.ExitCode, stderr.Bytes())
	}
	return stdout.Len(), err
}

func (c *client) Close() error {
	return c.ContainerRemove(context.Background(), c.id, container.RemoveOptions{Force: true})
}
