package engines

import (
	"context"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/shared"
)

// What is protected is known of an engine that the caller has made, too.
func TestWithLimits(t *testing.T) {
	e := &dockercli.Engine{Path: "/no/such/docker"}
	probed.Store(Key(e), shared.New("", func(context.Context) (*dockercli.Engine, error) {
		return &dockercli.Engine{MissingLimits: []string{}, Socket: "/run/x", Rootless: true}, nil
	}))
	asked, err := WithLimits(t.Context(), e)
	assert.NilError(t, err)
	assert.DeepEqual(t, asked, &dockercli.Engine{Path: e.Path, MissingLimits: []string{}, Socket: "/run/x", Rootless: true})
	assert.Assert(t, e.MissingLimits == nil && e.Socket == "")
	e.Socket = "/run/own"
	asked, err = WithLimits(t.Context(), e)
	assert.NilError(t, err)
	assert.Equal(t, asked.Socket, "/run/own")
}
