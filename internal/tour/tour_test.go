package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestAStarStandsForAnyText(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true},
		{"", "x", false},
		{"exit 0", "exit 0", true},
		{"exit 0", "exit 01", false},
		{"*", "", true},
		{"exit *", "exit ", true},
		{`exit 1, stderr "*/etc/*"`, `exit 1, stderr "no: /etc/passwd"`, true},
		{`exit 1, stderr "*/etc/*"`, `exit 1, stderr "no: /tmp"`, false},
		{"a*b*b", "ab", false},
		{"a*b*b", "a-b-b", true},
	} {
		assert.Equal(t, matches(c.pattern, c.text), c.want, "%q %q", c.pattern, c.text)
	}
}

func TestALineSaysWhatCameAndIsMarked(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	long := strings.Repeat("x", 1000)
	for name, c := range map[string]struct {
		ctx        context.Context
		came       string
		err        error
		mark, line string
	}{
		"as expected": {t.Context(), "exit 0", nil, passed, "ok    try"},
		"different":   {t.Context(), "exit 1", nil, failed, "came: exit 1\n"},
		"an error":    {t.Context(), "exit 0", errors.New("two\nlines"), failed, `came: exit 0 error: "two\nlines"`},
		"left out":    {t.Context(), "", leftOut("not here"), omitted, "came: left out: not here\n"},
		"interrupted": {canceled, "exit 0", nil, omitted, "came: interrupted\n"},
		"long":        {t.Context(), long, nil, failed, "x … x"},
	} {
		t.Run(name, func(t *testing.T) {
			s := step{tried: "try", want: "exit 0", do: func(context.Context, *host) (string, error) { return c.came, c.err }}
			var out bytes.Buffer
			assert.Equal(t, s.take(c.ctx, nil, &out), c.mark)
			assert.Assert(t, strings.Contains(out.String(), c.line), "%s", out.String())
			assert.Equal(t, strings.Count(out.String(), "\n"), 1)
		})
	}
}

func TestTheTotalNamesWhatWasLeftOut(t *testing.T) {
	var n tally
	n.add(passed)
	n.add(passed)
	n.add(failed)
	assert.Equal(t, n.String(), "2 passed, 1 failed")
	n.add(omitted)
	assert.Equal(t, n.String(), "2 passed, 1 failed, 1 left out")
}

func TestPodmanIsInstalledByThePackageManagerThatIsThere(t *testing.T) {
	for _, c := range []struct {
		engine   string
		programs []string
		want     string
		wantErr  string
	}{
		{"", []string{"apt-get"},
			"apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-remove podman runc", ""},
		{"", []string{"apt-get", "runc"},
			"apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-remove podman", ""},
		{"podman", []string{"docker", "dnf"}, "dnf install -y podman", ""},
		{"docker", []string{"apt-get"}, "", `ENGINE is "docker"`},
		{"", []string{"apt-get", "podman"}, "", "podman is installed"},
		{"", nil, "", "install docker or podman"},
	} {
		dir := t.TempDir()
		t.Setenv("PATH", dir)
		t.Setenv("ENGINE", c.engine)
		for _, p := range c.programs {
			assert.NilError(t, os.WriteFile(filepath.Join(dir, p), nil, 0o700))
		}
		got, err := installCommand()
		assert.Equal(t, got, c.want)
		if c.wantErr == "" {
			assert.NilError(t, err)
		} else {
			assert.ErrorContains(t, err, c.wantErr)
		}
	}
}
