package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/golden"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/tool"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
)

var apis = []tool.API{tool.OpenAI, tool.Anthropic, tool.Gemini}

// file returns the name of an API's file below testdata.
func file(api tool.API, name string) string {
	return strings.ToLower(api.String()) + "-" + name + ".json"
}

// indented returns JSON as a golden file has it.
func indented(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	assert.NilError(t, e.Encode(v))
	return b.String()
}

// The golden files are what the APIs take, and what they return. Each conversation is a
// request's tools, a response's message, and the messages that answer it.
func TestWireForms(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		s := open(t, p.Policy, p.Spec, tool.Options{})
		s.ok("write", "path", "greeting", "content", "<hello> & goodbye\n")
		for _, api := range apis {
			golden.Assert(t, indented(t, s.Declare(api)), file(api, "tools"))
			message, err := os.ReadFile(filepath.Join("testdata", file(api, "message")))
			assert.NilError(t, err)
			given := bytes.Clone(message)
			answers, err := s.Answer(t.Context(), api, message)
			assert.NilError(t, err)
			assert.Assert(t, bytes.Equal(message, given), "%s", message)
			golden.Assert(t, indented(t, answers), file(api, "answers"))
			done, err := os.ReadFile(filepath.Join("testdata", file(api, "done")))
			assert.NilError(t, err)
			answers, err = s.Answer(t.Context(), api, done)
			assert.NilError(t, err)
			assert.Equal(t, len(answers), 0)
		}
	})
}

// The schemas have only what each API's documentation lists, so that they are taken
// without a translation.
func TestSchemasAreSimple(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		s := open(t, p.Policy, p.Spec, tool.Options{})
		for _, tl := range s.Tools {
			d := json.NewDecoder(bytes.NewReader(tl.Schema))
			d.DisallowUnknownFields()
			var schema struct {
				Type       string `json:"type"`
				Properties map[string]struct {
					Type        string   `json:"type"`
					Description string   `json:"description"`
					Enum        []string `json:"enum"`
				} `json:"properties"`
				Required []string `json:"required"`
			}
			assert.NilError(t, d.Decode(&schema), tl.Name)
			assert.Equal(t, schema.Type, "object")
			for name, property := range schema.Properties {
				assert.Check(t, cmp.Regexp("^(string|integer|boolean)$", property.Type), "%s.%s", tl.Name, name)
				assert.Check(t, property.Description != "")
			}
			for _, name := range schema.Required {
				assert.Check(t, schema.Properties[name].Type != "", name)
			}
			assert.Check(t, len(tl.Description) <= 1024, "%s: OpenAI takes no more", tl.Name)
		}
	})
}

// scripted returns a set without a session.
func scripted(call func(context.Context, json.RawMessage) (tool.Reply, error)) *tool.Set {
	return &tool.Set{Tools: []tool.Tool{{Name: "t", Schema: json.RawMessage("{}"), Call: call}}}
}

func TestAnswerIsBounded(t *testing.T) {
	made := 0
	s := scripted(func(context.Context, json.RawMessage) (tool.Reply, error) {
		made++
		return tool.Reply{Text: "done"}, nil
	})
	calls := strings.Repeat(`{"id":"1","function":{"name":"t","arguments":"{}"}},`, tool.MaxCalls+2)
	answers, err := s.Answer(t.Context(), tool.OpenAI, json.RawMessage(`{"tool_calls":[`+strings.TrimSuffix(calls, ",")+`]}`))
	assert.NilError(t, err)
	assert.Equal(t, made, tool.MaxCalls)
	assert.Equal(t, len(answers), tool.MaxCalls+2)
	assert.Assert(t, cmp.Contains(string(answers[tool.MaxCalls]), "one message may have 128 calls"))
}

// Behind a call whose error is the host's no other is made, and all are answered.
func TestAnswerStopsAtAnError(t *testing.T) {
	broken := errors.New("broken")
	made := 0
	s := scripted(func(context.Context, json.RawMessage) (tool.Reply, error) {
		made++
		return tool.Reply{Text: "no", Failed: true}, broken
	})
	answers, err := s.Answer(t.Context(), tool.Gemini,
		json.RawMessage(`{"parts":[{"functionCall":{"name":"t"}},{"text":"and"},{"functionCall":{"name":"t"}}]}`))
	assert.ErrorIs(t, err, broken)
	assert.Equal(t, made, 1)
	assert.Equal(t, string(answers[0]), `{"parts":[{"functionResponse":{"name":"t","response":{"error":"no"}}},`+
		`{"functionResponse":{"name":"t","response":{"error":"The call was not made, because one before it failed."}}}],"role":"user"}`)
}

func TestAnswerRefuses(t *testing.T) {
	s := scripted(nil)
	for _, c := range []struct {
		api     tool.API
		message string
	}{
		{tool.OpenAI, ""}, {tool.OpenAI, "[]"}, {tool.OpenAI, `{"tool_calls":{}}`},
		{tool.Anthropic, ""}, {tool.Anthropic, `{"content":{}}`}, {tool.Anthropic, `{}`}, {tool.Anthropic, `[1]`},
		{tool.Gemini, ""}, {tool.Gemini, `{"parts":{}}`}, {0, "{}"},
	} {
		_, err := s.Answer(t.Context(), c.api, json.RawMessage(c.message))
		assert.Check(t, cmp.ErrorIs(err, execpolicy.ErrInvalid), "%v %s", c.api, c.message)
	}
}

// Whatever comes as a message, each call is answered once, in JSON.
func FuzzAnswer(f *testing.F) {
	for _, api := range apis {
		for _, name := range []string{"message", "done"} {
			data, err := os.ReadFile(filepath.Join("testdata", file(api, name)))
			assert.NilError(f, err)
			f.Add(int(api), data)
		}
	}
	for _, text := range []string{"", "null", "[]", `"text"`, `{"content":null}`, `{"parts":[null]}`, `{"tool_calls":[null]}`} {
		f.Add(0, []byte(text))
		for _, api := range apis {
			f.Add(int(api), []byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, api int, message []byte) {
		made := 0
		s := scripted(func(context.Context, json.RawMessage) (tool.Reply, error) {
			made++
			return tool.Reply{Text: fmt.Sprint(made)}, nil
		})
		given := bytes.Clone(message)
		answers, err := s.Answer(t.Context(), tool.API(api), message)
		assert.Assert(t, bytes.Equal(message, given), "%q", message)
		if err != nil {
			assert.ErrorIs(t, err, execpolicy.ErrInvalid)
			assert.Equal(t, made, 0)
			return
		}
		for _, answer := range answers {
			assert.Assert(t, json.Valid(answer), "%q", answer)
		}
		assert.Assert(t, made <= tool.MaxCalls)
		assert.Assert(t, made == 0 || len(answers) > 0)
	})
}
