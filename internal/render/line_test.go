package render_test

import (
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/render"
)

func TestLine(t *testing.T) {
	assert.Equal(t, render.Line("a\x1b[2Jb\nü", 9), "a?[2Jb?ü")
	assert.Equal(t, render.Line("aüb\n", 2), "aü…")
	assert.Equal(t, render.Line("aü", 2), "aü")
	assert.Equal(t, render.Line("", 0), "")
}
