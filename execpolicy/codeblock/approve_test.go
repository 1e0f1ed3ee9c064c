package codeblock_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/codeblock"
)

// Who approves is asked about code, where it runs and where it is kept, and about nothing else; what is refused does neither.
func TestApproveIsAskedAboutCode(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		var asked []string
		no := errors.New("not today")
		p.Spec.Approve = func(_ context.Context, c execpolicy.Command) error {
			code, err := io.ReadAll(c.Stdin)
			assert.Check(t, err)
			asked = append(asked, string(code))
			if strings.Contains(string(code), "evil") {
				return no
			}
			_, err = c.Stdin.(io.Seeker).Seek(0, io.SeekStart)
			return err
		}
		s := p.open(t)
		run := func(text string) *codeblock.Report {
			asked = nil
			r, err := codeblock.Run(t.Context(), s.Session, codeblock.Parse(text), codeblock.Options{})
			assert.NilError(t, err)
			return r
		}
		r := run("```sh\necho kind\n```\n```sh\necho evil\n```")
		assert.Equal(t, r.Output(), "kind\nError: the command was refused: not today\n")
		assert.DeepEqual(t, asked, []string{"echo kind\n", "echo evil\n"})
		assert.ErrorIs(t, r.Steps[1].Result.Cause, no)

		r = run("```sh\n# filename: evil.sh\necho evil\n```")
		assert.Equal(t, len(asked), 1)
		assert.ErrorIs(t, r.Steps[0].Err, no)
		_, err := s.ReadFile(t.Context(), "evil.sh", 0)
		assert.ErrorContains(t, err, "does not exist")
	})
}
