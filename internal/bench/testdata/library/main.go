// Command library runs a command in a container by way of a session.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := execpolicy.Start(ctx, execpolicy.DockerPolicy{Image: os.Args[1]}, execpolicy.Spec{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer s.Close()
	r, err := s.Run(ctx, execpolicy.Command{Script: os.Args[2]})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(r.Text())
}
