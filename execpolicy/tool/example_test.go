package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/python"
	"github.com/seed-64a260eb/cofferdam/execpolicy/tool"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
)

// sandbox is the zero policy: no network, a read-only root, 512 MiB of memory.
// TestExamples runs the examples below under it, on each engine.
var sandbox = execpolicy.DockerPolicy{}

// ask stands for a POST to a model's API, and returns choices[0].message. Its model first
// makes a mistake, then fixes it.
func ask(tools json.RawMessage, messages []json.RawMessage) json.RawMessage {
	script := []string{
		`{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"python","arguments":"{\"code\":\"sum(rang(11))\"}"}}]}`,
		`{"role":"assistant","tool_calls":[{"id":"2","type":"function","function":{"name":"python","arguments":"{\"code\":\"sum(range(11))\"}"}}]}`,
		`{"role":"assistant","content":"It is 55."}`,
	}
	return json.RawMessage(script[len(messages)/2])
}

// An agent lets a model work until it asks for no more calls.
func Example() {
	ctx := context.Background()
	set, err := tool.Start(ctx, sandbox, execpolicy.Spec{}, tool.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close()
	messages := []json.RawMessage{json.RawMessage(`{"role":"user","content":"Add the numbers up to 10."}`)}
	for {
		message := ask(set.Declare(tool.OpenAI), messages)
		answers, err := set.Answer(ctx, tool.OpenAI, message)
		if err != nil {
			fmt.Println(err)
			return
		}
		messages = append(append(messages, message), answers...)
		if len(answers) == 0 {
			break
		}
	}
	for _, m := range messages[3:] {
		fmt.Println(string(m))
	}
}

// A program with a client of an API hands over the tools in the client's types, and calls
// them by name.
func ExampleSet() {
	ctx := context.Background()
	set, err := tool.Start(ctx, sandbox, execpolicy.Spec{}, tool.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close()
	for _, t := range set.Tools {
		fmt.Print(t.Name, " ")
	}
	reply, err := set.Call(ctx, "write", json.RawMessage(`{"path":"src/main.py","content":"print(1)\n"}`))
	fmt.Println(reply.Text, err)
}

// A tool of the caller's own takes its place beside the others.
func ExampleTool() {
	ctx := context.Background()
	set, err := tool.Start(ctx, sandbox, execpolicy.Spec{}, tool.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close()
	set.Tools = append(set.Tools[:1], tool.Tool{
		Name:        "weather",
		Description: "Tell the weather.",
		Schema:      json.RawMessage(`{"type":"object","properties":{}}`),
		Call: func(context.Context, json.RawMessage) (tool.Reply, error) {
			return tool.Reply{Text: "It rains."}, nil
		},
	})
	for _, name := range []string{"weather", "python"} {
		reply, err := set.Call(ctx, name, nil)
		fmt.Println(reply.Text, err)
	}
}

// The text is for the model, and the result for the program.
func ExampleReply() {
	ctx := context.Background()
	set, err := tool.Start(ctx, sandbox, execpolicy.Spec{}, tool.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close()
	reply, err := set.Call(ctx, "shell", json.RawMessage(`{"command":"echo 5 tests failed; false"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(reply.Text)
	fmt.Println(reply.Failed, reply.Result.Outcome, reply.Result.ExitCode)
}

// A small budget for each reply, and an interpreter in a directory of its own.
func ExampleOptions() {
	ctx := context.Background()
	set, err := tool.Start(ctx, sandbox, execpolicy.Spec{}, tool.Options{
		Render: execpolicy.RenderOptions{MaxBytes: 2000, MaxLines: 5},
		Python: python.Options{Dir: "/tmp"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close()
	reply, err := set.Call(ctx, "python", json.RawMessage(`{"code":"for i in range(1000): print(i)"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(reply.Text)
}

// What Answer makes of a message is the JSON of the same API.
func ExampleAPI() {
	ctx := context.Background()
	set, err := tool.Start(ctx, sandbox, execpolicy.Spec{}, tool.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close()
	for _, c := range []struct {
		api     tool.API
		message string
	}{
		{tool.Anthropic, `{"content":[{"type":"tool_use","id":"toolu_1","name":"shell","input":{"command":"echo hi"}}]}`},
		{tool.Gemini, `{"parts":[{"functionCall":{"name":"shell","args":{"command":"echo hi"}}}]}`},
	} {
		answers, err := set.Answer(ctx, c.api, json.RawMessage(c.message))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(string(answers[0]))
	}
}

func TestExamples(t *testing.T) {
	places.Examples(t, &sandbox, nil, []places.Example{
		{Name: "Example", Run: Example, Want: `{"role":"assistant","tool_calls":[{"id":"2","type":"function","function":` +
			`{"name":"python","arguments":"{\"code\":\"sum(range(11))\"}"}}]}
{"role":"tool","tool_call_id":"2","content":"55\n"}
{"role":"assistant","content":"It is 55."}
`},
		{Name: "Set", Run: ExampleSet, Want: "shell python read write edit list job Wrote 9 bytes to src/main.py. <nil>\n"},
		{Name: "Tool", Run: ExampleTool, Want: "It rains. <nil>\nThere is no tool \"python\". The tools are shell, weather. <nil>\n"},
		{Name: "Reply", Run: ExampleReply, Want: "5 tests failed\n\nExit code: 1\ntrue exited 1\n"},
		{Name: "Options", Run: ExampleOptions, Want: "0\n1\n... 3878 bytes (996 lines) dropped ...\n998\n999\n"},
		{Name: "API", Run: ExampleAPI, Want: `{"content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"hi\n"}],"role":"user"}` +
			"\n" + `{"parts":[{"functionResponse":{"name":"shell","response":{"output":"hi\n"}}}],"role":"user"}` + "\n"},
	})
}
