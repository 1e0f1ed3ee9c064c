package attest_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/attest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

var errHook = errors.New("the hook lets nothing pass")

// A wall blocks what comes.
type wall struct{}

func (wall) Write([]byte) (int, error) { return 0, errHook }
func (wall) Close() error              { return nil }

// Hooks that let no command run, and nothing pass, don't keep a report from being true.
func TestHooksHaveNoPart(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		p, spec := hardened(e)
		spec.Filter = func(io.Writer) io.WriteCloser { return wall{} }
		spec.Approve = func(context.Context, execpolicy.Request) error { return errHook }
		o := attest.Options{Require: possible(t, e)}
		s, started, err := attest.Start(t.Context(), p, spec, o)
		assert.NilError(t, err)
		defer s.Close()
		checked, err := attest.Check(t.Context(), s, p, spec, o)
		assert.NilError(t, err)
		assert.DeepEqual(t, checked.Findings, started.Findings)
		for _, name := range o.Require {
			assert.Check(t, checked.Finding(name).InForce == attest.Yes, "%+v", checked.Finding(name))
		}

		// They are the session's all the same.
		r, err := s.Run(t.Context(), execpolicy.Command{Script: "echo out"})
		assert.NilError(t, err)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeRefused)
		spec.Approve = nil
		filtered, err := execpolicy.Start(t.Context(), p, spec)
		assert.NilError(t, err)
		defer filtered.Close()
		_, err = attest.Check(t.Context(), filtered, p, spec, o)
		assert.NilError(t, err)
		_, err = filtered.Run(t.Context(), execpolicy.Command{Script: "echo out"})
		assert.ErrorIs(t, err, execpolicy.ErrBlocked)
	})
}

// Without an engine in the policy, a report is about the one that sessions use, also if
// another would be found by now.
func TestEngineIsTheSessions(t *testing.T) {
	e := enginetest.Engines(t)[0]
	if e.Kind != dockercli.Docker {
		leftout.Skip(t, "docker is what is found first")
	}
	p, spec := hardened(e)
	p.Engine = nil
	inUse, err := p.FindEngine(t.Context())
	assert.NilError(t, err)
	enginetest.Check(t, e)
	s, err := execpolicy.Start(t.Context(), p, spec)
	assert.NilError(t, err)
	defer s.Close()
	t.Setenv("PATH", t.TempDir())
	_, err = dockercli.Find(t.Context())
	assert.ErrorIs(t, err, dockercli.ErrNoEngine)
	r, err := attest.Check(t.Context(), s, p, spec, attest.Options{Require: possible(t, e)})
	assert.NilError(t, err)
	assert.Equal(t, r.Engine, inUse.Kind.String())
}
