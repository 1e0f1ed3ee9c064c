package python_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/python"
)

// sandbox is the zero policy: no network, a read-only root, 512 MiB of memory. TestExamples runs the examples below under it, on each
// engine.
var sandbox = execpolicy.DockerPolicy{}

func Example() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, sandbox, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	py, err := python.Start(ctx, s, python.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer py.Close()
	for _, code := range []string{"import math\nr = 2", "print('r is', r)\n{'area': round(math.pi * r ** 2, 2)}", "1 / (r - 2)"} {
		r, err := py.Run(ctx, python.Snippet{Code: code})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s%s%s\n", r.Stdout, r.Value, r.JSON)
		if r.Exception != nil {
			fmt.Println(r.Exception.Type, "-", r.Exception.Message)
		}
	}
}

// A snippet that misses its deadline is interrupted, and what came before it stays.
func ExampleInterpreter() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, sandbox, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	py, err := python.Start(ctx, s, python.Options{Dir: "/tmp", Env: map[string]string{"LANG": "C.UTF-8"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer py.Close()
	for _, snippet := range []python.Snippet{{Code: "x = 41"}, {Code: "while True: pass", Timeout: time.Second}, {Code: "x + 1"}} {
		r, err := py.Run(ctx, snippet)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.Outcome, r.Value, "state lost:", r.StateLost)
	}
}
