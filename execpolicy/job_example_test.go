package execpolicy_test

import (
	"context"
	"fmt"
	"io"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// A job has live stdin, and runs while the session's commands do.
func ExampleSession_StartJob() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, execpolicy.DockerPolicy{}, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	j, err := s.StartJob(ctx, execpolicy.Command{Argv: []string{"sort"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	io.WriteString(j.Stdin(), "walrus\n")
	if _, err := s.Run(ctx, execpolicy.Command{Script: "echo beside >file"}); err != nil {
		fmt.Println(err)
	}
	io.WriteString(j.Stdin(), "otter\n")
	j.Stdin().Close()
	r, err := j.Wait(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s", r.Stdout) // otter, walrus
}

// Kill ends a job, and its result says whether anything is left.
func ExampleJob_Kill() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, execpolicy.DockerPolicy{}, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	j, err := s.StartJob(ctx, execpolicy.Command{Script: "while :; do sleep 1; done"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := j.Kill(ctx); err != nil {
		fmt.Println(err)
	}
	r, err := j.Wait(ctx)
	fmt.Println(r.Outcome, r.Gone, err) // canceled true the job was killed
}
