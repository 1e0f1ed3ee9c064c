package programs_test

import (
	"maps"
	"os"
	"os/exec"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
	"github.com/seed-64a260eb/cofferdam/internal/programs"
)

// Ordinary programs, the host's own, do under the library's filter what they are for.
func TestOrdinaryPrograms(t *testing.T) {
	places.OnEngines(t, execpolicy.Limits{}, func(t *testing.T, p places.Place) {
		if p.Policy.Engine.Remote {
			leftout.Skip(t, "a remote engine can mount nothing of this machine")
		}
		if usr, err := os.Readlink("/bin"); err != nil || usr != "usr/bin" {
			leftout.Skip(t, "the programs of this machine are not all in /usr")
		}
		p.Policy.Mounts = []dockercli.Mount{{Source: "/usr", Target: "/usr"}}
		p.Policy.MemoryBytes = 1 << 30
		s, err := execpolicy.Start(t.Context(), p.Policy,
			execpolicy.Spec{Labels: maps.Clone(p.Spec.Labels), Command: []string{"sh"}})
		assert.NilError(t, err)
		defer s.Close()
		for _, program := range programs.All {
			if program.Slow {
				continue
			}
			t.Run(program.Name, func(t *testing.T) {
				for _, name := range program.Needs {
					if _, err := exec.LookPath(name); err != nil {
						leftout.Skip(t, "no %s here", name)
					}
				}
				if program.Modules != "" && exec.Command("python3", "-c", "import "+program.Modules).Run() != nil {
					leftout.Skip(t, "this machine's Python lacks one of the modules %s", program.Modules)
				}
				r, err := s.Run(t.Context(), execpolicy.Command{Script: program.Line(), Timeout: 2 * time.Minute})
				assert.NilError(t, err)
				assert.Equal(t, r.ExitCode, 0, "%s", r.Text())
			})
		}
	})
}
