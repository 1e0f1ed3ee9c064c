package remote_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/owner"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/private"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/remote"
)

func TestMain(m *testing.M) {
	owner.Main(own)
	os.Exit(m.Run())
}

func own(way string) error {
	e, err := remote.Start(context.Background(), way, io.Discard)
	if err != nil {
		return err
	}
	return exec.Command(e.Client, "run", "--detach", "--network=none", "--", e.Image(), "sh", "-c", "exec "+sleep).Run()
}

// patience is for what takes a moment on an idle machine.
const patience = time.Minute

// start starts an engine, or skips the test where there can be none.
func start(t *testing.T, way string) *remote.Engine {
	t.Helper()
	begin := time.Now()
	e, err := remote.Start(t.Context(), way, os.Stderr)
	if errors.Is(err, errors.ErrUnsupported) {
		leftout.Skip(t, "%v", err)
	}
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, e.Close()) })
	t.Logf("started within %v", time.Since(begin).Round(time.Millisecond))
	return e
}

// client returns a run of a client, which is killed if it hangs.
func client(t *testing.T, program string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.WaitDelay = time.Second
	return cmd
}

func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := client(t, program, args...).CombinedOutput()
	assert.NilError(t, err, "%q: %s", args, out)
	return strings.TrimSpace(string(out))
}

func TestEveryWayLeadsToAnEngine(t *testing.T) {
	for _, way := range remote.Ways {
		t.Run(way, func(t *testing.T) {
			enginetest.Check(t)
			e := start(t, way)
			assert.Assert(t, e.Engine().Remote)
			hello := []string{"run", "--rm", "--pull=never", "--network=none", "--", e.Image(), "echo", "hello"}
			assert.Equal(t, run(t, e.Client, hello...), "hello")

			if way == "docker-tls" {
				out, err := client(t, "docker", "--host=tcp://"+e.Link.Address(), "ps").CombinedOutput()
				assert.Assert(t, err != nil, "somebody without a certificate: %s", out)
			}
			// So does the machine's own client, with nothing but these variables.
			for _, v := range e.Chosen {
				name, value, _ := strings.Cut(v, "=")
				t.Setenv(name, value)
			}
			found, err := dockercli.Find(t.Context())
			assert.NilError(t, err)
			assert.Assert(t, found.Remote && found.ChosenBy != "" && found.Path != e.Client, "%v", found)
			assert.Equal(t, run(t, found.Path, hello...), "hello")
		})
	}
}

// A link that is cut holds up what goes over it, and says nothing to either end.
func TestLink(t *testing.T) {
	enginetest.Check(t)
	e := start(t, "docker-tls")
	began := func(cmd *exec.Cmd) chan error {
		t.Helper()
		assert.NilError(t, cmd.Start())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		return ended
	}
	e.Link.Cut()
	ended := began(client(t, e.Client, "ps"))
	select {
	case err := <-ended:
		t.Errorf("the client ended: %v", err)
	case <-time.After(time.Second / 2):
	}
	e.Link.Mend()
	assert.NilError(t, <-ended)

	cmd := client(t, e.Client, "run", "--rm", "-i", "--pull=never", "--network=none", "--", e.Image(), "sh", "-c", "echo up; cat")
	stdin, err := cmd.StdinPipe()
	assert.NilError(t, err)
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	assert.NilError(t, err)
	assert.NilError(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	assert.NilError(t, err)
	assert.Equal(t, line, "up\n")
	e.Link.Break()
	assert.Assert(t, cmd.Wait() != nil)
	run(t, e.Client, "ps")
}

// within returns the command lines of a process namespace, and of the owner's container,
// which has one of its own.
func within(namespace string) (lines []string) {
	links, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
	for _, link := range links {
		cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "../cmdline"))
		line := strings.ReplaceAll(string(cmdline), "\x00", " ")
		if target, _ := os.Readlink(link); target == namespace || line == sleep+" " {
			lines = append(lines, line)
		}
	}
	return lines
}

// sleep is what the owner's container runs, and no other.
const sleep = "sleep 4863"

// Whatever happens to the program, nothing of its engine runs on.
func TestEngineEndsWithItsProgram(t *testing.T) {
	for _, way := range []string{"docker-ssh", "podman-ssh"} {
		t.Run(way, func(t *testing.T) {
			enginetest.Check(t)
			temp, err := os.MkdirTemp("", "o-")
			assert.NilError(t, err)
			defer os.RemoveAll(temp)
			namespace, kill := owner.Start(t, way, temp)
			defer kill()
			var lines []string
			poll.WaitOn(t, func(poll.LogT) poll.Result {
				lines = within(namespace)
				for _, what := range []string{"sshd", sleep} {
					if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, what) }) {
						return poll.Continue("there is no %s: %q", what, lines)
					}
				}
				return poll.Success()
			}, poll.WithTimeout(patience), poll.WithDelay(10*time.Millisecond))
			kill()
			poll.WaitOn(t, func(poll.LogT) poll.Result {
				if left := within(namespace); len(left) > 0 {
					return poll.Continue("left: %q", left)
				}
				return poll.Success()
			}, poll.WithTimeout(patience), poll.WithDelay(10*time.Millisecond))
			left := private.PodmanCgroups(lines)
			if way == "docker-ssh" {
				dirs, err := filepath.Glob(filepath.Join(temp, "engine-*"))
				assert.NilError(t, err)
				left = []string{private.CgroupOf(dirs[0])}
			}
			assert.Assert(t, len(left) > 0)
			assert.NilError(t, private.RemoveCgroups(left...))
		})
	}
}
