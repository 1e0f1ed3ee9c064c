// Package eino makes the tools of a set tools of CloudWeGo's eino.
//
//	set, err := tool.Start(ctx, policy, execpolicy.Spec{}, tool.Options{})
//	...
//	defer set.Close()
//	tools, err := eino.Tools(set.Tools)
//	...
//	agent, err := react.NewAgent(ctx, &react.AgentConfig{
//		ToolCallingModel: model,
//		ToolsConfig:      compose.ToolsNodeConfig{Tools: tools, ExecuteSequentially: true},
//	})
//
// What a model does wrong is told to it in the text that the tool returns. An error of a
// tool is the host's to deal with, and ends the agent's run.
//
// Calls of one set take turns, in no order if eino makes them at the same time. With
// ExecuteSequentially they come in the order that the model wants.
package eino

import (
	"context"
	"encoding/json"
	"fmt"

	einotool "github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/schema"
	"github.com/eino-contrib/jsonschema"

	"github.com/seed-64a260eb/cofferdam/execpolicy/tool"
)

// Tools returns the tools as eino's, each an [einotool.InvokableTool]. Its error says
// which tool's Schema is not a JSON Schema. Those of a [tool.Set] are.
func Tools(tools []tool.Tool) ([]einotool.BaseTool, error) {
	made := make([]einotool.BaseTool, len(tools))
	for i, t := range tools {
		input := &jsonschema.Schema{}
		if err := json.Unmarshal(t.Schema, input); err != nil {
			return nil, fmt.Errorf("the schema of the tool %q: %w", t.Name, err)
		}
		made[i] = adapted{t, &schema.ToolInfo{
			Name: t.Name, Desc: t.Description, ParamsOneOf: schema.NewParamsOneOfByJSONSchema(input),
		}}
	}
	return made, nil
}

type adapted struct {
	tool tool.Tool
	info *schema.ToolInfo
}

func (a adapted) Info(context.Context) (*schema.ToolInfo, error) { return a.info, nil }

func (a adapted) InvokableRun(ctx context.Context, input string, _ ...einotool.Option) (string, error) {
	reply, err := a.tool.Call(ctx, json.RawMessage(input))
	return reply.Text, err
}
