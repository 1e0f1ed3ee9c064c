package kube_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/attest"
	"github.com/seed-64a260eb/cofferdam/execpolicy/audit"
	"github.com/seed-64a260eb/cofferdam/execpolicy/codeblock"
	"github.com/seed-64a260eb/cofferdam/execpolicy/python"
	"github.com/seed-64a260eb/cofferdam/execpolicy/warm"
	"github.com/seed-64a260eb/cofferdam/execpolicy/workspace"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/pods"
)

func runs(t *testing.T, s *execpolicy.Session, script string) string {
	t.Helper()
	r, err := s.Run(t.Context(), execpolicy.Command{Script: script})
	assert.NilError(t, err)
	return string(r.Stdout)
}

// All that the zero policy asks for is in force, and a report says what no pod has.
func TestClusterAttest(t *testing.T) {
	p := pods.In(t)
	s, r, err := attest.Start(t.Context(), p.Policy, p.Spec(), attest.Options{})
	t.Logf("\n%v", r)
	assert.NilError(t, err)
	defer s.Close()
	assert.Equal(t, len(r.Missing), 0)
	assert.Equal(t, r.Engine, "kubernetes")
	for _, name := range attest.Protections() {
		f := r.Finding(name)
		switch name {
		case attest.NoUnsafeArgs, attest.Lifeline, attest.PidsLimit, attest.MaskedProc:
			assert.Equal(t, f.Outside, "", "%+v", f)
		default:
			assert.Assert(t, f.Outside != "", "%+v", f)
		}
		assert.Equal(t, f.InForce, attest.Yes, "%+v", f)
	}
	assert.Equal(t, r.Finding(attest.NoToken).InForce, attest.Yes)
	assert.Equal(t, r.Finding(attest.NothingInjected).InForce, attest.Admitted)
	assert.Equal(t, r.Finding(attest.NoContainerLog).InForce, attest.No)
	assert.Equal(t, r.Finding(attest.NoTerminationLog).InForce, attest.No)

	// Who wants what no pod has is told that it is missing.
	_, err = attest.Check(t.Context(), s, p.Policy, p.Spec(),
		attest.Options{Require: []attest.Protection{attest.NoContainerLog}})
	assert.ErrorIs(t, err, attest.ErrNotInForce)
}

// Each protection that a policy does without is missed.
func TestClusterAttestOfWeakPolicies(t *testing.T) {
	p := pods.In(t)
	weak := p.Policy
	weak.NetworkEnabled, weak.NetworkPolicy = true, ""
	weak.WritableRootfs = true
	weak.MemoryBytes, weak.CPUs, weak.PidsLimit = 1<<30, "1.5", 500
	s, err := execpolicy.Start(t.Context(), weak, p.Spec())
	assert.NilError(t, err)
	defer s.Close()
	r, err := attest.Check(t.Context(), s, p.Policy, p.Spec(), attest.Options{})
	assert.ErrorIs(t, err, attest.ErrNotInForce)
	assert.DeepEqual(t, r.Missing, []attest.Protection{attest.NoNetwork, attest.ReadOnlyRoot, attest.MemoryLimit,
		attest.NoSwap, attest.CPULimit, attest.PidsLimit})
	r, err = attest.Check(t.Context(), s, weak, p.Spec(), attest.Options{})
	assert.NilError(t, err)
	assert.Equal(t, r.Finding(attest.NoNetwork).InForce, attest.No)
}

func TestClusterWarm(t *testing.T) {
	p := pods.In(t)
	pool, err := warm.New(p.Policy, p.Spec(), warm.Options{Size: 2})
	assert.NilError(t, err)
	defer pool.Close()
	for _, user := range []string{"ann", "bob"} {
		s, err := pool.Take(t.Context(), execpolicy.Spec{Env: map[string]string{"WHO": user}})
		assert.NilError(t, err)
		assert.Equal(t, runs(t, s, "ls -A; echo $WHO | tee left-behind"), user+"\n")
		assert.NilError(t, s.Close())
	}
	assert.NilError(t, pool.Close())
}

func TestClusterCodeblock(t *testing.T) {
	s := pods.In(t).Open(t)
	blocks := codeblock.Parse("```python\n# filename: shapes.py\ndef area(w, h): return w * h\n```\n" +
		"```python\nfrom shapes import area\nprint(area(2, 3))\n```\n")
	r, err := codeblock.Run(t.Context(), s, blocks, codeblock.Options{})
	assert.NilError(t, err)
	assert.Equal(t, r.ExitCode(), 0)
	assert.Equal(t, string(r.Steps[1].Result.Stdout), "6\n")
}

func TestClusterPython(t *testing.T) {
	s := pods.In(t).Open(t)
	py, err := python.Start(t.Context(), s, python.Options{})
	assert.NilError(t, err)
	defer py.Close()
	for _, c := range []struct{ code, value string }{{"x = 41", ""}, {"x + 1", "42"}} {
		r, err := py.Run(t.Context(), python.Snippet{Code: c.code})
		assert.NilError(t, err)
		assert.Equal(t, r.Value, c.value)
	}
}

// A directory of this machine is copied in, and what came of it is copied out.
func TestClusterWorkspace(t *testing.T) {
	p := pods.In(t)
	dir := t.TempDir()
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "in"), []byte("text\n"), 0o600))
	spec := p.Spec()
	spec.Workspace = dir
	for _, mode := range []workspace.Mode{workspace.Auto, workspace.Copied} {
		w, err := workspace.Start(t.Context(), p.Policy, spec, workspace.Options{Mode: mode})
		assert.NilError(t, err)
		assert.Equal(t, runs(t, w.Session, "cat in; cp in out; echo more >>out"), "text\n")
		assert.NilError(t, w.Close())
		out, err := os.ReadFile(filepath.Join(dir, "out"))
		assert.NilError(t, err)
		assert.Equal(t, string(out), "text\nmore\n")
	}
	spec.Workspace = "/etc"
	_, err := workspace.Start(t.Context(), p.Policy, spec, workspace.Options{})
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
}

// Every start of a policy has the same digest, another policy has another, and no record
// and no pod has a secret.
func TestClusterAudit(t *testing.T) {
	p := pods.In(t)
	policies := map[string]string{} // by the CPUs
	for _, cpus := range []string{"1", "1", "0.5"} {
		var log bytes.Buffer
		spec := p.Spec()
		spec.Audit = audit.To(slog.NewTextHandler(&log, nil))
		spec.Secrets = []execpolicy.Secret{{Name: "TOKEN", Value: "hunter2-hunter2"}}
		spec.Env = map[string]string{"PLAIN": "value-of-plain"}
		policy := p.Policy
		policy.CPUs = cpus
		s, err := execpolicy.Start(t.Context(), policy, spec)
		assert.NilError(t, err)
		assert.Equal(t, runs(t, s, `echo "${#TOKEN} $PLAIN"`), "15 value-of-plain\n")
		pod, err := pods.Kubectl("get", "pod", "--output=json", s.Name())
		assert.NilError(t, err)
		assert.NilError(t, s.Close())
		for _, secret := range []string{"hunter2", "value-of-plain"} {
			assert.Assert(t, !strings.Contains(pod, secret))
		}
		assert.Assert(t, !strings.Contains(log.String(), "hunter2"))
		_, rest, ok := strings.Cut(log.String(), " policy=")
		assert.Assert(t, ok, log.String())
		digest, _, _ := strings.Cut(rest, " ")
		if known := policies[cpus]; known != "" {
			assert.Equal(t, digest, known)
		}
		policies[cpus] = digest
	}
	assert.Assert(t, policies["1"] != policies["0.5"])
}
