package python_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/python"
)

// sandbox is the zero policy: no network, a read-only root, 512 MiB of memory.
// TestExamples runs the examples below under it, on each engine.
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
	for _, code := range []string{"import math\nr = 2", "print('r is', r)\n{'area': round(math.pi * r ** 2, 2)}",
		"1 / (r - 2)"} {
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
	for _, snippet := range []python.Snippet{{Code: "x = 41"}, {Code: "while True: pass", Timeout: time.Second},
		{Code: "x + 1"}} {
		r, err := py.Run(ctx, snippet)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.Outcome, r.Value, "state lost:", r.StateLost)
	}
}

// The interpreter begins in a directory and with an environment of its own.
func ExampleOptions() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, sandbox, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	py, err := python.Start(ctx, s,
		python.Options{Program: "python3", Dir: "/tmp", Env: map[string]string{"STAGE": "test"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer py.Close()
	r, err := py.Run(ctx, python.Snippet{Code: "import os\nos.getcwd(), os.environ['STAGE']"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Value)
}

// What a snippet prints is seen as it comes, and it is ended if that is too much.
func ExampleSnippet() {
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
	r, err := py.Run(ctx, python.Snippet{
		Code:        "for epoch in range(3):\n    print('epoch', epoch)",
		Timeout:     time.Minute,
		Stdout:      os.Stdout,
		OutputLimit: 1 << 20,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Outcome)
}

// The value of a last expression comes as Python writes it, and as JSON where it has any.
func ExampleResult() {
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
	r, err := py.Run(ctx, python.Snippet{Code: "{'mean': 2.5, 'outliers': None}"})
	if err != nil {
		fmt.Println(err)
		return
	}
	var stats struct{ Mean float64 }
	err = json.Unmarshal(r.JSON, &stats)
	fmt.Println(r.Value, stats.Mean, err)
}

// A model that gets the traceback of its code can fix it.
func ExampleException() {
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
	r, err := py.Run(ctx, python.Snippet{Code: "price = 'three'\nint(price)"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if e := r.Exception; e != nil {
		fmt.Printf("Fix this %s, please:\n%s", e.Type, e.Traceback)
	}
}
