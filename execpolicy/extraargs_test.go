package execpolicy

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/runargs"
)

// An error that sends the reader to a field has to name one.
func TestRefusedArgsNameFields(t *testing.T) {
	fields := map[string]reflect.Type{"": reflect.TypeFor[DockerPolicy](), "Spec.": reflect.TypeFor[Spec](),
		"Command.": reflect.TypeFor[Command]()}
	mention := regexp.MustCompile(`(Spec\.|Command\.)?\b([A-Z]\w+)`)
	named := 0
	for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman} {
		for _, f := range runargs.Flags(kind) {
			if !strings.HasPrefix(f.Why, "is what ") {
				continue
			}
			mentions := mention.FindAllStringSubmatch(f.Why, -1)
			assert.Assert(t, len(mentions) > 0, f.Why)
			for _, m := range mentions {
				_, ok := fields[m[1]].FieldByName(m[2])
				assert.Assert(t, ok, "no field %s%s", m[1], m[2])
				named++
			}
		}
	}
	assert.Assert(t, named > 0)
}

// Podman takes the limits of its configuration only where a run names none.
func TestCompatKeepsPodmansLimits(t *testing.T) {
	p := Compat()
	p.ExtraRunArgs = []string{"--ulimit=fsize=1"}
	argv := func(e *dockercli.Engine) error { _, err := p.argv(e, Spec{}, "cofferdam-name"); return err }
	assert.NilError(t, argv(&dockercli.Engine{}))
	for _, e := range []*dockercli.Engine{{Kind: dockercli.Podman}, {PodmanService: true}} {
		p.AllowUnsafeArgs = nil
		assert.ErrorContains(t, argv(e), `add "ulimit" to AllowUnsafeArgs`)
		p.AllowUnsafeArgs = []string{"ulimit"}
		assert.NilError(t, argv(e))
	}
}

// On podman's service each removal waits for the container's own stop timeout.
func TestStopTimeoutIsTheLibrarysOnPodmansService(t *testing.T) {
	for _, p := range []DockerPolicy{{EngineSeccomp: true}, Compat()} {
		for _, args := range [][]string{{"--stop-timeout=600"}, {"-q", "--stop-timeout", "600"}} {
			p.ExtraRunArgs = args
			_, err := p.argv(&dockercli.Engine{PodmanService: true}, Spec{}, "cofferdam-name")
			assert.ErrorIs(t, err, ErrInvalid)
			assert.ErrorContains(t, err, "ExtraRunArgs have --stop-timeout")
			_, err = p.argv(&dockercli.Engine{}, Spec{}, "cofferdam-name")
			assert.NilError(t, err)
		}
	}
}
