package tool

import (
	"fmt"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// A job that does not start is not taken for the end of the session.
func TestJobDoesNotStart(t *testing.T) {
	var s Set
	r, err := s.noJob(t.Context(), fmt.Errorf("%w: the job did not begin in time", execpolicy.ErrStart))
	assert.NilError(t, err)
	assert.Assert(t, r.Failed)
	assert.Equal(t, r.Text, "The job did not start. The session goes on.")
	r, err = s.noJob(t.Context(), fmt.Errorf("%w: %w", execpolicy.ErrStart, execpolicy.ErrEnded))
	assert.NilError(t, err)
	assert.Equal(t, r.Text, ended)
}
