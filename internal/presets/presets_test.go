package presets_test

import (
	"errors"
	"maps"
	"os"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/attest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
	"github.com/seed-64a260eb/cofferdam/internal/presets"
)

// What the document says of each preset is what the code does. The tables in it are one
// machine's.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../execpolicy/presets.md")
	assert.NilError(t, err)
	sections := strings.Split(string(text), "\n## ")[1:]
	all := presets.All()
	assert.Assert(t, len(sections) >= len(all))
	for i, p := range all {
		name, body, _ := strings.Cut(sections[i], "\n")
		assert.Check(t, name == "`"+p.Name+"`", "%s stands where %s has to", name, p.Name)
		assert.Check(t, strings.Contains(body, "\n"+p.Sentence+"\n"), "%s: the sentence is %q", p.Name, p.Sentence)
		for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman} {
			p.Policy.Engine = &dockercli.Engine{Path: "true", Kind: kind}
			line, err := p.Policy.Explain(t.Context(), execpolicy.Spec{})
			assert.NilError(t, err)
			line = presets.Stable(kind, line)
			assert.Check(t, strings.Contains(body, "\n"+line+"\n"), "%s is not what stands there: make it again\n%s",
				p.Name, line)
		}
	}
}

// As the shell reads them, the lines are the words.
func TestStable(t *testing.T) {
	many := strings.Repeat("--user=65534:65534 ", 20)
	got := presets.Stable(dockercli.Podman,
		"/usr/bin/podman run --name=cofferdam-1 --label=cofferdam.pid=1 --ulimit=nproc=7:7 "+many+"-- image sh")
	for line := range strings.SplitSeq(got, "\n") {
		assert.Check(t, len(line) <= 115, line)
	}
	want := "podman run --name=NAME --ulimit=nproc=N:N " + many + "-- image sh"
	assert.Equal(t, strings.Join(strings.Fields(strings.ReplaceAll(got, "\\\n", "")), " "), want)
}

// Each preset starts on each engine, has what it asks for, and what it does not ask for
// is what its name says.
func TestInForce(t *testing.T) {
	notAsked := [][]attest.Protection{nil, {attest.ReadOnlyRoot}, {attest.NoNetwork}, nil, {attest.ReadOnlyRoot}}
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		for i, p := range presets.All() {
			t.Run(p.Name, func(t *testing.T) {
				t.Parallel()
				p.Policy.Engine, p.Policy.Image, p.Policy.TerminationTimeout = e.Engine, e.Image, places.Patience
				s, r, err := attest.Start(t.Context(), p.Policy, execpolicy.Spec{Labels: maps.Clone(e.Labels)}, attest.Options{})
				if s != nil {
					assert.NilError(t, s.Close())
				}
				// Without root's rights an engine may drop limits.
				if p.Loose || e.Rootless {
					assert.Assert(t, err == nil || errors.Is(err, attest.ErrNotInForce), err)
				} else {
					assert.NilError(t, err, p.Name)
				}
				var free []attest.Protection
				for _, f := range r.Findings {
					if f.Asked == "" {
						free = append(free, f.Protection)
						assert.Check(t, f.InForce == attest.No, "%s: %+v", p.Name, f)
					}
				}
				assert.Check(t, cmp.DeepEqual(free, notAsked[i]), p.Name)
			})
		}
	})
}
