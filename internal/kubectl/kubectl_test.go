package kubectl_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"github.com/seed-64a260eb/cofferdam/internal/kubectl"
)

func TestArgv(t *testing.T) {
	var all strings.Builder
	for _, c := range []kubectl.Client{
		{Path: "kubectl", Namespace: "default"},
		{Path: "/opt/kubectl", Kubeconfig: "/etc/lab.yaml", Context: "lab", Namespace: "sandboxes"},
	} {
		for _, argv := range [][]string{
			c.CreateArgs(c.Pods()), c.GetArgs(c.Pods() + "/name"), c.DeleteArgs(c.Pods() + "/name"), c.RemoveArgs(),
			c.AttachArgs("name", "main"), c.ExecArgs("name", "main", []string{"sh", "-c", "true"}),
		} {
			all.WriteString(strings.Join(argv, " ") + "\n")
		}
	}
	golden.Assert(t, all.String(), "argv.golden")
}

// program writes a kubectl that is a shell script, and returns a client of it.
func program(t *testing.T, script string) kubectl.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubectl")
	assert.NilError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700))
	return kubectl.Client{Path: path, Env: []string{"PATH=" + os.Getenv("PATH")}}
}

func TestFind(t *testing.T) {
	c := program(
		t,
		`echo '{"current-context":"lab","clusters":[{"cluster":{"server":"https://192.0.2.1"}}],"contexts":[{"context":{}}]}'`,
	)
	c.Env = append(c.Env, "KUBECONFIG=a.yaml"+string(filepath.ListSeparator)+"/b.yaml")
	found, err := kubectl.Find(t.Context(), c)
	assert.NilError(t, err)
	assert.Equal(t, found.Context, "lab")
	assert.Equal(t, found.Namespace, "default")
	dir, err := os.Getwd()
	assert.NilError(t, err)
	env := strings.Join(found.Env, "\n")
	assert.Assert(
		t,
		strings.Contains(env,
			"KUBECONFIG="+filepath.Join(dir, "a.yaml")+string(filepath.ListSeparator)+"/b.yaml"),
		env,
	)
	assert.Assert(t, strings.HasSuffix(env, "\nKUBERC=off"), env)

	for _, namespace := range []string{"..", "a/b", "a?b", "A"} {
		c.Namespace = namespace
		_, err := kubectl.Find(t.Context(), c)
		assert.ErrorIs(t, err, kubectl.ErrNoCluster)
	}

	for script, class := range map[string]error{
		"echo '{}'": kubectl.ErrNoCluster,
		"echo 'error: current-context must exist in order to minify' >&2; exit 1": kubectl.ErrNoCluster,
		"echo 'Error: unknown flag: --minify' >&2; exit 1":                        kubectl.ErrTooOld,
	} {
		_, err := kubectl.Find(t.Context(), program(t, script))
		assert.ErrorIs(t, err, class)
	}
	_, err = kubectl.Find(t.Context(), program(t, "echo x"))
	assert.ErrorContains(t, err, "config: ")
	_, err = kubectl.Find(t.Context(),
		kubectl.Client{Path: filepath.Join(t.TempDir(), "none")})
	assert.ErrorIs(t, err, kubectl.ErrNoProgram)
}

func TestWatchThatIsCutOff(t *testing.T) {
	c := program(
		t,
		`echo '{"type":"ADDED","object":{"a":1}}'; printf '{"type":"MOD'; exec sleep 60`,
	)
	var seen []string
	begin := time.Now()
	done, err := c.Watch(t.Context(), "name", 5*time.Second, func(object []byte) bool {
		seen = append(seen, string(object))
		return false
	})
	assert.NilError(t, err)
	assert.Assert(t, !done && time.Since(begin) < 30*time.Second)
	assert.DeepEqual(t, seen, []string{`{"a":1}`})
	done, err = c.Watch(t.Context(), "name", time.Minute, func([]byte) bool { return true })
	assert.NilError(t, err)
	assert.Assert(t, done)
	c = program(
		t,
		`echo 'Error from server (Forbidden): pods is forbidden: User "u" cannot watch resource' >&2; exit 1`,
	)
	_, err = c.Watch(t.Context(), "name", time.Minute, func([]byte) bool { return true })
	assert.ErrorIs(t, err, kubectl.ErrPermission)
	// A kubectl that reads nothing of what it is sent holds up nobody.
	c = program(t, `echo '{}'`)
	_, err = c.Create(t.Context(), c.Pods(), make([]byte, 1<<20))
	assert.NilError(t, err)
}

// A kubectl without credentials asks for them, and is given none.
func TestKubectlThatAsks(t *testing.T) {
	c := program(t, `printf 'Please enter Username: '
read -r name || { echo 'error: EOF' >&2; exit 1; }`)
	_, err := c.Get(t.Context(), "/version")
	assert.ErrorIs(t, err, kubectl.ErrLoggedOut)
	assert.ErrorContains(t, err, "EOF; Please enter Username:")
}

// An answer without an end takes no memory without one, and no longer than the context.
func TestAnswersAreBounded(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c := program(t, "head -c 70000000 /dev/zero")
	_, err := c.Get(ctx, "/version")
	assert.ErrorContains(t, err, "get: the answer has more than 67108864 bytes")
	c = program(t, "echo 'error: first words' >&2; head -c 70000000 /dev/zero >&2; exit 1")
	_, err = c.Get(ctx, "/version")
	assert.ErrorContains(t, err, "first words")
	var e *kubectl.Error
	assert.Assert(t, errors.As(err, &e))
	assert.Equal(t, e.ExitCode, 1)
}

// Only a program that is not there, or is none, is said to be none.
func TestKubectlThatCanNotBeStarted(t *testing.T) {
	c := program(t, "exit 0")
	assert.NilError(t, os.WriteFile(c.Path, []byte("no program"), 0o700))
	_, err := c.Get(t.Context(), "/version")
	assert.ErrorIs(t, err, kubectl.ErrNotStarted)
	assert.Assert(t, !errors.Is(err, kubectl.ErrNoProgram))
	assert.NilError(t, os.Remove(c.Path))
	_, err = c.Get(t.Context(), "/version")
	assert.ErrorIs(t, err, kubectl.ErrNoProgram)
}
