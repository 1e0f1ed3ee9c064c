package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// MaxInput is how many bytes the input of a call may have: 4 MiB, which is more than a
// model writes in one answer.
const MaxInput = 4 << 20

// The types of a field, as JSON Schema names them.
const (
	text    = "string"
	flag    = "boolean"
	integer = "integer"
)

// A field is one property of a tool's input.
type field struct {
	name, kind, about string
	required          bool
	choices           []string // what a text may be; if empty, anything
	// wrong is what is said of a value of another type. If empty, it is the usual.
	wrong string
}

// A form is all properties of a tool's input, in the order in which a model is to write
// them.
type form []field

// schema returns the JSON Schema of a form. It has only what the APIs of all models know.
func (f form) schema() json.RawMessage {
	var b bytes.Buffer
	var required []string
	b.WriteString(`{"type":"object","properties":{`)
	for i, field := range f {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `%s:{"type":%s,"description":%s`, quoted(field.name), quoted(field.kind), quoted(field.about))
		if len(field.choices) > 0 {
			fmt.Fprintf(&b, `,"enum":["%s"]`, strings.Join(field.choices, `","`))
		}
		b.WriteByte('}')
		if field.required {
			required = append(required, quoted(field.name))
		}
	}
	b.WriteByte('}')
	if len(required) > 0 {
		fmt.Fprintf(&b, `,"required":[%s]`, strings.Join(required, ","))
	}
	b.WriteByte('}')
	return b.Bytes()
}

// quoted returns a string as JSON.
func quoted(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(s)
	return strings.TrimSuffix(b.String(), "\n")
}

// An input is what a model has written into a form: strings, bools and ints by the names
// of their fields. It has no entry for what the model left out, or gave as null.
type input map[string]any

func (in input) has(name string) bool { return in[name] != nil }

func (in input) text(name string) string {
	s, _ := in[name].(string)
	return s
}

func (in input) flag(name string) bool {
	b, _ := in[name].(bool)
	return b
}

// number returns an integer, or what stands for one that was left out.
func (in input) number(name string, otherwise int) int {
	if n, ok := in[name].(int); ok {
		return n
	}
	return otherwise
}

// parse reads an input. If it is not right, wrong says all that is wrong, for the model.
// shown returns a name as a reply may have it.
func (f form) parse(tool string, data json.RawMessage, shown func(string) string) (in input, wrong string) {
	if len(data) > MaxInput {
		return nil, fmt.Sprintf("The input of %s has %d bytes, which is too much: it may have %d.", tool, len(data), MaxInput)
	}
	in = input{}
	if data = bytes.TrimSpace(data); len(data) == 0 {
		data = []byte("{}")
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		if !json.Valid(data) {
			return nil, fmt.Sprintf("The input of %s is not JSON: %v. If it was cut off, do it in smaller steps.", tool, err)
		}
		return nil, fmt.Sprintf("The input of %s must be a JSON object.%s", tool, f.usage())
	}
	var problems []string
	for _, field := range f {
		value, ok := raw[field.name]
		delete(raw, field.name)
		switch {
		case !ok || string(value) == "null":
			if field.required {
				problems = append(problems, fmt.Sprintf("%q is missing", field.name))
			}
		case field.decode(value, in) && field.allows(in):
		case len(field.choices) > 0:
			problems = append(problems, fmt.Sprintf("%q must be one of %s", field.name, strings.Join(field.choices, ", ")))
		case field.wrong != "":
			return nil, field.wrong
		default:
			problems = append(problems, fmt.Sprintf("%q must be of the type %s", field.name, field.kind))
		}
	}
	unknown := make([]string, 0, len(raw))
	for name := range raw {
		unknown = append(unknown, name)
	}
	slices.Sort(unknown)
	for i, name := range unknown {
		if i == maxUnknown {
			problems = append(problems, fmt.Sprintf("and %d more", len(unknown)-i))
			break
		}
		problems = append(problems, fmt.Sprintf("there is no %q", shown(name)))
	}
	if len(problems) > 0 {
		return nil, fmt.Sprintf("The input of %s is not right: %s.%s", tool, strings.Join(problems, "; "), f.usage())
	}
	return in, ""
}

// maxUnknown is how many properties are named that a tool does not have.
const maxUnknown = 5

// decode puts the value of a field into an input, and reports whether it has the type.
func (f field) decode(value json.RawMessage, in input) bool {
	switch f.kind {
	case text:
		return put[string](in, f.name, value)
	case flag:
		return put[bool](in, f.name, value)
	default:
		return put[int](in, f.name, value) || putWhole(in, f.name, value)
	}
}

// allows reports whether a field may have the value that it has.
func (f field) allows(in input) bool {
	return len(f.choices) == 0 || slices.Contains(f.choices, in.text(f.name))
}

func put[T any](in input, name string, value json.RawMessage) bool {
	var v T
	if json.Unmarshal(value, &v) != nil {
		return false
	}
	in[name] = v
	return true
}

// putWhole puts a number such as 2.0, which a JSON schema takes for an integer too.
func putWhole(in input, name string, value json.RawMessage) bool {
	const exact = 1 << 53
	var v float64
	if json.Unmarshal(value, &v) != nil || v != math.Trunc(v) || math.Abs(v) > exact {
		return false
	}
	in[name] = int(v)
	return true
}

// usage names all fields.
func (f form) usage() string {
	names := make([]string, len(f))
	for i, field := range f {
		names[i] = fmt.Sprintf("%q (%s", field.name, field.kind)
		if !field.required {
			names[i] += ", may be left out"
		}
		names[i] += ")"
	}
	return " It has " + strings.Join(names, ", ") + "."
}

// maxName is how many bytes of a name that the model gave a reply repeats.
const maxName = 200

// short returns a name on one line, within bounds.
func short(name string) string {
	if len(name) > maxName {
		name = name[:maxName] + "..."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(name, "?"))
}
