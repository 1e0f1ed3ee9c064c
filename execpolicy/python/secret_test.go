package python_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// A secret is in no value and in no exception.
func TestSecretsAreRedacted(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		p.Spec.Secrets = []execpolicy.Secret{{Name: "TEXT", Value: "geheimé-\U0001f600"},
			{Name: "NUMBER", Value: "4815162342"}}
		n := p.open(t)
		n.ok("import os")
		r := n.ok("[os.environ['TEXT']]")
		assert.Equal(t, r.Value, "['[secret TEXT]']")
		assert.Equal(t, string(r.JSON), `["[secret TEXT]"]`)
		r = n.ok("int(os.environ['NUMBER'])")
		assert.Equal(t, r.Value, "[secret NUMBER]")
		assert.Assert(t, r.JSON == nil, string(r.JSON))
		e := n.fails("raise ValueError(os.environ['TEXT'])", "ValueError")
		assert.Equal(t, e.Message, "[secret TEXT]")
		assert.Assert(t, strings.HasSuffix(strings.TrimSpace(e.Traceback), "ValueError: [secret TEXT]"), e.Traceback)
	})
}
