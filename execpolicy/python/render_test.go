package python_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/python"
)

func TestRender(t *testing.T) {
	exited := func(code int, stdout, stderr string) *execpolicy.Result {
		return &execpolicy.Result{Outcome: execpolicy.OutcomeExited, ExitCode: code, Stdout: []byte(stdout),
			Stderr: []byte(stderr)}
	}
	failed := &python.Exception{Type: "ValueError", Message: "no",
		Traceback: "Traceback (most recent call last):\nValueError: no\n"}
	const gone = "The interpreter has ended: its variables and imports are gone.\n"
	for _, c := range []struct {
		r    python.Result
		want string
	}{
		{python.Result{Result: exited(0, "", "")}, "<no output>"},
		{python.Result{Result: exited(0, "a", ""), Value: "42"}, "a\n42\n"},
		{python.Result{Result: exited(0, "a\n", "b"), Value: "42"}, "a\n42\n[stderr]\nb"},
		{python.Result{Result: exited(1, "a", ""), Exception: failed}, "a\n[stderr]\n" + failed.Traceback},
		{python.Result{Result: exited(1, "", "warned"), Exception: failed}, "[stderr]\nwarned\n" + failed.Traceback},
		{python.Result{Result: exited(3, "a", ""), StateLost: true}, "a\n\nExit code: 3\n" + gone},
		{python.Result{Result: exited(0, "", ""), StateLost: true}, "<no output>\n" + gone},
	} {
		assert.Equal(t, c.r.Render(execpolicy.RenderOptions{}), c.want)
	}

	silent := python.Result{Result: exited(0, "", ""), StateLost: true}
	for limit := 1; limit < 2*len(gone); limit++ {
		text := silent.Render(execpolicy.RenderOptions{MaxBytes: limit})
		assert.Assert(t, len(text) <= limit, "%d: %q", limit, text)
	}

	r := python.Result{Result: exited(0, strings.Repeat("ä line\n", 3000), strings.Repeat("b\n", 3000)),
		Value: "'the value'", Exception: failed}
	for _, r.StateLost = range []bool{false, true} {
		for limit := 1; limit < 1000; limit++ {
			text := r.Render(execpolicy.RenderOptions{MaxBytes: limit})
			assert.Assert(t, len(text) <= limit, "%d: %q", limit, text)
			assert.Assert(t, !r.StateLost || limit < len(gone) || strings.HasSuffix(text, gone), "%d: %q", limit, text)
			text = r.Render(execpolicy.RenderOptions{MaxLines: limit})
			assert.Assert(t, strings.Count(strings.TrimSuffix(text, "\n"), "\n") < limit, "%d: %q", limit, text)
			assert.Assert(t, len(text) <= execpolicy.DefaultRenderBytes)
			assert.Assert(t, !r.StateLost || strings.HasSuffix(text, gone), "%d: %q", limit, text)
		}
		text := r.Render(execpolicy.RenderOptions{MaxBytes: -1, MaxLines: -1})
		assert.Equal(t, strings.Count(text, "line\n"), 3000)
		assert.Assert(t, strings.Contains(text, "'the value'\n[stderr]\n"))
	}
	// The result is as it was.
	assert.Equal(t, len(r.Stdout), len("ä line\n")*3000)
}
