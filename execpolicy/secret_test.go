package execpolicy_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

// newValue returns a value that stands nowhere on this machine.
func newValue() string { return "secret-value-" + rand.Text() }

// shows reports whether a text has a part of a value.
func shows(text, value string) bool {
	const part = 6
	for i := 0; i+part <= len(value); i++ {
		if strings.Contains(text, value[i:i+part]) && !strings.Contains("secret-value-", value[i:i+part]) {
			return true
		}
	}
	return false
}

var quotedValues = []string{"it's", `a "quoted\" word`, "tab\tand\x01bell", "ümläut's", "'''' '", `\''\''`}

func TestSecretsThatAreRefused(t *testing.T) {
	lookup := func(context.Context, string) (string, error) { t.Error("nothing is looked up"); return "", nil }
	long := strings.Repeat("x", execpolicy.MaxSecret+1)
	for _, c := range []struct {
		name    string
		secrets []execpolicy.Secret
		want    []string
	}{
		{"the names", []execpolicy.Secret{{Name: "a-b", Value: "hunter2"}, {Name: "", Value: "hunter2"},
			{Name: "UID", Value: "hunter2"}},
			[]string{`"a-b" is not the name`, `"" is not the name`, "UID can't be set"}},
		{"twice", []execpolicy.Secret{{Name: "A", Value: "hunter2"}, {Name: "A", Lookup: lookup},
			{Name: "ENV", Value: "hunter2"}},
			[]string{"the secret A is set twice", "the secret ENV is set twice"}},
		{"from nowhere, and from two places", []execpolicy.Secret{{Name: "A"}, {Name: "B", Value: "hunter2", Lookup: lookup}},
			[]string{"the secret A has to have a Value or a Lookup, and not both",
				"the secret B has to have a Value or a Lookup, and not both"}},
		{"the values", []execpolicy.Secret{{Name: "A", Value: "xyz"}, {Name: "B", Value: " xyz\n\n\n"},
			{Name: "C", Value: long}, {Name: "D", Value: "hunter2\x00"}},
			[]string{"the secret A is shorter than 4", "the secret B is shorter than 4",
				"the secret C is longer than 64 KiB", "the secret D holds a NUL"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := map[string]string{"ENV": "x"}
			nowhere := execpolicy.DockerPolicy{Engine: &dockercli.Engine{Path: "/nonexistent"}}
			_, specErr := execpolicy.Start(t.Context(), nowhere, execpolicy.Spec{Env: env, Secrets: c.secrets})
			_, commandErr := execpolicy.Run(t.Context(), nowhere, execpolicy.Spec{},
				execpolicy.Command{Script: ":", Env: env, Secrets: c.secrets})
			for _, err := range []error{specErr, commandErr} {
				assert.ErrorIs(t, err, execpolicy.ErrInvalid)
				for _, want := range c.want {
					assert.ErrorContains(t, err, want)
				}
				for _, s := range c.secrets {
					assert.Assert(t, s.Value == "" || !strings.Contains(err.Error(), s.Value), err)
				}
			}
		})
	}
}

// What is wrong with something else does not tell either.
func TestSecretsInWhatIsRefused(t *testing.T) {
	nowhere := execpolicy.DockerPolicy{Engine: &dockercli.Engine{Path: "/nonexistent"}}
	for _, value := range append([]string{"hunter2", "-----BEGIN KEY-----\nhunter2hunter2\n"}, quotedValues...) {
		secrets := []execpolicy.Secret{{Name: "TOKEN", Value: value}}
		_, err := execpolicy.Run(t.Context(), nowhere, execpolicy.Spec{},
			execpolicy.Command{Argv: []string{"-" + value}, Secrets: secrets})
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.ErrorContains(t, err, `"-[secret TOKEN]`)
		_, err = execpolicy.Start(t.Context(), nowhere,
			execpolicy.Spec{Secrets: secrets, Startup: []string{"echo " + value + "\x00"}, Command: []string{value + "\n"}})
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.ErrorContains(t, err, "Startup[0]")
		assert.Assert(t, !strings.Contains(err.Error(), value), "%v", err)
		assert.ErrorContains(t, err, `the shell "[secret TOKEN]`)
	}
}

// A session's own are not shown by what it refuses either.
func TestSecretsInWhatASessionRefuses(t *testing.T) {
	enginetest.Check(t)
	s, err := execpolicy.Start(t.Context(), execpolicy.HostPolicy{},
		execpolicy.Spec{Secrets: []execpolicy.Secret{{Name: "TOKEN", Value: "hunter2"}}})
	assert.NilError(t, err)
	defer func() { assert.Check(t, s.Close()) }()
	_, err = s.Run(t.Context(), execpolicy.Command{Argv: []string{"-hunter2"}})
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
	assert.ErrorContains(t, err, `"-[secret TOKEN]"`)
	assert.Assert(t, !strings.Contains(err.Error(), "hunter2"), err)
}

// A policy has no hand in secrets.
func TestSecretsWithoutASession(t *testing.T) {
	engine := &dockercli.Engine{Path: "true", Remote: true} // no engine is asked
	compat := execpolicy.Compat()
	compat.Engine = engine
	for _, p := range []execpolicy.Policy{execpolicy.DockerPolicy{Engine: engine}, compat, execpolicy.HostPolicy{}} {
		for _, supervisor := range [][]string{nil, {"sh"}} {
			_, err := p.Spawn(t.Context(), execpolicy.Spec{Command: []string{"true"}, Supervisor: supervisor,
				Secrets: []execpolicy.Secret{{Name: "A", Value: "hunter2"}}})
			assert.ErrorIs(t, err, execpolicy.ErrInvalid)
			assert.ErrorContains(t, err, "only a session has Secrets")
		}
	}
}

// Who prints a secret, or what holds it, prints its name.
func TestSecretPrinted(t *testing.T) {
	secret := execpolicy.Secret{Name: "TOKEN", Value: "hunter2",
		Lookup: func(context.Context, string) (string, error) { return "", nil }}
	spec := execpolicy.Spec{Secrets: []execpolicy.Secret{secret}}
	command := execpolicy.Command{Secrets: spec.Secrets}
	assert.Equal(t, secret.String(), "secret TOKEN")
	var printed []string
	for _, what := range []any{secret, &secret, spec, &spec, command, &command, spec.Secrets,
		map[string]execpolicy.Secret{"x": secret}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%t"} {
			printed = append(printed, fmt.Sprintf(verb, what))
		}
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "y", what)
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "y", what)
		printed = append(printed, log.String())
	}
	data, err := json.Marshal(spec.Secrets)
	assert.NilError(t, err)
	assert.Equal(t, string(data), `["secret TOKEN"]`)
	for _, text := range printed {
		assert.Assert(t, !strings.Contains(text, "hunter2") && !strings.Contains(text, "68756e74657232"), text)
	}
}

// A value whose parts were apart, as in a match that is colored, is not put together.
func TestSecretBehindEscapes(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		spec := p.spec()
		spec.Secrets = []execpolicy.Secret{{Name: "TOKEN", Value: "hunter2-hunter2"}}
		s := open(t, p.policy(), spec)
		r := s.script(`printf 'a \033[1;31mhunter2-\033[mhunter2\n'; printf 'b hunter2-\a%s\n' hunter2 >&2`)
		assert.Equal(t, r.Render(execpolicy.RenderOptions{}), "a [secret TOKEN]\n[stderr]\nb [secret TOKEN]\n")
	})
}

// What a Restart that fails has looked up is hidden all the same: it may be in a file.
func TestSecretsOfAFailedRestart(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		spec := p.spec()
		lookups := 0
		spec.Secrets = []execpolicy.Secret{{Name: "TOKEN", Lookup: func(context.Context, string) (string, error) {
			lookups++
			return fmt.Sprint("hunter2-", lookups), nil
		}}}
		spec.Startup = []string{"[ $TOKEN != hunter2-2 ]"}
		s := open(t, p.policy(), spec)
		assert.ErrorIs(t, s.Restart(t.Context()), execpolicy.ErrScript)
		assert.Equal(t, s.Redact("hunter2-2"), "[secret TOKEN]")
		s.restart()
		assert.Equal(t, s.ok("echo hunter2-1 hunter2-2 hunter2-3"), "[secret TOKEN] [secret TOKEN] [secret TOKEN]")
	})
}

// No record shows a secret, not even of what was asked for before it was given.
func TestSecretsAreInNoRecord(t *testing.T) {
	enginetest.Check(t)
	var mu sync.Mutex
	var records []execpolicy.Event
	spec := execpolicy.Spec{
		Secrets: []execpolicy.Secret{{Name: "TOKEN", Value: "hunter2"}},
		Startup: []string{"test hunter2 = $TOKEN"},
		Audit: func(e execpolicy.Event) error {
			mu.Lock()
			defer mu.Unlock()
			records = append(records, e)
			return nil
		},
	}
	s, err := execpolicy.Start(t.Context(), execpolicy.HostPolicy{}, spec)
	assert.NilError(t, err)
	_, err = s.Run(t.Context(), execpolicy.Command{
		Argv: []string{"echo", "hunter2", "*******"}, Dir: "/hunter2",
		Secrets: []execpolicy.Secret{{Name: "KEY", Value: "*******", File: true}},
	})
	assert.ErrorIs(t, err, execpolicy.ErrNoDir)
	_, err = s.ReadFile(t.Context(), "hunter2", 0)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.NilError(t, s.Close())
	mu.Lock()
	defer mu.Unlock()
	all, err := json.Marshal(records)
	assert.NilError(t, err)
	assert.Assert(t, !strings.Contains(string(all), "hunter2") && !strings.Contains(string(all), "*******"), "%s", all)
	var given [][]string
	for _, e := range records {
		if e.Secrets != nil {
			given = append(given, e.Secrets)
		}
		if e.Kind == execpolicy.EventCommand && e.Op == "" {
			assert.DeepEqual(t, e.Argv, []string{"echo", "[secret TOKEN]", "[secret KEY]"})
		}
	}
	assert.DeepEqual(t, given, [][]string{{"TOKEN"}, {"KEY"}})
}

// A command that fails before the shell has its secrets does not show them either.
func TestSecretsThatAreNotGivenYet(t *testing.T) {
	enginetest.Check(t)
	var results []string
	s, err := execpolicy.Start(t.Context(), execpolicy.HostPolicy{}, execpolicy.Spec{Audit: func(e execpolicy.Event) error {
		if e.Kind == execpolicy.EventResult {
			results = append(results, e.Error)
		}
		return nil
	}})
	assert.NilError(t, err)
	_, err = s.Run(t.Context(), execpolicy.Command{Script: "unset PWD"})
	assert.NilError(t, err)
	_, err = s.Run(t.Context(), execpolicy.Command{Script: ":", Dir: "/hunter2",
		Secrets: []execpolicy.Secret{{Name: "TOKEN", Value: "hunter2"}}})
	assert.ErrorIs(t, err, execpolicy.ErrNoDir)
	assert.ErrorContains(t, err, `"/[secret TOKEN]": the shell could not go back`)
	assert.NilError(t, s.Close())
	assert.DeepEqual(t, results, []string{"", err.Error()})
}

// A refusal quotes the code, in which a value may be quoted already.
func TestSecretsInARefusal(t *testing.T) {
	enginetest.Check(t)
	s, err := execpolicy.Start(t.Context(), execpolicy.HostPolicy{}, execpolicy.Spec{
		Approve: func(_ context.Context, r execpolicy.Request) error {
			clear(r.Argv)
			return errPolicy
		},
	})
	assert.NilError(t, err)
	secrets := []execpolicy.Secret{{Name: "A_LONG_NAME_OF_A_SHORT_VALUE", Value: "pa$$word"}}
	const hidden = `\"[secret A_LONG_NAME_OF_A_SHORT_VALUE]\"`
	for _, c := range []struct {
		command execpolicy.Command
		want    string
	}{
		{execpolicy.Command{Script: `login "pa\$\$word"`}, `script "login ` + hidden + `"`},
		{execpolicy.Command{Argv: []string{"login", `"pa\$\$word"`}}, `argv ["login" "` + hidden + `"]`},
		// Whether it is quoted is decided by the code, and not by what takes the place of
		// a value.
		{execpolicy.Command{Script: `login "pa\$\$word"` + strings.Repeat(" ", 82)},
			`script "login ` + hidden + strings.Repeat(" ", 82) + `"`},
		{execpolicy.Command{Script: `login "pa\$\$word"` + strings.Repeat(" ", 83)}, "script of 101 bytes"},
	} {
		c.command.Secrets = secrets
		r, err := s.Run(t.Context(), c.command)
		assert.NilError(t, err)
		assert.Error(t, r.Cause, "the command was refused: "+c.want+": no deletions today")
	}
	assert.NilError(t, s.Close())
}

// A quoting is a policy that fails with what it was given, at one of two times.
type quoting struct {
	execpolicy.HostPolicy
	checks bool
}

var errNoDisk = errors.New("no disk")

func (q quoting) Check(_ context.Context, spec execpolicy.Spec) error {
	if q.checks {
		return fmt.Errorf("%s: %w", spec.Workspace, errNoDisk)
	}
	return nil
}

func (q quoting) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	if err := spec.RecordSpawn(ctx, "", []string{"-v", spec.Workspace}); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%s: %w", spec.Workspace, errNoDisk)
}

// A policy, which is not told what is secret, does not tell.
func TestSecretsInWhatAPolicySays(t *testing.T) {
	for _, c := range []struct {
		policy  execpolicy.Policy
		want    error
		records int
	}{
		{execpolicy.HostPolicy{}, execpolicy.ErrInvalid, 1},
		{quoting{checks: true}, errNoDisk, 1},
		{quoting{}, errNoDisk, 2},
	} {
		var told []string
		_, err := execpolicy.Start(t.Context(), c.policy, execpolicy.Spec{
			Workspace: "/nonexistent-hunter2",
			Secrets:   []execpolicy.Secret{{Name: "TOKEN", Value: "hunter2"}},
			Audit: func(e execpolicy.Event) error {
				told = append(told, fmt.Sprint(e.Argv, e.Error))
				return nil
			},
		})
		assert.ErrorIs(t, err, c.want)
		assert.ErrorContains(t, err, "/nonexistent-[secret TOKEN]")
		assert.Equal(t, len(told), c.records)
		told = append(told, err.Error())
		for _, text := range told {
			assert.Assert(t, !strings.Contains(text, "hunter2"), text)
		}
	}
}
