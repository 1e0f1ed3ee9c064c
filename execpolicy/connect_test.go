package execpolicy

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/engines"
	"github.com/seed-64a260eb/cofferdam/internal/turn"
)

// The question for a remote engine's limits waits for the turn too, and whoever needs the
// answer waits no longer than its session may take to start.
func TestLimitsAreAskedInTurn(t *testing.T) {
	was := engines.Connecting
	defer func() { engines.Connecting = was }()
	synctest.Test(t, func(t *testing.T) {
		engines.Connecting = turn.New(1)
		p := DockerPolicy{Limits: Limits{StartupTimeout: 7 * time.Second}}
		e := dockercli.Engine{Path: "/no such client"}
		_, err := p.askLimits(t.Context(), &e)
		assert.ErrorIs(t, err, dockercli.ErrNoEngine)

		assert.Assert(t, engines.Connecting.TryTake())
		_, err = p.askLimits(t.Context(), &e)
		assert.ErrorIs(t, err, dockercli.ErrNoEngine) // it is not remote

		e.Path, e.Remote = "/no such client either", true
		start := time.Now()
		_, err = p.askLimits(t.Context(), &e)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, ErrStart)
		assert.Equal(t, time.Since(start), p.StartupTimeout)

		engines.Connecting.Give()
		_, err = p.askLimits(t.Context(), &e)
		assert.ErrorIs(t, err, dockercli.ErrNoEngine)
		assert.Equal(t, len(engines.Connecting), 0)
	})
}

// So does the question for a remote engine's runtime. Whoever does not get the turn in
// time leaves it to the start to say what is missing.
func TestRuntimeIsAskedInTurn(t *testing.T) {
	was := engines.Connecting
	defer func() { engines.Connecting = was }()
	engines.Connecting = turn.New(1)
	client := filepath.Join(t.TempDir(), "docker")
	assert.NilError(t, os.WriteFile(client, []byte("#!/bin/sh\necho 'version \"1\"'\n"), 0o700))
	p := DockerPolicy{Runtime: "none"}
	here, there := dockercli.Engine{Path: client}, dockercli.Engine{Path: client, Remote: true}

	assert.Assert(t, engines.Connecting.TryTake())
	assert.ErrorIs(t, p.checkRuntime(t.Context(), &here), dockercli.ErrNoRuntime)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	assert.NilError(t, p.checkRuntime(ctx, &there))
	engines.Connecting.Give()
	assert.ErrorIs(t, p.checkRuntime(t.Context(), &there), dockercli.ErrNoRuntime)
	assert.Equal(t, len(engines.Connecting), 0)
}
