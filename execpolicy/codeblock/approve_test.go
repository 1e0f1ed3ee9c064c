package codeblock_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/codeblock"
)

// Who approves is asked once about each piece of code, as it is, and about nothing else.
func TestApproveIsAskedAboutCode(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		var asked []execpolicy.Request
		p.Spec.Approve = func(_ context.Context, r execpolicy.Request) error {
			asked = append(asked, r)
			return nil
		}
		s := p.open(t)
		o := codeblock.Options{
			Dir: "/tmp", Env: map[string]string{"A": "1"}, Timeout: 20 * time.Second,
			Languages: map[string]codeblock.Language{
				"awk":   {Programs: []string{"awk"}, Args: []string{"-f"}, Extension: ".awk"},
				"shlib": {Programs: []string{"sh"}, Args: []string{"-e"}},
				"html":  {},
				"node":  {Programs: []string{"sh"}, Stdin: []string{"-s", "x"}},
			},
		}
		request := func(r execpolicy.Request) execpolicy.Request {
			r.Kind, r.Dir, r.Env, r.Timeout = execpolicy.RequestBlock, o.Dir, o.Env, o.Timeout
			return r
		}
		reader := []string{"sh", "-c", "if [ \"${BASH_VERSION-}\" ]; then eval \"$(cat)\"; exit; fi\neval \"$(cat)\""}
		for _, c := range []struct {
			block codeblock.Block
			want  execpolicy.Request
		}{
			{codeblock.Block{Language: "py", Code: "import os\nprint(os.environ['A'])"},
				execpolicy.Request{Language: "python", Argv: []string{"python3", "-u", "-"}}},
			{codeblock.Block{Language: "shell", Code: "echo $A"}, execpolicy.Request{Language: "sh", Argv: reader}},
			{codeblock.Block{Language: "node", Code: "echo $A"},
				execpolicy.Request{Language: "node", Argv: []string{"sh", "-s", "x"}}},
			{codeblock.Block{Language: "awk", Code: "BEGIN { print 1 }"},
				execpolicy.Request{Language: "awk", Argv: []string{"awk", "-f"}}},
			{codeblock.Block{Language: "sh", Code: "# filename: a/b.sh\necho $A"},
				execpolicy.Request{Language: "sh", Argv: []string{"sh", "./a/b.sh"}, Path: "a/b.sh"}},
			{codeblock.Block{Language: "shlib", Code: "# filename: c.sh\necho $A"},
				execpolicy.Request{Language: "shlib", Argv: []string{"sh", "-e", "./c.sh"}, Path: "c.sh"}},
			{codeblock.Block{Language: "html", Code: "<!-- filename: d.html -->"},
				execpolicy.Request{Language: "html", Path: "d.html"}},
		} {
			asked = nil
			r := s.blocks(o, c.block)
			assert.Equal(t, r.ExitCode(), 0, r.Output())
			if c.want.Argv != nil {
				assert.Equal(t, r.Output(), "1\n", c.block.Code)
			}
			c.want.Code = c.block.Code
			assert.DeepEqual(t, asked, []execpolicy.Request{request(c.want)})
		}

		for _, c := range []struct {
			block codeblock.Block
			want  execpolicy.Request
		}{
			{codeblock.Block{Language: "python", Code: "result = INPUT_DATA + 1"},
				execpolicy.Request{Language: "python", Argv: []string{"python3"}}},
			{codeblock.Block{Language: "sh", Code: "cp $COFFERDAM_INPUT $COFFERDAM_RESULT"},
				execpolicy.Request{Language: "sh", Argv: reader}},
		} {
			asked = nil
			r, err := codeblock.Call(t.Context(), s.Session, c.block, 1, codeblock.Options{})
			assert.NilError(t, err)
			assert.Assert(t, r.Value != nil)
			assert.Equal(t, len(asked), 1)
			c.want.Kind, c.want.Code, c.want.Timeout, c.want.Env = execpolicy.RequestCall, c.block.Code,
				30*time.Second, asked[0].Env
			c.want.Input = []byte("1")
			assert.DeepEqual(t, asked[0], c.want)
		}
	})
}

// What is refused is neither stored nor run, and its result says what it was.
func TestRefusedCode(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		no := errors.New("not today")
		p.Spec.Approve = func(_ context.Context, r execpolicy.Request) error {
			if strings.Contains(r.Code, "evil") {
				return no
			}
			return nil
		}
		s := p.open(t)
		r := s.answer("```sh\necho kind\n```\n```sh\necho evil\n```")
		assert.Equal(t, r.Output(), "kind\nError: the command was refused: sh block \"echo evil\\n\": not today\n")
		assert.ErrorIs(t, r.Steps[1].Result.Cause, no)

		r = s.answer("```sh\n# filename: evil.sh\necho evil\n```\n```sh\necho more\n```")
		assert.Equal(t, r.Output(),
			"Error: the command was refused: sh block \"# filename: evil.sh\\necho evil\\n\": not today\n")
		assert.Equal(t, len(r.Steps), 1)
		step := r.Steps[0]
		assert.Assert(t, step.Err == nil && step.File == "" && !step.OK())
		assert.Equal(t, step.Result.Outcome, execpolicy.OutcomeRefused)
		assert.ErrorIs(t, step.Result.Cause, no)
		assert.ErrorIs(t, step.Result.Cause, execpolicy.ErrRefused)
		assert.Equal(t, r.ExitCode(), -1)
		_, err := s.ReadFile(t.Context(), "evil.sh", 0)
		assert.ErrorIs(t, err, fs.ErrNotExist)

		long := "# evil" + strings.Repeat(" ", 200)
		call, err := codeblock.Call(t.Context(), s.Session, codeblock.Block{Language: "python", Code: long}, 1,
			codeblock.Options{})
		assert.NilError(t, err)
		assert.Equal(t, call.Outcome, execpolicy.OutcomeRefused)
		assert.Equal(t, call.Text(), "Error: the command was refused: python call of 206 bytes: not today.")
		assert.Assert(t, call.Value == nil)
		assert.Equal(t, s.ok("ls -A /tmp"), "")
	})
}
