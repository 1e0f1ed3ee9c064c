package python_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/python"
)

// Who approves is asked once about each snippet, as it is. One that is refused costs
// nothing and says nothing.
func TestApproveIsAskedAboutSnippets(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		no := errors.New("not today")
		var asked []execpolicy.Request
		p.Spec.Approve = func(_ context.Context, r execpolicy.Request) error {
			asked = append(asked, r)
			if strings.Contains(r.Code, "evil") {
				return no
			}
			return nil
		}
		n := p.open(t)
		refused := func() {
			t.Helper()
			r := n.run(python.Snippet{Code: "evil()"})
			assert.Equal(t, r.Outcome, execpolicy.OutcomeRefused)
			assert.Equal(t, r.Text(), `Error: the command was refused: python snippet "evil()": not today.`)
			assert.ErrorIs(t, r.Cause, no)
			assert.Assert(t, r.Value == "" && r.JSON == nil && r.Exception == nil && !r.StateLost)
		}
		refused()
		n.ok("x = 5")
		assert.Equal(t, n.value("x"), "5")
		refused()
		asked = nil
		r := n.run(python.Snippet{Code: "x + 1", Timeout: 20 * time.Second})
		assert.Equal(t, r.Value, "6")
		assert.DeepEqual(t, asked, []execpolicy.Request{
			{Kind: execpolicy.RequestSnippet, Language: "python", Code: "x + 1", Timeout: 20 * time.Second},
		})

		// It is asked once also about one for which another interpreter has to be
		// started.
		n.shell("cd /tmp/.coff*; read -r pid start <pid; kill -9 $pid; until [ -e dead ]; do :; done")
		asked = nil
		r = n.run(python.Snippet{Code: "2"})
		assert.Assert(t, r.StateLost && r.Value == "2", "%q", r.Value)
		assert.Equal(t, len(asked), 1)
	})
}

// A record has the code of each snippet, also of one that goes by stdin.
func TestRecordsHaveTheCode(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		var recorded []string
		p.Spec.Audit = func(e execpolicy.Event) error {
			if e.Kind == execpolicy.EventCommand && strings.Contains(e.Script, "kept") {
				assert.Check(t, e.Argv == nil, "%q", e.Argv)
				recorded = append(recorded, e.Script)
			}
			return nil
		}
		n := p.open(t)
		short, long := "kept = 1", "kept = 2 #"+strings.Repeat(" ", 10_000)
		n.ok(short)
		n.ok(long)
		n.Close()
		assert.NilError(t, n.session.Close())
		assert.DeepEqual(t, recorded, []string{short, long})
	})
}
