package runargs_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/runargs"
	"github.com/seed-64a260eb/cofferdam/internal/runargs/samples"
)

// A value for each flag shows the guard's table to be needed, and a new flag that is let
// through must say what it is for.
func TestSamplesHaveEveryFlag(t *testing.T) {
	for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman} {
		for spelling, f := range runargs.Flags(kind) {
			assert.Check(t, (samples.Values[f.Name] != "") == f.TakesValue, "%v %s: a value of its own: %q", kind,
				spelling, samples.Values[f.Name])
		}
	}
}

// However a variable is written, a line that is shown does not have its value.
func FuzzExtraArgsShown(f *testing.F) {
	const secret = "hunter2"
	for _, s := range samples.Seeds() {
		f.Add(strings.Join(s.Args, "\x00"), s.Plan, s.Compat)
	}
	for _, words := range []string{
		"-qeEVIL=1", "-qe=EVIL=1", "-qqPeEVIL=1", "-qeEVIL=1\x00-e=EVIL=1", "--label\x00-e\x00--env\x00EVIL=1",
		"--label\x00--env\x00-eEVIL=1",
		"-l\x00-qe\x00-qe\x00EVIL=1", "--label\x00--\x00-eEVIL=1", "-e\x00-e\x00-eEVIL=1",
	} {
		f.Add(words, []byte(nil), false)
	}
	f.Fuzz(func(t *testing.T, words string, plan []byte, podman bool) {
		kind := dockercli.Docker
		if podman {
			kind = dockercli.Podman
		}
		args := samples.Generate(kind, plan)
		if words != "" {
			args = append(args, strings.Split(words, "\x00")...)
		}
		for i, word := range args {
			args[i] = strings.ReplaceAll(word, "EVIL=1", "EVIL="+secret)
		}
		hidden := false
		for _, flag := range runargs.Read(kind, args) {
			holds := strings.Contains(flag.Value, secret)
			variable := flag.Name == "env" || flag.Name == "env-merge"
			if flag.Err != nil || flag.Apart && flag.Value == "--" || holds && !variable || holds &&
				!strings.Contains(flag.Value, "="+secret) {
				return
			}
			hidden = hidden || holds
		}
		line := dockercli.Explain(dockercli.Redact(append(args, "--", "image")))
		if hidden && strings.Contains(line, secret) {
			t.Errorf("%q shows the variable: %s", args, line)
		}
	})
}
