package enginetest

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// clientTimeout bounds a run of an engine's client, and what the run leaves with its
// streams.
const clientTimeout = 5 * time.Minute

// Client runs the engine's client with those arguments, and returns what it prints. One
// that hangs is killed in the end.
func (e Engine) Client(args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, e.Path, slices.Concat(e.Global, args)...)
	cmd.Env, cmd.WaitDelay = e.Env, time.Minute
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// Containers returns the names of the containers with the engine's labels.
func (e Engine) Containers(t testing.TB) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
	defer cancel()
	names, err := e.PS(ctx, e.Labels)
	assert.NilError(t, err)
	return names
}
