// Command testcontainers runs a command in a container by testcontainers-go.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/exec"
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
	c, err := testcontainers.Run(ctx, image, testcontainers.WithCmd("sleep", "60"))
	defer testcontainers.TerminateContainer(c)
	if err != nil {
		return err
	}
	_, out, err := c.Exec(ctx, []string{"sh", "-c", script}, exec.Multiplexed())
	if err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, out)
	return err
}
