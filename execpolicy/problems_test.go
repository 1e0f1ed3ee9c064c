//go:build linux

package execpolicy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/attest"
	"github.com/seed-64a260eb/cofferdam/execpolicy/codeblock"
	"github.com/seed-64a260eb/cofferdam/execpolicy/deps"
	"github.com/seed-64a260eb/cofferdam/execpolicy/python"
	"github.com/seed-64a260eb/cofferdam/execpolicy/redact"
	"github.com/seed-64a260eb/cofferdam/execpolicy/workspace"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// allOnce sees that an error is one of ErrInvalid, says so once, and names each problem
// once.
func allOnce(t *testing.T, err error, want ...string) {
	t.Helper()
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
	assert.Assert(t, strings.HasPrefix(err.Error(), "invalid: "), "%v", err)
	for _, text := range append(want, "invalid") {
		assert.Equal(t, strings.Count(err.Error(), text), 1, "%q in %v", text, err)
	}
}

// What takes more than four bytes when it is quoted counts more.
func TestLengthOfWhatIsQuoted(t *testing.T) {
	newlines := strings.Repeat("\n", execpolicy.MaxText-100)
	assert.NilError(t, execpolicy.Command{Script: ":" + newlines}.Check())
	assert.NilError(t, execpolicy.Command{Argv: []string{"true", newlines}}.Check())
	for _, c := range []execpolicy.Command{
		{Script: ":", Env: map[string]string{"A": newlines}},
		{Argv: append([]string{"true"}, make([]string, execpolicy.MaxText)...)},
	} {
		assert.ErrorContains(t, c.Check(), "the command's text counts")
	}
}

// The library's own names are no names for variables, nor are those by which the shell
// says where it is.
func TestNamesOfVariables(t *testing.T) {
	for _, name := range []string{"PWD", "BASHPID", "cf_status", "cf_worker"} {
		env := map[string]string{name: "x"}
		allOnce(t, execpolicy.Command{Script: ":", Env: env}.Check(), name+" can't be set")
		allOnce(t, execpolicy.Check(t.Context(), execpolicy.HostPolicy{}, execpolicy.Spec{Env: env}), name+" can't be set")
	}
	assert.NilError(t, execpolicy.Command{Script: ":", Env: map[string]string{"CF_X": "", "OLDPWD": ""}}.Check())
}

// What an engine would change on its way is refused.
func TestEnvThatAnEngineWouldChange(t *testing.T) {
	e := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{}).Engine
	compat := execpolicy.Compat()
	compat.Engine = e
	bad := map[string]string{"A": "\xff"}
	for _, c := range []struct {
		policy execpolicy.DockerPolicy
		spec   execpolicy.Spec
		want   string
	}{
		{execpolicy.DockerPolicy{Engine: e}, execpolicy.Spec{Env: bad}, "the value of A is not valid UTF-8"},
		{execpolicy.DockerPolicy{Engine: e}, execpolicy.Spec{Env: map[string]string{"A": "\x00"}}, "the value of A holds a NUL byte"},
		{compat, execpolicy.Spec{Env: bad}, "the value of A is not valid UTF-8"},
		{compat, execpolicy.Spec{Workspace: "/no/\xff"}, `"/no/\xff" is not valid UTF-8`},
	} {
		_, err := c.policy.Spawn(t.Context(), c.spec)
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.ErrorContains(t, err, c.want)
	}
}

// What is wrong with the spec, the policy and the command is one error.
func TestEveryProblemAtOnce(t *testing.T) {
	spec := execpolicy.Spec{
		Command: []string{"a\nb"}, Workspace: "/no/such/directory", Env: map[string]string{"A-B": "", "UID": "1"},
		Labels: map[string]string{"cofferdam.pid": "1"}, Startup: []string{""}, Shutdown: []string{"\x00"},
		Secrets: []execpolicy.Secret{{Name: "1X", Value: "hunter2"}, {Name: "SHORT", Value: "x"}},
	}
	specProblems := []string{
		`the shell "a\nb"`, `"A-B" is not the name`, "UID can't be set", "Startup[0]", "Shutdown[0]", `"1X" is not the name`,
		"the secret SHORT",
		`the workspace can't be used`,
	}
	command := execpolicy.Command{
		Argv: []string{"-x", "hunter2\x00"}, Dir: "\x00", OutputLimit: -1, Env: map[string]string{"C D": "\x00"},
		Secrets: []execpolicy.Secret{{Name: "TINY", Value: "y"}},
	}
	commandProblems := []string{`"-x" is not the name of a program`, "; a command can't hold a NUL",
		"a directory's name can't hold a NUL", "OutputLimit", `"C D" is not the name`, "the value of C D", "the secret TINY"}
	long := execpolicy.Command{Argv: []string{"printf", strings.Repeat("x", execpolicy.MaxText-10)}, Env: map[string]string{"A": ""}}
	assert.NilError(t, long.Check())
	long.Env["A"] = "1"
	assert.ErrorContains(t, long.Check(), "counts 4194305 bytes, and may have 4194304")
	docker := execpolicy.DockerPolicy{
		Image: "-x", MemoryBytes: 1, CPUTimeSeconds: 1, CPUs: "-1", User: " ", CPUShares: 1, PidsLimit: 1,
		KeepAlive: time.Millisecond, WorkspaceRelabel: "Z",
		Tmpfs: map[string]int64{"/a": -1, "relative": 1, "/.cofferdam/x": 1},
		Mounts: []dockercli.Mount{{Source: "/", Target: "/data"}, {Source: "/usr", Target: "bad"},
			{Source: "/usr", Target: "/.cofferdam"},
			{Source: "/usr", Target: "/twice"}, {Source: "/usr", Target: "/twice/"}},
		AddCapabilities: []string{" ", "CAP X"},
		ExtraHosts:      []string{"name", ":192.0.2.1", "a b:192.0.2.2", "fine:192.0.2.3"},
		ExtraRunArgs:    []string{"--privileged", "--nonsense"}, AllowUnsafeArgs: []string{"unheard"},
		ProtectedPaths: []string{"not/absolute"},
	}
	dockerProblems := []string{
		`"-x": it has to be like`, "MemoryBytes is 1", "CPUTimeSeconds is 1", `CPUs is "-1"`, `User is " "`,
		"CPUShares is 1", "PidsLimit is 1", "KeepAlive is 1ms", `WorkspaceRelabel is "Z"`,
		`tmpfs "/a"`, `"relative"`, `the tmpfs "/.cofferdam/x"`, `the mount source "/"`, `"bad"`,
		`the mount on "/.cofferdam"`, `AddCapabilities has " "`,
		`AddCapabilities has "CAP X"`, `at "/twice/"`, `ExtraHosts has "name"`, `ExtraHosts has ":192.0.2.1"`,
		`ExtraHosts has "a b:192.0.2.2"`,
		"ExtraRunArgs[0]", "ExtraRunArgs[1]", `"unheard"`, `"not/absolute"`, `the label "cofferdam.pid"`,
	}
	t.Run("docker", func(t *testing.T) {
		for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman} {
			e := fakeengine.New(t, kind, fakeengine.Faults{})
			policy := docker
			policy.Engine = e.Engine
			_, err := execpolicy.Start(t.Context(), policy, spec)
			allOnce(t, err, append(specProblems, dockerProblems...)...)
			_, err = execpolicy.Start(t.Context(), &policy, spec)
			allOnce(t, err, append(specProblems, dockerProblems...)...)
			_, err = execpolicy.Run(t.Context(), policy, spec, command)
			allOnce(t, err, append(append(specProblems, dockerProblems...), commandProblems...)...)
			assert.Assert(t, !strings.Contains(err.Error(), "hunter2"), "%v", err)
			assert.Equal(t, len(e.Calls()), 0)
			for _, user := range []string{"a b", "1:x:y", "a\n"} {
				_, err := execpolicy.Start(t.Context(), execpolicy.DockerPolicy{Engine: e.Engine, User: user, PidsLimit: 1},
					execpolicy.Spec{})
				allOnce(t, err, fmt.Sprintf("User is %q", user), "PidsLimit is 1")
			}
			mounts := []dockercli.Mount{{Source: "/usr", Target: "/tmp"}, {Source: "/usr", Target: "/workspace"}}
			_, err = execpolicy.Start(t.Context(), execpolicy.DockerPolicy{Engine: e.Engine, Mounts: mounts}, execpolicy.Spec{})
			allOnce(t, err, `at "/tmp"`, `at "/workspace"`)
			assert.Equal(t, len(e.Calls()), 0)
		}
	})
	t.Run("host", func(t *testing.T) {
		_, err := execpolicy.Run(t.Context(), execpolicy.HostPolicy{MemoryBytes: -1, CPUTimeSeconds: -1}, spec, command)
		allOnce(t, err, append(append(specProblems, "MemoryBytes is -1", "CPUTimeSeconds is -1"), commandProblems...)...)
	})
	t.Run("an engine that is missing", func(t *testing.T) {
		// What can be said without one is said.
		policy := execpolicy.DockerPolicy{Engine: &dockercli.Engine{Path: "no-such-docker"}, PidsLimit: 1}
		_, err := execpolicy.Start(t.Context(), policy, execpolicy.Spec{Env: map[string]string{"A-B": ""}})
		allOnce(t, err, "PidsLimit is 1", `"A-B" is not the name`)
		_, err = execpolicy.Start(t.Context(), execpolicy.DockerPolicy{Engine: policy.Engine},
			execpolicy.Spec{Env: map[string]string{"A-B": ""}})
		allOnce(t, err, `"A-B" is not the name`)
		_, err = execpolicy.Start(t.Context(), execpolicy.DockerPolicy{Engine: policy.Engine}, execpolicy.Spec{})
		assert.ErrorIs(t, err, dockercli.ErrNoEngine)
	})
	t.Run("somebody's policy", func(t *testing.T) {
		asked := errors.New("asked to spawn")
		policy := policyFunc(func(context.Context, execpolicy.Spec) (*execpolicy.Process, error) { return nil, asked })
		_, err := execpolicy.Start(t.Context(), policy, execpolicy.Spec{Env: map[string]string{"A-B": ""}})
		allOnce(t, err, `"A-B" is not the name`)
		_, err = execpolicy.Start(t.Context(), policy, execpolicy.Spec{})
		assert.ErrorIs(t, err, asked)
	})
}

// The same holds for the packages above.
func TestEveryProblemOfOptions(t *testing.T) {
	e := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{})
	policy := execpolicy.DockerPolicy{Engine: e.Engine, PidsLimit: 1, CPUs: "many"}
	spec := execpolicy.Spec{Env: map[string]string{"A-B": ""}}
	rest := []string{"PidsLimit is 1", `CPUs is "many"`, `"A-B" is not the name`}

	_, err := workspace.Start(t.Context(), policy, spec, workspace.Options{Mode: 7, Exclude: []string{"[", "a//b"}})
	allOnce(t, err, append(rest, "there is no mode 7", `the pattern "["`, `the pattern "a//b"`,
		"no workspace is named")...)

	_, _, err = attest.Start(t.Context(), policy, spec, attest.Options{Require: []attest.Protection{"luck", "hope"}})
	allOnce(t, err, append(rest, `"luck"`, `"hope"`)...)

	recipe := deps.Recipe{Scripts: []string{"", "\x00"}, Env: spec.Env}
	policy.WorkspaceReadOnly, policy.KeepContainer = true, true
	policy.Mounts = []dockercli.Mount{{Source: "/usr", Target: deps.Target}}
	policy.Tmpfs = map[string]int64{"/deps/x": 1}
	_, err = deps.Build(t.Context(), policy, "", recipe)
	allOnce(t, err, append(rest, "script 1", "script 2", "WorkspaceReadOnly", "KeepContainer",
		`the mount on "/deps"`, `the tmpfs "/deps/x"`, "the cache has no name")...)

	_, err = deps.Functions{Module: "a b", Source: "\x00", Requirements: []string{"-r", ""}}.Recipe()
	allOnce(t, err, "the module's name", "the source holds", `"-r" is not a requirement`, `"" is not a requirement`)

	_, err = redact.New(redact.Rule{Type: "nonsense", Strategy: 9}, redact.Rule{})
	allOnce(t, err, "rule 1: unknown redaction strategy: 9", "rule 1: Unknown PII type: nonsense",
		"rule 2: a rule needs a type")

	_, err = python.Start(t.Context(), nil, python.Options{Program: "-x", Env: map[string]string{"TMPDIR": "tmp"}})
	allOnce(t, err, `"-x" is not the name of a program`, `TMPDIR is "tmp"`)

	options := codeblock.Options{
		Languages:   map[string]codeblock.Language{"Big": {Programs: []string{"-x"}, Extension: "txt"}},
		ResultLimit: -1, Default: "klingon",
	}
	_, err = codeblock.Run(t.Context(), nil, nil, options)
	allOnce(t, err, "no code blocks to execute", `the language "Big": a name`,
		`the language "Big": a program's name`, `"txt" is not an extension`, "ResultLimit", `"klingon"`)
	assert.Equal(t, len(e.Calls()), 0)
}
