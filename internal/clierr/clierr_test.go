package clierr_test

import (
	"errors"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/clierr"
)

func TestClassify(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	table := clierr.Table{{first, []string{"no", "image"}}, {second, []string{"no"}}}
	assert.Equal(t, table.Classify([]byte("there is NO such Image")), first)
	assert.Equal(t, table.Classify([]byte("no")), second)
	assert.NilError(t, table.Classify([]byte("image")))
}

func TestFailure(t *testing.T) {
	class, cause := errors.New("the class"), errors.New("the cause")
	for text, f := range map[string]clierr.Failure{
		"get: the class: words (advice)":              {Verb: "get", Class: class, Words: "words", Advice: "advice"},
		"get: client exited with 3":                   {Verb: "get", Client: "client", ExitCode: 3},
		"get: client was ended: the cause: the words": {Verb: "get", Client: "client", Cause: cause, Words: "the words"},
		"get: the class: the cause":                   {Verb: "get", Class: class, Cause: cause},
	} {
		assert.Equal(t, f.Error(), text)
		assert.Equal(t, errors.Is(&f, class), f.Class != nil)
		assert.Equal(t, errors.Is(&f, cause), f.Cause != nil)
	}
}
