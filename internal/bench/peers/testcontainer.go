package main

import (
	"context"
	"fmt"
	"io"

	"github.com/docker/docker/api/types/container"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/exec"

	"github.com/seed-64a260eb/cofferdam/internal/bench/contest"
)

// A testcontainer runs each command by the Exec of testcontainers-go. The scoreboard
// takes away its reaper, a container of an image that is not at hand everywhere.
type testcontainer struct{ testcontainers.Container }

func (t *testcontainer) Start(ctx context.Context, in contest.Container) (err error) {
	t.Container, err = testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{
		ContainerRequest: testcontainers.ContainerRequest{
			Image: in.Image, Labels: in.Labels, Cmd: idle, HostConfigModifier: harden,
			ConfigModifier: func(c *container.Config) { c.User = "65534:65534" },
		},
		Started: true,
		Logger:  quiet{},
	})
	return err
}

func (t *testcontainer) Run(ctx context.Context, script string) (int, error) {
	code, out, err := t.Exec(ctx, []string{"sh", "-c", script}, exec.Multiplexed())
	if err != nil {
		return 0, err
	}
	text, err := io.ReadAll(out)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d: %s", code, text)
	}
	return len(text), err
}

func (t *testcontainer) Close() error {
	return t.Terminate(context.Background(), testcontainers.StopTimeout(0))
}

// quiet drops what the library says of its progress.
type quiet struct{}

func (quiet) Printf(string, ...any) {}
