package warm_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/warm"
	"github.com/seed-64a260eb/cofferdam/execpolicy/workspace"
)

// sandbox is the zero policy: no network, a read-only root, 512 MiB of memory.
// TestExamples runs the examples below under it, on each engine.
var sandbox = execpolicy.DockerPolicy{}

// Each user has a session that was started before anybody asked for it.
func Example() {
	pool, err := warm.New(sandbox, execpolicy.Spec{}, warm.Options{Size: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	ctx := context.Background()
	for _, user := range []string{"ann", "bob"} {
		s, err := pool.Take(ctx, execpolicy.Spec{
			Env:     map[string]string{"WHO": user},
			Secrets: []execpolicy.Secret{{Name: "TOKEN", Value: "token-of-" + user}},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		r, err := s.Run(ctx, execpolicy.Command{Script: "ls -A; echo $WHO has $TOKEN | tee left-behind"})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(r.Render(execpolicy.RenderOptions{}))
		s.Close()
	}
}

// What takes long and belongs to no user is done ahead.
func ExampleNew() {
	spec := execpolicy.Spec{Startup: []string{"mkdir /tmp/tools && echo 'echo ready' >/tmp/tools/check"}}
	pool, err := warm.New(sandbox, spec, warm.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	ctx := context.Background()
	s, err := pool.Take(ctx, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	r, err := s.Run(ctx, execpolicy.Command{Argv: []string{"sh", "/tmp/tools/check"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(r.Render(execpolicy.RenderOptions{}))
}

// A user's directory is copied into a session that was started without it.
func ExamplePool_Take_workspace() {
	pool, err := warm.New(sandbox, execpolicy.Spec{}, warm.Options{Size: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	ctx := context.Background()
	s, err := workspace.Start(ctx, sandbox, execpolicy.Spec{Workspace: "project"}, workspace.Options{Discard: true, Take: pool.Take})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	r, err := s.Run(ctx, execpolicy.Command{Script: "cat main.py"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(r.Render(execpolicy.RenderOptions{}))
}

// Nobody waits for long: a call of Take that would have to fails with ErrBusy.
func ExampleOptions() {
	pool, err := warm.New(sandbox, execpolicy.Spec{}, warm.Options{
		Size:    8,
		MaxWait: time.Millisecond,
		MaxAge:  10 * time.Minute,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	// The first session takes longer than that to start.
	_, err = pool.Take(context.Background(), execpolicy.Spec{})
	fmt.Println(errors.Is(err, warm.ErrBusy))
}

func ExampleStats() {
	stats := warm.Stats{Started: 200, StartTime: 50 * time.Second, Taken: 192, TakeTime: 960 * time.Millisecond}
	fmt.Println("a start takes", stats.StartTime/time.Duration(stats.Started))
	fmt.Println("to take one takes", stats.TakeTime/time.Duration(stats.Taken))
	// Output:
	// a start takes 250ms
	// to take one takes 5ms
}
