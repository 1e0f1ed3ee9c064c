package codeblock_test

import (
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/codeblock"
)

// A secret is in no result, however JSON has it.
func TestCallRedactsSecrets(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		p.Spec.Secrets = []execpolicy.Secret{
			{Name: "TEXT", Value: "geh\"eim\\nis\té-\U0001f600"},
			{Name: "NUMBER", Value: "4815162342"},
		}
		s := p.open(t)
		run := func(code string) (*codeblock.Return, error) {
			return codeblock.Call(t.Context(), s.Session, codeblock.Block{Language: "python", Code: code}, nil,
				codeblock.Options{})
		}
		for _, dump := range []string{"os.environ['TEXT']", "json.loads(json.dumps(os.environ['TEXT']))"} {
			r, err := run("import os, json\nresult = {'a': 'x' + " + dump + ", 'b': 1}")
			assert.NilError(t, err)
			assert.Equal(t, plain(t, string(r.Value)), `{"a":"x[secret TEXT]","b":1}`)
		}
		r, err := run("import os\nresult = os.environ['NUMBER']")
		assert.NilError(t, err)
		assert.Equal(t, string(r.Value), `"[secret NUMBER]"`)
		_, err = run("import os\nresult = int(os.environ['NUMBER'])")
		assert.ErrorIs(t, err, codeblock.ErrBadResult)
		assert.ErrorContains(t, err, "it contains a secret")
	})
}
