package langchaingo_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/tool"
	"github.com/seed-64a260eb/cofferdam/execpolicy/tool/langchaingo"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

func TestMain(m *testing.M) {
	fakeengine.Main()
	os.Exit(m.Run())
}

// A scripted model says what stands in its script, whatever it is told, and keeps that.
type scripted struct {
	script []llms.ContentChoice
	tools  []llms.FunctionDefinition
	told   []string // by tools
}

func (m *scripted) GenerateContent(_ context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	var o llms.CallOptions
	for _, set := range options {
		set(&o)
	}
	m.tools = o.Functions
	for _, part := range messages[len(messages)-1].Parts {
		if r, ok := part.(llms.ToolCallResponse); ok {
			m.told = append(m.told, r.Content)
		}
	}
	if len(m.script) == 0 {
		return nil, errors.New("the script is over")
	}
	next := m.script[0]
	m.script = m.script[1:]
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{&next}}, nil
}

func (m *scripted) Call(context.Context, string, ...llms.CallOption) (string, error) {
	return "", errors.ErrUnsupported
}

func says(text string) llms.ContentChoice { return llms.ContentChoice{Content: text} }

// call is what a model says that keeps to what the agent declares: one argument.
func call(name, input string) llms.ContentChoice {
	argument, err := json.Marshal(map[string]string{"__arg1": input})
	if err != nil {
		panic(err)
	}
	return bareCall(name, string(argument))
}

// bareCall is what a model says that keeps to the schema in the description.
func bareCall(name, input string) llms.ContentChoice {
	return llms.ContentChoice{ToolCalls: []llms.ToolCall{
		{ID: "1", Type: "function", FunctionCall: &llms.FunctionCall{Name: name, Arguments: input}},
	}}
}

// run lets an agent work with the tools until the model asks for no more calls.
func run(ctx context.Context, of []tool.Tool, m *scripted) (string, error) {
	agent := agents.NewOpenAIFunctionsAgent(m, langchaingo.Tools(of))
	return chains.Run(ctx, agents.NewExecutor(agent), "Add the numbers up to 10.")
}

// sandbox is the zero policy. TestExample runs the example under it, on each engine.
var sandbox = execpolicy.DockerPolicy{}

// A model uses Python, in place of one that is asked over the network.
func Example() {
	ctx := context.Background()
	set, err := tool.Start(ctx, sandbox, execpolicy.Spec{}, tool.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close()
	model := &scripted{script: []llms.ContentChoice{
		call("python", `{"code":"sum(range(11))"}`),
		says("It is 55."),
	}}
	agent := agents.NewOpenAIFunctionsAgent(model, langchaingo.Tools(set.Tools))
	answer, err := chains.Run(ctx, agents.NewExecutor(agent), "Add the numbers up to 10.")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer)
}

func TestExample(t *testing.T) {
	places.Examples(t, &sandbox, nil, []places.Example{{Name: "Example", Run: Example, Want: "It is 55.\n"}})
}

func TestAgent(t *testing.T) {
	places.Everywhere(t, execpolicy.Limits{CommandTimeout: 30 * time.Second}, func(t *testing.T, p places.Place) {
		set, err := tool.Start(t.Context(), p.Policy, p.Spec, tool.Options{})
		assert.NilError(t, err)
		defer func() { assert.Check(t, set.Close()) }()
		m := &scripted{script: []llms.ContentChoice{
			call("shell", `{"command":"echo 5 tests failed; false"}`),
			call("shell", `echo hi`),
			bareCall("write", `{"path":"/tmp/a","content":"hi\n"}`),
			bareCall("python", `{"code":"open('/tmp/a').read()"}`),
			says("Done."),
		}}
		answer, err := run(t.Context(), set.Tools, m)
		assert.NilError(t, err)
		assert.Equal(t, answer, "Done.")
		assert.Equal(t, len(m.told), 4)
		assert.Equal(t, m.told[0], "5 tests failed\n\nExit code: 1")
		assert.Assert(t, strings.Contains(m.told[1], "JSON"), m.told[1])
		assert.Equal(t, m.told[2], "Wrote 3 bytes to /tmp/a.")
		assert.Equal(t, m.told[3], "'hi\\n'\n")

		assert.Equal(t, len(m.tools), len(set.Tools))
		for i, f := range m.tools {
			want := set.Tools[i]
			assert.Equal(t, f.Name, want.Name)
			assert.Assert(t, strings.HasPrefix(f.Description, want.Description))
			assert.Assert(t, strings.HasSuffix(f.Description, string(want.Schema)))
		}
	})
}

// What the host has to deal with ends the executor's run.
func TestErrorIsTheHosts(t *testing.T) {
	broken := errors.New("the engine does not answer")
	_, err := run(t.Context(), []tool.Tool{{
		Name: "shell", Schema: json.RawMessage(`{"type":"object"}`),
		Call: func(context.Context, json.RawMessage) (tool.Reply, error) {
			return tool.Reply{Text: "The tool does not work now."}, broken
		},
	}}, &scripted{script: []llms.ContentChoice{call("shell", `{}`)}})
	assert.ErrorIs(t, err, broken)
}
