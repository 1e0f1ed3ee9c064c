package dockercli_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

// newVolume makes a volume that is removed with the test.
func newVolume(t *testing.T, e enginetest.Engine) *dockercli.Volume {
	t.Helper()
	name := uniqueName()
	labels := map[string]string{"cofferdam-test.name": name, "cofferdam-test.text": "a=b c"}
	v, err := e.CreateVolume(t.Context(), name, labels)
	assert.NilError(t, err)
	t.Cleanup(func() {
		// The test's own context has ended.
		_, stderr, err := e.Client("volume", "rm", "--force", "--", name)
		assert.Check(t, err, stderr)
	})
	assert.Equal(t, v.Name, name)
	assert.Equal(t, v.Driver, "local")
	assert.DeepEqual(t, v.Labels, labels)
	assert.Equal(t, len(v.Options), 0)
	return v
}

func TestVolume(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		const key = "cofferdam-test.name"
		v, other := newVolume(t, e), newVolume(t, e)
		label := map[string]string{key: v.Name}

		again, err := e.CreateVolume(t.Context(), v.Name, map[string]string{"other": "label"})
		assert.NilError(t, err)
		assert.DeepEqual(t, again, v)
		names, err := e.Volumes(t.Context(), label)
		assert.NilError(t, err)
		assert.DeepEqual(t, names, []string{v.Name})
		names, err = e.Volumes(t.Context(), map[string]string{"cofferdam-test.name": "none"})
		assert.NilError(t, err)
		assert.Equal(t, len(names), 0)

		// The beginning of a name is no name.
		begin := v.Name[:len(v.Name)-1]
		_, err = e.InspectVolume(t.Context(), begin)
		assert.ErrorIs(t, err, dockercli.ErrNoVolume)
		assert.NilError(t, e.RemoveVolume(t.Context(), begin, key, begin))
		err = e.RemoveVolume(t.Context(), v.Name, key, begin)
		assert.ErrorIs(t, err, dockercli.ErrArgument)
		_, err = e.InspectVolume(t.Context(), v.Name)
		assert.NilError(t, err)

		// A container that only is there uses it, too.
		o := options(e)
		o.Mounts, o.Command = []dockercli.Mount{{Volume: v.Name, Target: "/volume"}}, []string{"true"}
		argv, err := e.RunArgs(o)
		assert.NilError(t, err)
		_, stderr, exit := runClient(t, e, created(argv))
		assert.Equal(t, exit, 0, stderr)
		assert.ErrorIs(t, e.RemoveVolume(t.Context(), v.Name, key, v.Name), dockercli.ErrVolumeInUse)
		assert.NilError(t, e.Remove(t.Context(), o.Name))

		assert.NilError(t, e.RemoveVolume(t.Context(), v.Name, key, v.Name))
		_, err = e.InspectVolume(t.Context(), v.Name)
		assert.ErrorIs(t, err, dockercli.ErrNoVolume)
		assert.NilError(t, e.RemoveVolume(t.Context(), v.Name, key, v.Name))
		_, err = e.InspectVolume(t.Context(), other.Name)
		assert.NilError(t, err)
	})
}

// A run makes no volume, but fails without it.
func TestMountOfAVolume(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		v := newVolume(t, e)
		run := func(m dockercli.Mount, script string) (stdout, stderr string, exit int) {
			o := options(e)
			o.Remove, o.User = true, "0:0"
			o.Ulimits = []string{"nproc=100:100", "nofile=100:100"} // others not every host gives podman
			m.Target = "/tmp"                                       // which the image has
			o.Mounts, o.Command = []dockercli.Mount{m}, []string{"sh", "-c", script}
			argv, err := e.RunArgs(o)
			assert.NilError(t, err)
			return runClient(t, e, argv)
		}
		_, stderr, exit := run(dockercli.Mount{Volume: v.Name, Writable: true}, "echo kept >/tmp/file")
		assert.Equal(t, exit, 0, stderr)
		stdout, stderr, exit := run(dockercli.Mount{Volume: v.Name}, "cat /tmp/file; ! touch /tmp/other")
		assert.Equal(t, exit, 0, stderr)
		assert.Equal(t, stdout, "kept\n")
		assert.Assert(t, strings.Contains(stderr, "Read-only"), stderr)

		none := uniqueName()
		_, stderr, exit = run(dockercli.Mount{Volume: none}, "echo run")
		assert.Assert(t, exit != 0)
		assert.Equal(t, dockercli.Classify([]byte(stderr)), dockercli.ErrNoVolume, stderr)
		_, err := e.InspectVolume(t.Context(), none)
		assert.ErrorIs(t, err, dockercli.ErrNoVolume)
	})
}

func TestCheckRuntime(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		info, err := e.Info(t.Context())
		assert.NilError(t, err)
		assert.NilError(t, e.CheckRuntime(t.Context(), info.DefaultRuntime))
		err = e.CheckRuntime(t.Context(), "cofferdam-none")
		assert.ErrorIs(t, err, dockercli.ErrNoRuntime)
		assert.ErrorContains(t, err, `"cofferdam-none"; it has [`)
		assert.ErrorContains(t, err, `"`+info.DefaultRuntime+`"`)
		assert.ErrorIs(t, (&dockercli.Engine{Kind: dockercli.Podman, Remote: true}).CheckRuntime(t.Context(), "runc"),
			dockercli.ErrNoRuntime)

		e.Engine = &dockercli.Engine{Kind: e.Kind, Path: "/bin/false"}
		err = e.CheckRuntime(t.Context(), info.DefaultRuntime)
		assert.Assert(t, err != nil && !errors.Is(err, dockercli.ErrNoRuntime), "%v", err)
	})
}

// What a volume has comes back as it is, and no other text makes one without a name.
func FuzzParseVolume(f *testing.F) {
	f.Add("cofferdam-1", "local", "key", "value")
	f.Add("", "a\nname \"1\"", "\u2028<&>\x00\"\\", "")
	f.Fuzz(func(t *testing.T, name, driver, key, value string) {
		if v, err := dockercli.ParseVolume(driver); err != nil {
			assert.Assert(t, v == nil)
			assert.ErrorContains(t, err, "unexpected answer")
		} else {
			assert.Assert(t, v.Name != "" && strings.Contains(driver, "name "))
		}
		if !utf8.ValidString(strings.Join([]string{name, driver, key, value}, " ")) {
			return // the encoder would change it
		}
		pair := strings.TrimSuffix(scalars(t, "", key), "\n\n") + strings.TrimSuffix(scalars(t, "", value), "\n\n") + "\n"
		v, err := dockercli.ParseVolume(strings.TrimSuffix(scalars(t, "name", name, "driver", driver), "\n") +
			"label" + pair + "option" + pair)
		if name == "" {
			assert.ErrorContains(t, err, "it has no name")
			return
		}
		assert.NilError(t, err)
		pairs := map[string]string{key: value}
		assert.DeepEqual(t, v, &dockercli.Volume{Name: name, Driver: driver, Labels: pairs, Options: pairs})
	})
}
