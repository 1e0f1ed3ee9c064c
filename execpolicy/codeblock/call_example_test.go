package codeblock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/codeblock"
)

// sandbox is the zero policy: no network, a read-only root, 512 MiB of memory.
// TestExamples runs the examples below under it, on each engine.
var sandbox = execpolicy.DockerPolicy{}

func ExampleCall() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, sandbox, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	code := codeblock.Block{Language: "python", Code: `
print("__OUTPUT_START__ is output as any")
result = {"ok": INPUT_DATA["flag"], "missing": None}
`}
	r, err := codeblock.Call(ctx, s, code, json.RawMessage(`{"flag": true}`), codeblock.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s%s\n", r.Stdout, r.Value)

	code.Code = `result = {1, 2, 3}`
	_, err = codeblock.Call(ctx, s, code, nil, codeblock.Options{})
	fmt.Println(errors.Is(err, codeblock.ErrBadResult), err)
}

func ExampleCallAs() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, sandbox, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	code := codeblock.Block{Language: "python", Code: `
numbers = INPUT_DATA["numbers"]
result = {"sum": sum(numbers), "average": sum(numbers) / len(numbers), "count": len(numbers)}
`}
	type stats struct {
		Sum, Count int
		Average    float64
	}
	input := map[string][]int{"numbers": {1, 2, 3, 4, 5}}
	v, _, err := codeblock.CallAs[stats](ctx, s, code, input, codeblock.Options{Timeout: 10 * time.Second})
	fmt.Printf("%+v %v\n", v, err)
}

// A shell reads and writes files.
func ExampleReturn() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, sandbox, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	code := codeblock.Block{Language: "sh", Code: `wc -c <"$COFFERDAM_INPUT" >"$COFFERDAM_RESULT"; echo done`}
	r, err := codeblock.Call(ctx, s, code, "four", codeblock.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%v %d %s%s\n", r.Outcome, r.ExitCode, r.Stdout, r.Value)
}

// The first exercise of a tutorial on sandboxes: an infinite loop is ended at its
// deadline, and nothing of it is left.
func ExampleCall_infiniteLoop() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, sandbox, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	loop := codeblock.Block{Language: "python", Code: "while True: pass"}
	r, err := codeblock.Call(ctx, s, loop, nil, codeblock.Options{Timeout: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Outcome, "- nothing of the loop is left:", r.Gone)
	fmt.Println("the container is gone:", s.Close() == nil)
}

// The second exercise: a write to /etc/passwd fails, and the error is on stderr. The
// kernel refuses it, whatever the code is.
func ExampleCall_readOnly() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, sandbox, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	code := codeblock.Block{Language: "python", Code: `open("/etc/passwd", "w")`}
	r, err := codeblock.Call(ctx, s, code, nil, codeblock.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("exit code %d, %d bytes on stdout\n%s", r.ExitCode, len(r.Stdout), r.Stderr)
}

// The third exercise: a fork bomb meets a limit of 50 processes and a quarter of a
// processor.
func ExampleCall_forkBomb() {
	ctx := context.Background()
	p := sandbox
	p.PidsLimit, p.CPUs = 50, "0.25"
	s, err := execpolicy.Start(ctx, p, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	bomb := codeblock.Block{Language: "python", Code: `
import os, signal, time
children = []
try:
    while True:
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        children.append(child)
except BlockingIOError as e:
    print(e.strerror)
    result = len(children) < 50
for child in children:
    os.kill(child, signal.SIGKILL)
    os.wait()
`}
	r, err := codeblock.Call(ctx, s, bomb, nil, codeblock.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%sfewer than 50: %s\n", r.Stdout, r.Value)
}

// The fourth exercise: the result says how long the code ran.
func ExampleCall_duration() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, sandbox, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	code := codeblock.Block{Language: "python", Code: "import time; time.sleep(0.1); result = 'done'"}
	r, err := codeblock.Call(ctx, s, code, nil, codeblock.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(r.Value), r.Duration >= 100*time.Millisecond)
}
