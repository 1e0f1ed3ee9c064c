package codeblock_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/codeblock"
)

func TestRender(t *testing.T) {
	printed := func(stdout, stderr string) codeblock.Step {
		return codeblock.Step{Result: &execpolicy.Result{Outcome: execpolicy.OutcomeExited, Stdout: []byte(stdout),
			Stderr: []byte(stderr)}}
	}
	stored := codeblock.Step{File: "a.py"}
	unknown := codeblock.Step{Err: errors.New("unknown language")}
	late := codeblock.Step{Result: &execpolicy.Result{
		Outcome: execpolicy.OutcomeTimedOut, ExitCode: -1, Timeout: 2 * time.Second, Stdout: []byte("begun\n"),
		StateLost: true,
	}}
	for _, c := range []struct {
		steps []codeblock.Step
		want  string
	}{
		{nil, ""},
		{[]codeblock.Step{printed("", "")}, "<no output>"},
		{[]codeblock.Step{printed("", ""), printed("", "")}, "<no output>"},
		{[]codeblock.Step{printed("", ""), printed("a", ""), printed("", "")}, "a\n"},
		{[]codeblock.Step{printed("<", ""), printed("<no", ""), printed("b\n", ""), printed("<no output>", "")},
			"<\n<no\nb\n<no output>"},
		{[]codeblock.Step{printed("a", ""), printed("b\n", "c"), stored, unknown},
			"a\nb\n[stderr]\nc\nCode saved to a.py\nError: unknown language\n"},
		{[]codeblock.Step{printed("a\n", ""), late}, "a\nbegun\n\nTimed out after 2.0 s: the command was ended.\n" +
			"The shell was replaced: its variables and functions are gone, files stay."},
	} {
		assert.Equal(t, (&codeblock.Report{Steps: c.steps}).Render(execpolicy.RenderOptions{}), c.want)
	}

	long := strings.Repeat("a long line of output\n", 2000)
	for _, steps := range [][]codeblock.Step{
		{printed(long, long), printed("short", ""), printed(long, "")},
		{printed("x", ""), printed("y", ""), printed("", ""), printed("z", ""), unknown},
		{printed("x", ""), late},
		{late},
	} {
		r := codeblock.Report{Steps: steps}
		for limit := 1; limit < 700; limit++ {
			text := r.Render(execpolicy.RenderOptions{MaxBytes: limit})
			assert.Assert(t, len(text) <= limit, "%d: %q", limit, text)
			text = r.Render(execpolicy.RenderOptions{MaxLines: limit})
			assert.Assert(t, strings.Count(strings.TrimSuffix(text, "\n"), "\n") < limit, "%d: %q", limit, text)
			assert.Assert(t, len(text) <= execpolicy.DefaultRenderBytes)
		}
	}
	r := codeblock.Report{Steps: []codeblock.Step{printed("few", ""), printed(long+"end\n", "")}}
	text := r.Render(execpolicy.RenderOptions{MaxBytes: 1000})
	assert.Assert(t, len(text) > 900 && strings.HasPrefix(text, "few\na long") && strings.HasSuffix(text, "\nend\n"),
		"%q", text)
	assert.Equal(t, len(r.Render(execpolicy.RenderOptions{MaxBytes: -1, MaxLines: -1})), len("few\nend\n")+len(long))
}
