package reach_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/reach"
)

// node lets something listen where a kubelet does, if $LISTEN is set, and becomes the
// shell that tries the network.
const node = `ip link set lo up 2>/dev/null || busybox ip link set lo up || exit 99
if [ -n "$LISTEN" ]; then
	python3 -c '
import os, socket, time
s = socket.socket()
s.bind(("127.0.0.1", 10250))
s.listen(50)
os.write(1, b"listening")
time.sleep(60)' >"$LISTEN" &
	while [ ! -s "$LISTEN" ]; do sleep 0.1; done
	trap "kill $!" EXIT
fi
PATH=$ONLY KUBERNETES_SERVICE_HOST=192.0.2.1 KUBERNETES_SERVICE_PORT=443 COFFERDAM_NODE=127.0.0.1 sh -c "$TRIAL"`

const plainNC = `#!/bin/sh
echo "BusyBox v1.36.1 multi-call binary. Usage: nc [IPADDR PORT]"
exit 1
`

// noSleep is a sleep that only notes for how long it was to be.
const noSleep = `#!/bin/sh
echo "$1" >>"$SLEPT"
`

// python returns the program that the python3 on PATH starts, which may be a script.
func python(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	assert.NilError(t, err)
	return strings.TrimSpace(string(out))
}

// The trial tells an open network from one that is closed, with each of the programs that
// it knows, and knows when it has none of them.
func TestTrial(t *testing.T) {
	enginetest.Beside(t)
	if out, err := exec.Command("unshare", "-n", "true").CombinedOutput(); err != nil {
		leftout.Skip(t, "no network namespace can be made: %s", out)
	}
	// It is a busybox's nc that was built without its extensions.
	plain := filepath.Join(t.TempDir(), "nc")
	assert.NilError(t, os.WriteFile(plain, []byte(plainNC), 0o700))
	sleep := filepath.Join(t.TempDir(), "sleep")
	assert.NilError(t, os.WriteFile(sleep, []byte(noSleep), 0o700))
	for program, file := range map[string]string{
		"bash": "bash", "nc": "busybox", "python3": python(t), "perl": "perl", "nothing": "",
		// What they are links to fails.
		"broken python3": "false", "broken perl": "false", "broken bash": "false",
		"broken nc": plain,
	} {
		t.Run("with "+program, func(t *testing.T) {
			t.Parallel()
			path := t.TempDir()
			link := func(name, file string) {
				target, err := exec.LookPath(file)
				if err != nil {
					leftout.Skip(t, "%v", err)
				}
				// Another program may stand for it, and need its own name.
				target, err = filepath.EvalSymlinks(target)
				assert.NilError(t, err)
				assert.NilError(t, os.Symlink(target, filepath.Join(path, name)))
			}
			for name, file := range map[string]string{"sh": "sh", "sleep": sleep, "timeout": "timeout"} {
				link(name, file)
			}
			works := file != "" && !strings.HasPrefix(program, "broken ")
			if file != "" {
				link(strings.TrimPrefix(program, "broken "), file)
			}
			for _, open := range []bool{false, true} {
				message := filepath.Join(t.TempDir(), "message")
				trial := strings.ReplaceAll(reach.Script, reach.MessageFile, message)
				cmd := exec.Command("unshare", "-n", "sh", "-c", node)
				slept := filepath.Join(t.TempDir(), "slept")
				cmd.Env = append(os.Environ(), "ONLY="+path, "TRIAL="+trial+"\necho passed", "SLEPT="+slept)
				if open {
					cmd.Env = append(cmd.Env, "LISTEN="+filepath.Join(t.TempDir(), "listens"))
				}
				out, _ := cmd.CombinedOutput()
				want := 0
				if !works {
					want = reach.Untried
				} else if open {
					want = reach.Reached
				}
				assert.Check(t, cmd.ProcessState.ExitCode() == want, "open %v: %s", open, out)
				assert.Check(t, strings.Contains(string(out), "passed") == (want == 0), "%s", out)
				words, _ := os.ReadFile(message)
				assert.Check(t, strings.HasPrefix(string(words), reach.Trial) == (want != 0), "%s", words)
				pauses, _ := os.ReadFile(slept)
				again := ""
				if want == reach.Reached {
					again = "3\n3\n3\n"
				}
				assert.Check(t, string(pauses) == again, "%s", pauses)
			}
		})
	}
}

// shellAnd returns a shell, and a directory that has it as sh, and a script of that name.
func shellAnd(t *testing.T, name, script string) (sh, path string) {
	t.Helper()
	path = t.TempDir()
	sh, err := exec.LookPath("sh")
	assert.NilError(t, err)
	assert.NilError(t, os.Symlink(sh, filepath.Join(path, "sh")))
	assert.NilError(t, os.WriteFile(filepath.Join(path, name), []byte("#!"+sh+"\n"+script+"\n"), 0o700))
	return sh, path
}

// An attempt that was killed has tried nothing.
func TestAttemptIsKilled(t *testing.T) {
	sh, path := shellAnd(t, "python3", `[ "$2" = 'import socket' ] || kill -9 $$`)
	message := filepath.Join(t.TempDir(), "message")
	cmd := exec.Command(sh, "-c", strings.ReplaceAll(reach.Script, reach.MessageFile, message))
	cmd.Env = []string{"PATH=" + path, "COFFERDAM_NODE=192.0.2.1"}
	out, err := cmd.CombinedOutput()
	assert.Equal(t, cmd.ProcessState.ExitCode(), reach.Untried, "%v: %s", err, out)
	words, err := os.ReadFile(message)
	assert.NilError(t, err)
	assert.Assert(t, strings.Contains(string(words), "the node ended with status 137"), "%s", words)

	cmd = exec.Command(sh, "-c", reach.Attempts("192.0.2.1 443"))
	cmd.Env = []string{"PATH=" + path}
	out, err = cmd.CombinedOutput()
	assert.NilError(t, err, "%s", out)
	lines := slices.Sorted(strings.Lines(string(out)))
	assert.DeepEqual(t, lines, []string{"tried untried 192.0.2.1:443\n", "tried untried itself\n"})
}

// Where not even the pod itself answers in time, silence means nothing.
func TestAttemptsOfASlowPod(t *testing.T) {
	sh, path := shellAnd(t, "python3", `[ "$2" = 'import socket' ] || exit 124`)
	cmd := exec.Command(sh, "-c", reach.Attempts("192.0.2.1 443"))
	cmd.Env = []string{"PATH=" + path}
	out, err := cmd.CombinedOutput()
	assert.NilError(t, err, "%s", out)
	assert.Assert(t, strings.Contains(string(out), "tried silent 192.0.2.1:443\n"), "%s", out)
	assert.Assert(t, strings.Contains(string(out), "tried untried itself\n"), "%s", out)
}

// Nc may find no program of the image but its shell.
func TestOnlyAShell(t *testing.T) {
	// It reaches everything.
	sh, path := shellAnd(t, "nc", `[ $# -gt 1 ] || { echo 'BusyBox: -e PROG'; exit; }
shift 5
exec "$@"`)
	cmd := exec.Command(sh, "-c", reach.Attempts("192.0.2.1 443"))
	cmd.Env = []string{"PATH=" + path}
	out, err := cmd.CombinedOutput()
	assert.NilError(t, err, "%s", out)
	assert.Equal(t, string(out), "tried reached 192.0.2.1:443\n")
}
