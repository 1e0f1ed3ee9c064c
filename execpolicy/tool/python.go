package tool

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/python"
)

const pythonAbout = "Run Python code in an interpreter that stays: variables, functions and imports are kept " +
	"for the next call. The reply has what the code printed, the value of the last expression as Python's " +
	"prompt shows it, and the traceback of an exception. The code has no input. Code that takes too long is " +
	"interrupted. The interpreter begins in the working directory and sees the same files as the shell."

var pythonForm = form{
	{name: "code", kind: text, about: "The Python code to run.", required: true},
}

func (s *Set) snippet(ctx context.Context, in input) (Reply, error) {
	p, err := s.interpreter(ctx)
	if err != nil {
		return s.unanswered(ctx, err)
	}
	r, err := p.Run(ctx, python.Snippet{Code: in.text("code")})
	if errors.Is(err, python.ErrClosed) {
		// Set.Close closes it right before the session.
		err = errors.Join(execpolicy.ErrClosed, err)
	}
	if r == nil {
		return s.unanswered(ctx, err)
	}
	notPassed := s.filterValues(r)
	if notPassed != nil {
		// What the snippet printed has passed, but a value can't be told from it.
		r.Value, r.JSON, r.Exception = "", nil, nil
	}
	reply, err := s.ran(ctx, r.Result, r.Render, err)
	if notPassed != nil {
		reply.Text, reply.Failed = s.fit(reply.Text, blocked(notPassed).Text), true
	}
	reply.Value = r.JSON
	reply.Failed = reply.Failed || r.Exception != nil
	return reply, err
}

// interpreter returns the set's interpreter, which the first call starts.
func (s *Set) interpreter(ctx context.Context) (*python.Interpreter, error) {
	if err := s.interpreting.Take(ctx); err != nil {
		return nil, err
	}
	defer s.interpreting.Give()
	if s.python == nil {
		p, err := python.Start(ctx, s.Session.Session, s.options.Python)
		if err != nil {
			return nil, err
		}
		s.python = p
	}
	return s.python, nil
}

// filterValues does to what a snippet said beside its output what Spec.Filter does to
// output.
func (s *Set) filterValues(r *python.Result) error {
	values := []*string{&r.Value}
	if r.Exception != nil {
		values = append(values, &r.Exception.Type, &r.Exception.Message, &r.Exception.Traceback)
	}
	for _, value := range values {
		text, plain, err := s.filteredValue(*value)
		if err != nil {
			return err
		}
		if *value = text; plain {
			r.JSON = nil
		}
	}
	encoded, plain, err := s.filteredValue(string(r.JSON))
	if r.JSON = json.RawMessage(encoded); plain || !json.Valid(r.JSON) {
		r.JSON = nil
	}
	return err
}

// filteredValue is filtered for what may have escapes in it, as a repr and JSON have. The
// letter of one stands before what follows as if it were a part of that, and hides it
// from the filter. If the filter finds something without the escapes, what it has left of
// that plain text takes the place of the value.
func (s *Set) filteredValue(value string) (text string, plain bool, err error) {
	if text, err = s.filtered(value); err != nil || s.filter == nil {
		return text, false, err
	}
	without := unescaped(value)
	if without == value {
		return text, false, nil
	}
	passed, err := s.filtered(without)
	if err != nil || passed != unescaped(text) {
		return passed, true, err
	}
	return text, false, nil
}

// unescaped returns a text with what the escapes of Python and JSON stand for in their
// place. Escapes of bytes that are UTF-8 together stand for those characters, as they do
// in bytes, and others for the characters of these numbers, as they do in a str.
func unescaped(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var raw []byte
	for text != "" {
		if text[0] != '\\' || len(text) == 1 {
			raw, text = append(raw, text[0]), text[1:]
			continue
		}
		// Only the mark that is named may stand behind a backslash.
		if r, multibyte, rest, err := strconv.UnquoteChar(text, text[1]); err == nil {
			if text = rest; multibyte {
				raw = utf8.AppendRune(raw, r)
			} else {
				raw = append(raw, byte(r))
			}
		} else if r := utf16.DecodeRune(unit(text), unit(text[min(len(text), unitLen):])); r != utf8.RuneError {
			raw, text = utf8.AppendRune(raw, r), text[2*unitLen:]
		} else {
			raw, text = append(raw, text[0]), text[1:]
		}
	}
	var b strings.Builder
	for len(raw) > 0 {
		r, n := utf8.DecodeRune(raw)
		if r == utf8.RuneError && n == 1 {
			r = rune(raw[0])
		}
		b.WriteRune(r)
		raw = raw[n:]
	}
	return b.String()
}

// unitLen is the length of an escape such as \ud83d, which is half of a character.
const unitLen = len(`\ud83d`)

// unit returns the number in such an escape at the beginning of a text, or 0.
func unit(text string) rune {
	if len(text) < unitLen || text[:2] != `\u` {
		return 0
	}
	n, err := strconv.ParseUint(text[2:unitLen], 16, 16)
	if err != nil {
		return 0
	}
	return rune(n)
}
