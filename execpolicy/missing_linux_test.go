package execpolicy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

// handMade returns an engine of which only the client is known, and what says which verbs
// that was called with. The client answers a question for the engine with info.
func handMade(t *testing.T, info string) (e *dockercli.Engine, verbs func() string) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	script := fmt.Sprintf(`#!/bin/sh
echo "$1" >>'%s'
case $1 in
--version) echo 'podman version 4.3.1' ;;
info) %s ;;
run) echo 'Error: it does not want to' >&2; exit 125 ;;
*) echo 'Error: no such container' >&2; exit 1 ;;
esac
`, log, info)
	path := filepath.Join(dir, "podman")
	assert.NilError(t, os.WriteFile(path, []byte(script), 0o700))
	return &dockercli.Engine{Path: path, Kind: dockercli.Podman}, func() string {
		text, err := os.ReadFile(log)
		if !os.IsNotExist(err) {
			assert.NilError(t, err)
		}
		return strings.Join(strings.Fields(string(text)), " ")
	}
}

// An engine that the caller has made is asked for its limits before it starts anything.
func TestLimitsOfHandMadeEngine(t *testing.T) {
	enginetest.Check(t)
	const asked = "--version info"
	spec := execpolicy.Spec{}
	t.Run("it has none", func(t *testing.T) {
		e, verbs := handMade(t, "echo '4.3.1 false true 6.1.0'; echo 'v1 cpu memory pids'")
		p := execpolicy.DockerPolicy{Engine: e}
		_, explained := p.Explain(t.Context(), spec)
		for _, err := range []error{explained, p.Check(t.Context(), spec), startError(t, p, spec), spawnError(t, p, spec)} {
			assert.ErrorIs(t, err, execpolicy.ErrInvalid)
			assert.ErrorContains(t, err, "limits of memory, processors, processes")
		}
		assert.Equal(t, verbs(), asked)
		assert.Assert(t, e.MissingLimits == nil) // it is the caller's
		p.AllowMissingLimits = true
		assert.NilError(t, p.Check(t.Context(), spec))
		line, err := p.Explain(t.Context(), spec)
		assert.NilError(t, err)
		assert.Assert(t, !strings.Contains(line, "--memory"), line)
		assert.ErrorContains(t, startError(t, p, spec), "it does not want to")
	})
	t.Run("it has some", func(t *testing.T) {
		e, _ := handMade(t, "echo '5.8.1 false true 6.1.0'; echo 'v2 memory pids'")
		assert.ErrorContains(t, spawnError(t, execpolicy.DockerPolicy{Engine: e}, spec), "limits of processors:")
	})
	t.Run("it has all", func(t *testing.T) {
		e, verbs := handMade(t, "echo '4.3.1 false false 6.1.0'; echo 'v1 cpu memory pids'")
		assert.ErrorContains(t, startError(t, execpolicy.DockerPolicy{Engine: e}, spec), "it does not want to")
		assert.Assert(t, strings.HasPrefix(verbs(), asked+" run"), verbs())
	})
	t.Run("nobody knows", func(t *testing.T) {
		e, verbs := handMade(t, "echo 'Error: it is not there' >&2; exit 125")
		p := execpolicy.DockerPolicy{Engine: e}
		assert.NilError(t, p.Check(t.Context(), spec))
		line, err := p.Explain(t.Context(), spec)
		assert.NilError(t, err)
		assert.Assert(t, strings.Contains(line, "--memory"), line)
		for _, err := range []error{startError(t, p, spec), spawnError(t, p, spec)} {
			assert.ErrorIs(t, err, execpolicy.ErrStart)
			assert.ErrorContains(t, err, "which limits the engine can set")
			assert.ErrorContains(t, err, "it is not there")
		}
		assert.Assert(t, !strings.Contains(verbs(), "run"), verbs())
		// What is wrong anywhere is said without it.
		p.PidsLimit = 1
		assert.ErrorIs(t, spawnError(t, p, spec), execpolicy.ErrInvalid)
	})
	t.Run("the caller knows", func(t *testing.T) {
		e, verbs := handMade(t, "exit 1")
		e.MissingLimits = []string{}
		assert.ErrorContains(t, startError(t, execpolicy.DockerPolicy{Engine: e}, spec), "it does not want to")
		assert.Assert(t, strings.HasPrefix(verbs(), "run"), verbs())
	})
}

// Starts that come at once ask an engine once for its limits.
func TestLimitsAreAskedOnce(t *testing.T) {
	enginetest.Check(t)
	e, verbs := handMade(t, "echo '4.3.1 false true 6.1.0'; echo 'v1 cpu memory pids'")
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			_, err := execpolicy.Start(t.Context(), execpolicy.DockerPolicy{Engine: e}, execpolicy.Spec{})
			assert.Check(t, cmp.ErrorIs(err, execpolicy.ErrInvalid))
		})
	}
	all.Wait()
	assert.Equal(t, verbs(), "--version info")
}

// An sshd that turns away the question for the limits is asked again, as one that turns
// away a start.
func TestLimitsAreAskedAgain(t *testing.T) {
	enginetest.Check(t)
	const turnedAway = "kex_exchange_identification: Connection closed by remote host"
	for _, c := range []struct {
		remote   bool
		refusals int
		want     string
		asked    int
	}{
		{true, 2, "limits of memory, processors, processes", 3},
		{true, 9, turnedAway, 3},
		{false, 9, turnedAway, 1},
	} {
		count := filepath.Join(t.TempDir(), "count")
		e, _ := handMade(t, fmt.Sprintf(`echo >>'%[1]s'
	if [ $(wc -l <'%[1]s') -le %[2]d ]; then echo '%[3]s' >&2; exit 125; fi
	echo '4.3.1 true true 6.1.0'; echo 'v1 cpu memory pids'`, count, c.refusals, turnedAway))
		e.Remote = c.remote
		assert.ErrorContains(t, spawnError(t, execpolicy.DockerPolicy{Engine: e, EngineSeccomp: true}, execpolicy.Spec{}), c.want)
		asked, err := os.ReadFile(count)
		assert.NilError(t, err)
		assert.Equal(t, len(asked), c.asked, c.want)
	}
}

// startError returns why no session starts, and spawnError why no container does.
func startError(t *testing.T, p execpolicy.DockerPolicy, spec execpolicy.Spec) error {
	t.Helper()
	_, err := execpolicy.Start(t.Context(), p, spec)
	assert.Assert(t, err != nil)
	return err
}

func spawnError(t *testing.T, p execpolicy.DockerPolicy, spec execpolicy.Spec) error {
	t.Helper()
	_, err := p.Spawn(t.Context(), spec)
	assert.Assert(t, err != nil)
	return err
}
