package tool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// An API is one of the HTTP APIs of models. What a Set writes for one is the JSON of that
// API, so it works with any client of it, and with whatever else speaks the same API.
type API int

const (
	// OpenAI is OpenAI's Chat Completions API: /v1/chat/completions.
	OpenAI API = iota + 1
	// Anthropic is Anthropic's Messages API: /v1/messages.
	Anthropic
	// Gemini is the method generateContent of Google's Gemini API.
	Gemini
)

// String returns the name of the API.
func (a API) String() string {
	switch a {
	case OpenAI:
		return "OpenAI"
	case Anthropic:
		return "Anthropic"
	case Gemini:
		return "Gemini"
	}
	return fmt.Sprintf("API(%d)", int(a))
}

// MaxCalls is how many calls of one message [Set.Answer] makes. Those beyond are answered
// and not made.
const MaxCalls = 128

// Declare returns the set's tools as the API wants them in the field "tools" of a
// request. It panics if there is no such API.
func (s *Set) Declare(api API) json.RawMessage {
	var tools []any
	for _, t := range s.Tools {
		switch api {
		case OpenAI:
			tools = append(tools, openAITool{"function", openAIFunction{t.Name, t.Description, t.Schema}})
		case Anthropic:
			tools = append(tools, anthropicTool{t.Name, t.Description, t.Schema})
		case Gemini:
			tools = append(tools, geminiTool{t.Name, t.Description, t.Schema})
		default:
			panic("there is no " + api.String())
		}
	}
	if api == Gemini {
		tools = []any{map[string]any{"functionDeclarations": tools}}
	}
	return encode(tools)
}

// Answer makes the calls that a model's message asks for, one after another, and returns
// the messages to put after it in the next request. There are none if it asks for no
// call. The message is, as it came in the response,
//
//   - of OpenAI, choices[0].message,
//   - of Anthropic, the whole response or its field content,
//   - of Gemini, candidates[0].content.
//
// If the message is not one of the API's, Answer returns no messages, and an error that
// wraps [execpolicy.ErrInvalid]. An error that comes with messages is that of a call. The
// calls after it were not made. The messages answer all calls, so that the conversation
// can go on.
func (s *Set) Answer(ctx context.Context, api API, message json.RawMessage) ([]json.RawMessage, error) {
	calls, err := parseCalls(api, message)
	if err != nil {
		return nil, fmt.Errorf("%w: it is not a message of %v's API: %w", execpolicy.ErrInvalid, api, err)
	}
	var failure error
	for i := range calls {
		c := &calls[i]
		switch {
		case failure != nil:
			c.reply = failed("The call was not made, because one before it failed.")
		case i >= MaxCalls:
			c.reply = failed("The call was not made: one message may have %d calls.", MaxCalls)
		default:
			c.reply, failure = s.Call(ctx, c.name, c.input)
		}
	}
	return answers(api, calls), failure
}

// A call is one that a model has asked for, with what came of it.
type call struct {
	id, name string
	input    json.RawMessage
	reply    Reply
}

// The shapes of the three APIs.
type (
	openAITool struct {
		Type     string         `json:"type"`
		Function openAIFunction `json:"function"`
	}
	openAIFunction struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	openAIMessage struct {
		Calls []struct {
			ID       string `json:"id"`
			Function struct {
				Name      string `json:"name"`
				Arguments string `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	}
	openAIAnswer struct {
		Role    string `json:"role"`
		ID      string `json:"tool_call_id"`
		Content string `json:"content"`
	}

	anthropicTool struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"input_schema"`
	}
	anthropicBlock struct {
		Type  string          `json:"type"`
		ID    string          `json:"id"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	anthropicAnswer struct {
		Type    string `json:"type"`
		ID      string `json:"tool_use_id"`
		Content string `json:"content"`
		IsError bool   `json:"is_error,omitempty"`
	}

	geminiTool struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parametersJsonSchema"`
	}
	geminiContent struct {
		Parts []struct {
			Call *struct {
				ID   string          `json:"id"`
				Name string          `json:"name"`
				Args json.RawMessage `json:"args"`
			} `json:"functionCall"`
		} `json:"parts"`
	}
	geminiAnswer struct {
		Response geminiResponse `json:"functionResponse"`
	}
	geminiResponse struct {
		ID       string            `json:"id,omitempty"`
		Name     string            `json:"name"`
		Response map[string]string `json:"response"`
	}
)

// parseCalls returns the calls of a message.
func parseCalls(api API, message json.RawMessage) (calls []call, err error) {
	switch api {
	case OpenAI:
		var m openAIMessage
		err = json.Unmarshal(message, &m)
		for _, c := range m.Calls {
			calls = append(calls, call{id: c.ID, name: c.Function.Name, input: json.RawMessage(c.Function.Arguments)})
		}
	case Anthropic:
		content := message
		if !bytes.HasPrefix(bytes.TrimSpace(message), []byte("[")) {
			var m struct {
				Content json.RawMessage `json:"content"`
			}
			if err = json.Unmarshal(message, &m); err == nil && m.Content == nil {
				err = errors.New("it has no content")
			}
			content = m.Content
		}
		var blocks []anthropicBlock
		if err == nil && !bytes.HasPrefix(content, []byte(`"`)) {
			err = json.Unmarshal(content, &blocks)
		}
		for _, b := range blocks {
			if b.Type == "tool_use" {
				calls = append(calls, call{id: b.ID, name: b.Name, input: b.Input})
			}
		}
	case Gemini:
		var m geminiContent
		err = json.Unmarshal(message, &m)
		for _, p := range m.Parts {
			if p.Call != nil {
				calls = append(calls, call{id: p.Call.ID, name: p.Call.Name, input: p.Call.Args})
			}
		}
	default:
		err = fmt.Errorf("there is no %v", api)
	}
	if err != nil {
		return nil, err
	}
	return calls, nil
}

// answers returns the messages that tell a model what came of its calls.
func answers(api API, calls []call) []json.RawMessage {
	if len(calls) == 0 {
		return nil
	}
	var messages []json.RawMessage
	var parts []any
	for _, c := range calls {
		text := cmp.Or(c.reply.Text, "<no output>")
		switch api {
		case OpenAI:
			messages = append(messages, encode(openAIAnswer{"tool", c.id, text}))
		case Anthropic:
			parts = append(parts, anthropicAnswer{"tool_result", c.id, text, c.reply.Failed})
		case Gemini:
			key := "output"
			if c.reply.Failed {
				key = "error"
			}
			parts = append(parts, geminiAnswer{geminiResponse{c.id, c.name, map[string]string{key: text}}})
		}
	}
	switch api {
	case Anthropic:
		messages = append(messages, encode(map[string]any{"role": "user", "content": parts}))
	case Gemini:
		messages = append(messages, encode(map[string]any{"role": "user", "parts": parts}))
	}
	return messages
}

// encode returns v as JSON, with "<", ">" and "&" as they are.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // a tool's Schema is not JSON
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
