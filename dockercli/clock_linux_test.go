package dockercli_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

// skewed returns a remote engine whose client says that of the engine's time, and writes
// what it is asked for besides into a file.
func skewed(t *testing.T, said string) (e *dockercli.Engine, asked string) {
	t.Helper()
	dir := t.TempDir()
	client, asked := filepath.Join(dir, "docker"), filepath.Join(dir, "asked")
	script := "#!/bin/sh\ncase $* in *SystemTime*) echo '" + said + "' ;; *) echo \"$*\" >'" + asked + "'; echo oom ;; esac\n"
	assert.NilError(t, os.WriteFile(client, []byte(script), 0o700))
	return &dockercli.Engine{Path: client, Remote: true}, asked
}

// What a remote engine has seen is asked for by its own clock, however far ahead of this
// machine's, or behind it, that is.
func TestEventsAreThoseOfTheEnginesClock(t *testing.T) {
	for said, until := range map[string]string{
		"2001-02-03T04:05:06.000000007Z": "--until=981173106.000000007",
		"2101-02-03T04:05:06+01:00":      "--until=4136843106.000000000",
	} {
		e, asked := skewed(t, said)
		killed, err := e.OOMKilled(t.Context(), "name", time.Time{})
		assert.NilError(t, err)
		assert.Assert(t, killed)
		text, err := os.ReadFile(asked)
		assert.NilError(t, err)
		assert.Assert(t, strings.Contains(string(text), until+" "), "%s", text)
	}
}

func TestTimeOfAnEngine(t *testing.T) {
	e, _ := skewed(t, "2001-02-03T04:05:06Z")
	now, err := e.Time(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, now.Unix(), int64(981173106))
	e.Remote = false
	now, err = e.Time(t.Context())
	assert.NilError(t, err)
	assert.Assert(t, time.Since(now) < time.Hour)

	e, _ = skewed(t, "noon")
	_, err = e.Time(t.Context())
	assert.ErrorContains(t, err, "unexpected answer")
	for _, e := range []*dockercli.Engine{{Kind: dockercli.Podman, Remote: true}, {PodmanService: true, Remote: true}} {
		_, err = e.Time(t.Context())
		assert.ErrorIs(t, err, errors.ErrUnsupported)
	}
}
