package codeblock

import (
	"cmp"
	"strings"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// Render returns the report as a text for a model, or for a person. It shows the result
// of each block as [execpolicy.Result.Render] does. For a block that was stored and not
// run it names the file, and for one that could not be run it says why. It leaves out a
// block that ended well and printed nothing, unless there is no other.
//
// The options bound the whole text. Each block gets an equal share of it, and later
// blocks also get what earlier ones did not need.
func (r *Report) Render(o execpolicy.RenderOptions) string {
	limit, lines := cmp.Or(o.MaxBytes, execpolicy.DefaultRenderBytes), cmp.Or(o.MaxLines, execpolicy.DefaultRenderLines)
	text := ""
	for i := range r.Steps {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		left := len(r.Steps) - i
		if limit >= 0 {
			o.MaxBytes = (limit - len(text)) / left
		}
		if lines >= 0 {
			o.MaxLines = (lines - strings.Count(text, "\n")) / left
		}
		if o.MaxBytes == 0 || o.MaxLines == 0 {
			continue
		}
		res := r.Steps[i].result()
		quiet := len(res.Stdout)+len(res.Stderr) == 0 && res.Render(execpolicy.RenderOptions{}) == silence
		if quiet && (left > 1 || text != "") {
			continue
		}
		text += res.Render(o)
	}
	if limit >= 0 && len(text) > limit {
		text = strings.TrimSuffix(text, "\n")
	}
	return text
}

// silence is how a result is rendered that has nothing to say.
var silence = (&execpolicy.Result{Outcome: execpolicy.OutcomeExited}).Render(execpolicy.RenderOptions{})

// result returns the step's own, or one that says what became of a block that was not
// run.
func (s *Step) result() *execpolicy.Result {
	if s.Result != nil {
		return s.Result
	}
	said := "Code saved to " + s.File + "\n"
	if s.Err != nil {
		said = "Error: " + s.Err.Error() + "\n"
	}
	return &execpolicy.Result{Outcome: execpolicy.OutcomeExited, Stdout: []byte(said)}
}
