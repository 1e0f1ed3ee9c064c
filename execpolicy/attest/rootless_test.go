package attest_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/attest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

// A real engine without root's rights drops limits with a warning at most.
func TestDroppedWithoutRoot(t *testing.T) {
	e := enginetest.Rootless(t)
	p, spec := hardened(e)
	p.User = "0:0" // there is no other
	able := possible(t, e)
	dropped := slices.DeleteFunc(attest.Protections(),
		func(name attest.Protection) bool { return slices.Contains(able, name) })
	rest := slices.DeleteFunc(slices.Clone(able), func(name attest.Protection) bool { return name == attest.User })
	if len(dropped) == 0 {
		// Control groups of version 2 let it set them all.
		s, r, err := attest.Start(t.Context(), p, spec, attest.Options{Require: rest})
		assert.NilError(t, err)
		assert.Equal(t, len(r.Missing), 0)
		assert.NilError(t, s.Close())
		return
	}
	assert.DeepEqual(t, dropped, []attest.Protection{attest.MemoryLimit, attest.NoSwap, attest.CPULimit, attest.PidsLimit})
	named := func(t *testing.T, r *attest.Report, err error) {
		t.Helper()
		for _, name := range dropped {
			f := r.Finding(name)
			assert.Check(t, f.InForce != attest.Yes, "%+v", f)
			assert.Check(t, f.Asked != "", "%+v", f)
			assert.Check(t, cmp.Contains(f.Note, "dropped in silence"))
			assert.Check(t, cmp.Contains(f.Note, "without root's rights on version 1 of cgroups"))
			assert.Check(t, cmp.ErrorContains(err, string(name)))
		}
	}

	t.Run("Start fails before anything has run", func(t *testing.T) {
		spec := spec
		spec.Startup = []string{"exit 3"}
		spec.Prepare = func(context.Context, *execpolicy.Session) error { t.Error("it was prepared"); return nil }
		for _, required := range [][]attest.Protection{nil, dropped[2:]} {
			s, r, err := attest.Start(t.Context(), p, spec, attest.Options{Require: required})
			assert.Assert(t, s == nil)
			assert.ErrorIs(t, err, attest.ErrNotInForce)
			assert.Assert(t, !errors.Is(err, execpolicy.ErrScript), err)
			if required == nil {
				t.Logf("\n%s", r)
				required = dropped
				named(t, r, err)
			}
			assert.DeepEqual(t, r.Missing, required)
			_, err = e.Inspect(t.Context(), r.Container)
			assert.ErrorIs(t, err, dockercli.ErrNoContainer)
		}
	})
	t.Run("the report of a session that runs says so", func(t *testing.T) {
		// All the rest is in force, and enough for who says so.
		s, r, err := attest.Start(t.Context(), p, spec, attest.Options{Require: rest})
		assert.NilError(t, err)
		defer s.Close()
		assert.Equal(t, len(r.Missing), 0)
		r, err = attest.Check(t.Context(), s, p, spec, attest.Options{})
		assert.ErrorIs(t, err, attest.ErrNotInForce)
		assert.DeepEqual(t, r.Missing, dropped)
		named(t, r, err)
	})
}
