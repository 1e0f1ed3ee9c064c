package tool

import (
	"context"
	"encoding/json"

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
		var err error
		if *value, err = s.filtered(*value); err != nil {
			return err
		}
	}
	filtered, err := s.filtered(string(r.JSON))
	if r.JSON = json.RawMessage(filtered); !json.Valid(r.JSON) {
		r.JSON = nil
	}
	return err
}
