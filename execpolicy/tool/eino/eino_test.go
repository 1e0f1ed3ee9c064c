package eino_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/tool"
	"github.com/seed-64a260eb/cofferdam/execpolicy/tool/eino"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

func TestMain(m *testing.M) {
	fakeengine.Main()
	os.Exit(m.Run())
}

// A scripted model says what stands in its script, whatever it is told, and keeps that.
type scripted struct {
	script []*schema.Message
	tools  []*schema.ToolInfo
	told   []string // by tools
}

func (m *scripted) Generate(_ context.Context, messages []*schema.Message, _ ...model.Option) (*schema.Message, error) {
	if last := messages[len(messages)-1]; last.Role == schema.Tool {
		m.told = append(m.told, last.Content)
	}
	if len(m.script) == 0 {
		return nil, errors.New("the script is over")
	}
	next := m.script[0]
	m.script = m.script[1:]
	return next, nil
}

func (m *scripted) Stream(ctx context.Context, messages []*schema.Message, _ ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	next, err := m.Generate(ctx, messages)
	return schema.StreamReaderFromArray([]*schema.Message{next}), err
}

func (m *scripted) WithTools(tools []*schema.ToolInfo) (model.ToolCallingChatModel, error) {
	m.tools = tools
	return m, nil
}

func call(name, input string) *schema.Message {
	return schema.AssistantMessage("", []schema.ToolCall{
		{ID: "1", Type: "function", Function: schema.FunctionCall{Name: name, Arguments: input}},
	})
}

// run lets an agent work with the tools until the model asks for no more calls.
func run(ctx context.Context, tools []tool.Tool, m *scripted) (*schema.Message, error) {
	made, err := eino.Tools(tools)
	if err != nil {
		return nil, err
	}
	agent, err := react.NewAgent(ctx, &react.AgentConfig{
		ToolCallingModel: m,
		ToolsConfig:      compose.ToolsNodeConfig{Tools: made, ExecuteSequentially: true},
	})
	if err != nil {
		return nil, err
	}
	return agent.Generate(ctx, []*schema.Message{schema.UserMessage("Add the numbers up to 10.")})
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
	tools, err := eino.Tools(set.Tools)
	if err != nil {
		fmt.Println(err)
		return
	}
	agent, err := react.NewAgent(ctx, &react.AgentConfig{
		ToolCallingModel: &scripted{script: []*schema.Message{
			call("python", `{"code":"sum(range(11))"}`),
			schema.AssistantMessage("It is 55.", nil),
		}},
		ToolsConfig: compose.ToolsNodeConfig{Tools: tools, ExecuteSequentially: true},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := agent.Generate(ctx, []*schema.Message{schema.UserMessage("Add the numbers up to 10.")})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Content)
}

func TestExample(t *testing.T) {
	places.Examples(t, &sandbox, nil, []places.Example{{Name: "Example", Run: Example, Want: "It is 55.\n"}})
}

func TestAgent(t *testing.T) {
	places.Everywhere(t, execpolicy.Limits{CommandTimeout: 30 * time.Second}, func(t *testing.T, p places.Place) {
		set, err := tool.Start(t.Context(), p.Policy, p.Spec, tool.Options{})
		assert.NilError(t, err)
		defer func() { assert.Check(t, set.Close()) }()
		m := &scripted{script: []*schema.Message{
			call("shell", `{"command":"echo 5 tests failed; false"}`),
			call("shell", `{"comand":"true"}`),
			call("write", `{"path":"/tmp/a","content":"hi\n"}`),
			call("python", `{"code":"open('/tmp/a').read()"}`),
			schema.AssistantMessage("Done.", nil),
		}}
		answer, err := run(t.Context(), set.Tools, m)
		assert.NilError(t, err)
		assert.Equal(t, answer.Content, "Done.")
		assert.DeepEqual(t, m.told, []string{
			"5 tests failed\n\nExit code: 1",
			`The input of shell is not right: there is no "comand". It has "command" ` +
				`(string, may be left out), "restart" (boolean, may be left out).`,
			"Wrote 3 bytes to /tmp/a.",
			"'hi\\n'\n",
		})

		assert.Equal(t, len(m.tools), len(set.Tools))
		for i, info := range m.tools {
			want := set.Tools[i]
			assert.Equal(t, info.Name, want.Name)
			assert.Equal(t, info.Desc, want.Description)
			input, err := info.ToJSONSchema()
			assert.NilError(t, err)
			text, err := json.Marshal(input)
			assert.NilError(t, err)
			assert.DeepEqual(t, decoded(t, text), decoded(t, want.Schema))
		}
	})
}

func decoded(t *testing.T, text json.RawMessage) (value any) {
	t.Helper()
	assert.NilError(t, json.Unmarshal(text, &value))
	return value
}

// What the host has to deal with ends the agent's run.
func TestErrorIsTheHosts(t *testing.T) {
	broken := errors.New("the engine does not answer")
	_, err := run(t.Context(), []tool.Tool{{
		Name: "shell", Schema: json.RawMessage(`{"type":"object"}`),
		Call: func(context.Context, json.RawMessage) (tool.Reply, error) {
			return tool.Reply{Text: "The tool does not work now."}, broken
		},
	}}, &scripted{script: []*schema.Message{call("shell", `{}`)}})
	assert.ErrorIs(t, err, broken)
}

func TestNoSchema(t *testing.T) {
	_, err := eino.Tools([]tool.Tool{{Name: "odd", Schema: json.RawMessage("{")}})
	assert.Assert(t, cmp.ErrorContains(err, `the schema of the tool "odd"`))
}
