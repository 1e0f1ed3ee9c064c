package dockercli_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

func TestParseContexts(t *testing.T) {
	got, err := dockercli.ParseContexts("context \"default\" false \"unix:///var/run/docker.sock\"\n" +
		"context \"ci\" true \"tcp://user:secret@192.0.2.1:2376\"\n\n")
	assert.NilError(t, err)
	assert.DeepEqual(t, got, []dockercli.Context{
		{Name: "default", Endpoint: "unix:///var/run/docker.sock"},
		{Name: "ci", Current: true, Endpoint: "tcp://user:***@192.0.2.1:2376"},
	})
	for _, bad := range []string{"context \"a\" true\n", "NAME  DESCRIPTION\n", "context \"a\n"} {
		_, err := dockercli.ParseContexts(bad)
		assert.ErrorContains(t, err, "unexpected answer", bad)
	}
}

func TestParseImages(t *testing.T) {
	got, err := dockercli.ParseImages("image \"python\" \"3.12\"\nimage \"<none>\" \"<none>\"\nimage \"host:5000/a/b\" \"<none>\"\n" +
		"image \"host:5000/a/b\" \"1\"\nimage \"\" \"\"\n")
	assert.NilError(t, err)
	assert.DeepEqual(t, got, []string{"python:3.12", "host:5000/a/b:1"})
	_, err = dockercli.ParseImages("image \"a\"\n")
	assert.ErrorContains(t, err, "unexpected answer")
}

func FuzzParseLists(f *testing.F) {
	f.Add("context \"a\" true \"unix:///x\"\n")
	f.Add("image \"a\" \"b\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		if contexts, err := dockercli.ParseContexts(text); err == nil {
			assert.Assert(t, len(contexts) <= strings.Count(text, "context"))
		}
		if images, err := dockercli.ParseImages(text); err == nil {
			assert.Assert(t, len(images) <= strings.Count(text, "image"))
		}
	})
}

// What lists itself can be asked for by the same name.
func TestEngineLists(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		images, err := e.Images(t.Context())
		assert.NilError(t, err)
		assert.Assert(t, slices.ContainsFunc(images, func(name string) bool { return strings.HasSuffix(name, e.Image) }), "%q", images)

		if e.Kind == dockercli.Podman {
			connections(t, e)
			return
		}
		contexts, err := e.Contexts(t.Context())
		assert.NilError(t, err)
		current := slices.IndexFunc(contexts, func(c dockercli.Context) bool { return c.Current })
		assert.Assert(t, current >= 0, "%+v", contexts)
		own, err := (&dockercli.Engine{Path: e.Path, Global: []string{"--context", contexts[current].Name}, Env: e.Env}).Probe(t.Context())
		assert.NilError(t, err)
		assert.Equal(t, own.ServerVersion, e.ServerVersion)
	})
}

// connections has podman list the connections of a configuration of the test's own.
func connections(t *testing.T, e enginetest.Engine) {
	own := *e.Engine
	conf := filepath.Join(t.TempDir(), "containers.conf")
	assert.NilError(t, os.WriteFile(conf, []byte(`[engine]
active_service = "far"
[engine.service_destinations.far]
uri = "ssh://me:secret@192.0.2.1:22/run/podman/podman.sock"
[engine.service_destinations.near]
uri = "unix:///run/podman/podman.sock"
`), 0o600))
	own.Env = append(os.Environ(), "CONTAINERS_CONF="+conf)
	got, err := own.Contexts(t.Context())
	assert.NilError(t, err)
	slices.SortFunc(got, func(a, b dockercli.Context) int { return strings.Compare(a.Name, b.Name) })
	assert.DeepEqual(t, got, []dockercli.Context{
		{Name: "far", Current: true, Endpoint: "ssh://me:***@192.0.2.1:22/run/podman/podman.sock"},
		{Name: "near", Endpoint: "unix:///run/podman/podman.sock"},
	})
	assert.NilError(t, os.WriteFile(conf, nil, 0o600))
	got, err = own.Contexts(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, len(got), 0)
}

// Podman's service says of itself that it is also an engine of docker's, which has other
// faults.
func TestPodmansServiceIsNotDocker(t *testing.T) {
	got, err := dockercli.ParseComponents(dockercli.Docker, "component \"Podman Engine\" \"4.3.1\"\ncomponent \"Engine\" \"4.3.1\"\nclient \"28.2.2\"\n")
	assert.NilError(t, err)
	assert.DeepEqual(t, got, []dockercli.Component{{Name: "docker client", Version: "28.2.2"}, {Name: "podman", Version: "4.3.1"}})
}

// A look keeps what it was given, and nothing that was known before.
func TestProbe(t *testing.T) {
	path := fake(t, "docker", "docker-local")
	env := append(os.Environ(), "A=b")
	e, err := (&dockercli.Engine{Path: path, Global: []string{}, Env: env, Kind: dockercli.Podman, Remote: true, ServerVersion: "0"}).Probe(t.Context())
	assert.NilError(t, err)
	known, err := dockercli.Lookup(t.Context(), path)
	assert.NilError(t, err)
	known.Env = env
	assert.DeepEqual(t, e, known)
}

// Nerdctl's client tells in words how a command has ended, and exits with 1.
func TestNerdctlExec(t *testing.T) {
	for said, want := range map[string]int{
		"":        1,
		"dying\n": 1,
		`time="2026-11-26T04:26:26Z" level=fatal msg="exec failed with exit code 3"`:                                     3,
		"exec failed with exit code 4\ntime=\"2026-11-26T04:26:26Z\" level=fatal msg=\"exec failed with exit code 137\"": 137,
		"exec failed with exit code 99999999999999999999":                                                                1,
		"exec failed with exit code 256":                                                                                 1,
		"exec failed with exit code ":                                                                                    1,
	} {
		t.Setenv("SAID", said)
		t.Setenv("EXIT", "1")
		e := &dockercli.Engine{Path: fake(t, "nerdctl", "says"), Kind: dockercli.Nerdctl}
		code, _, err := e.Exec(t.Context(), dockercli.ExecOptions{Container: "name", Command: []string{"false"}})
		assert.NilError(t, err)
		assert.Equal(t, code, want, said)
	}
}

// An exec's client tells that a command was not started in words of its own. The words of
// the command are none of them, whatever they mean elsewhere.
func TestExecRefusal(t *testing.T) {
	const notStarted = "OCI runtime exec failed: exec failed: unable to start container process: exec: \"x\": executable file not found in $PATH: unknown"
	for _, c := range []struct {
		kind          dockercli.Kind
		exit          int
		printed, said string
		refused       bool
		class         error
	}{
		{dockercli.Docker, 1, "", "dd: Invalid argument", false, nil},
		{dockercli.Docker, 1, "no such container", "no such container", false, nil},
		{dockercli.Docker, 127, "", "sh: 1: network: not found", false, nil},
		{dockercli.Docker, 1, notStarted, "", false, nil},
		{dockercli.Docker, 126, "x\n" + notStarted, "", false, nil},
		{dockercli.Docker, 126, notStarted, "", true, dockercli.ErrNoCommand},
		{dockercli.Docker, 127, notStarted, "", true, dockercli.ErrNoCommand},
		{dockercli.Docker, 126, "unable to find user x: no matching entries in passwd file", "", true, dockercli.ErrArgument},
		{dockercli.Docker, 126, "cannot exec in a stopped state: unknown", "", true, dockercli.ErrNotRunning},
		{dockercli.Docker, 126, "cannot exec in a deleted state: unknown", "", true, dockercli.ErrNotRunning},
		{dockercli.Docker, 1, "cannot exec in a deleted state: unknown", "", false, nil},
		{dockercli.Docker, 1, "", "Error: No such container: x", true, dockercli.ErrNoContainer},
		{dockercli.Docker, 1, "", "Error response from daemon: Container x is paused, unpause the container before exec", true, nil},
		{dockercli.Docker, 125, "", "unknown flag: --x\nSee 'docker exec --help'.", true, dockercli.ErrArgument},
		{dockercli.Docker, 1, "", "unknown flag: --x", false, nil},
		{dockercli.Podman, 1, "", "Error: invalid argument", false, nil},
		{dockercli.Podman, 127, "", "sh: 1: network: not found", false, nil},
		{dockercli.Podman, 127, "Error: no such container", "", false, nil},
		{dockercli.Podman, 127, "", "Error: runc: " + notStarted, true, dockercli.ErrNoCommand},
		{dockercli.Podman, 255, "", "Error: unable to find user x: no matching entries in passwd file", true, dockercli.ErrArgument},
		{dockercli.Nerdctl, 1, "", "dd: Invalid argument", false, nil},
		{dockercli.Nerdctl, 1, "", "time=\"x\" level=fatal msg=\"no such container x\"\ntime=\"x\" level=fatal msg=\"exec failed with exit code 1\"", false, nil},
		{dockercli.Nerdctl, 1, "", "time=\"x\" level=fatal msg=\"no such container x\"", true, dockercli.ErrNoContainer},
	} {
		t.Setenv("EXIT", strconv.Itoa(c.exit))
		t.Setenv("PRINTED", c.printed)
		t.Setenv("SAID", c.said)
		e := &dockercli.Engine{Path: fake(t, c.kind.String(), "says"), Kind: c.kind}
		exit, out, err := e.Exec(t.Context(), dockercli.ExecOptions{Container: "name", Command: []string{"x"}})
		assert.Equal(t, exit, c.exit)
		assert.Equal(t, string(out), c.printed)
		var failed *dockercli.Error
		assert.Equal(t, errors.As(err, &failed), c.refused, "%+v: %v", c, err)
		assert.Assert(t, !c.refused || failed.Class == c.class, "%+v: %v", c, err)
	}
	// What real clients have said of what they could not have started.
	for _, file := range recordings(t) {
		kind, name, _ := strings.Cut(filepath.Base(file), "-")
		if !strings.HasPrefix(name, "exec-") && !strings.HasPrefix(name, "version-") && !strings.HasPrefix(name, "remote-") {
			continue
		}
		exit, stderr := readRecorded(t, file)
		t.Setenv("EXIT", strconv.Itoa(exit))
		t.Setenv("PRINTED", "")
		t.Setenv("SAID", string(stderr))
		e := &dockercli.Engine{Path: fake(t, kind, "says")}
		for e.Kind.String() != kind {
			e.Kind++
		}
		_, _, err := e.Exec(t.Context(), dockercli.ExecOptions{Container: "name", Command: []string{"x"}})
		var failed *dockercli.Error
		assert.Assert(t, errors.As(err, &failed), file)
		assert.Equal(t, failed.Class, recorded[caseOf(file)], file)
	}
}
