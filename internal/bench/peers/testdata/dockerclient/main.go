// Command dockerclient runs a command in a container by Docker's Go client.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, image, script string) error {
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return err
	}
	defer c.Close()
	config := &container.Config{Image: image, Cmd: []string{"sleep", "60"}}
	made, err := c.ContainerCreate(ctx, config, &container.HostConfig{AutoRemove: true}, nil, nil, "")
	if err != nil {
		return err
	}
	defer c.ContainerRemove(ctx, made.ID, container.RemoveOptions{Force: true})
	if err := c.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		return err
	}
	options := container.ExecOptions{Cmd: []string{"sh", "-c", script}, AttachStdout: true, AttachStderr: true}
	exec, err := c.ContainerExecCreate(ctx, made.ID, options)
	if err != nil {
		return err
	}
	attached, err := c.ContainerExecAttach(ctx, exec.ID, container.ExecAttachOptions{})
	if err != nil {
		return err
	}
	defer attached.Close()
	_, err = stdcopy.StdCopy(os.Stdout, os.Stderr, attached.Reader)
	return err
}
