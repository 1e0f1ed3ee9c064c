// Package langchaingo makes the tools of a set tools of LangChain Go.
//
//	set, err := tool.Start(ctx, policy, execpolicy.Spec{}, tool.Options{})
//	...
//	defer set.Close()
//	agent := agents.NewOpenAIFunctionsAgent(model, langchaingo.Tools(set.Tools))
//	answer, err := chains.Run(ctx, agents.NewExecutor(agent), "Add the numbers up to 10.")
//
// A tool of LangChain Go takes a text and has no schema. So the description says that the
// text is a JSON object, and has its schema.
//
// What a model does wrong is told to it in the text that the tool returns. An error of a
// tool is the host's to deal with, and ends the executor's run.
package langchaingo

import (
	"context"
	"encoding/json"

	"github.com/tmc/langchaingo/tools"

	"github.com/seed-64a260eb/cofferdam/execpolicy/tool"
)

// Tools returns the tools as those of LangChain Go.
func Tools(of []tool.Tool) []tools.Tool {
	made := make([]tools.Tool, len(of))
	for i, t := range of {
		made[i] = adapted{t}
	}
	return made
}

type adapted struct{ tool tool.Tool }

func (a adapted) Name() string { return a.tool.Name }

func (a adapted) Description() string {
	return a.tool.Description + "\n\nThe input is a JSON object with this schema: " + string(a.tool.Schema)
}

func (a adapted) Call(ctx context.Context, input string) (string, error) {
	reply, err := a.tool.Call(ctx, json.RawMessage(input))
	return reply.Text, err
}
