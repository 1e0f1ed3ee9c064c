package enginetest

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

// engineVar holds in JSON what a [Child] needs to know of an engine.
const engineVar = "COFFERDAM_TEST_ENGINE"

// childTimeout bounds the wait for a child's first line.
const childTimeout = 5 * time.Minute

// A handedOn engine is one as it stands in engineVar.
type handedOn struct {
	Kind   dockercli.Kind
	Client []string // the path and the global flags
	Env    []string // the client's; nil if it is the child's
	Kernel string
	Remote bool
	// Rootless and Missing are the engine's Rootless and MissingLimits.
	Rootless bool
	Missing  []string
	Image    string
	Labels   map[string]string
}

// Environ returns the environment of a [Child] that uses the engine.
func (e Engine) Environ(t *testing.T) []string {
	t.Helper()
	text, err := json.Marshal(handedOn{e.Kind, append([]string{e.Path}, e.Global...), e.Env, e.Kernel, e.Remote, e.Rootless,
		e.MissingLimits, e.Image, e.Labels})
	assert.NilError(t, err)
	env := e.Env
	if env == nil {
		env = os.Environ()
	}
	// What the child makes for temporary files is looked for where this test's are.
	return append(slices.Clip(env), "TMPDIR="+os.TempDir(), engineVar+"="+string(text))
}

// FromEnviron returns in a [Child] the engine whose Environ it was started with.
func FromEnviron() (Engine, error) {
	var h handedOn
	if err := json.Unmarshal([]byte(os.Getenv(engineVar)), &h); err != nil {
		return Engine{}, err
	}
	e := &dockercli.Engine{Kind: h.Kind, Path: h.Client[0], Global: h.Client[1:], Env: h.Env, Kernel: h.Kernel,
		Remote: h.Remote, Rootless: h.Rootless, MissingLimits: h.Missing}
	return Engine{Engine: e, Image: h.Image, Labels: h.Labels}, nil
}

// Child starts the test binary as another program, which finds in the environment what it
// is to do. It returns the first line that the program prints, and what kills it. The
// program is killed when the test ends.
func Child(t *testing.T, env []string) (line string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env, cmd.Stderr = env, os.Stderr
	stdout, err := cmd.StdoutPipe()
	assert.NilError(t, err)
	assert.NilError(t, cmd.Start())
	kill = sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	t.Cleanup(kill)
	assert.NilError(t, stdout.(*os.File).SetReadDeadline(time.Now().Add(childTimeout)))
	line, err = bufio.NewReader(stdout).ReadString('\n')
	assert.NilError(t, err, line)
	return strings.TrimSpace(line), kill
}
