package dockercli_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
)

// recorded says what the messages in testdata/recorded mean. Each file is an exit code
// and what a real engine then said to stderr.
var recorded = map[string]error{
	"exec-no-container":           dockercli.ErrNoContainer,
	"exec-not-running":            dockercli.ErrNotRunning,
	"exec-turned-away":            nil,
	"exec-unnegotiated":           nil,
	"info-newuidmap-missing":      dockercli.ErrUserRange,
	"info-newuidmap-unprivileged": dockercli.ErrUserRange,
	"inspect-image-missing":       dockercli.ErrImageMissing,
	"inspect-no-container":        dockercli.ErrNoContainer,
	"kill-no-container":           dockercli.ErrNoContainer,
	"kill-not-running":            dockercli.ErrNotRunning,
	"kill-signal-unknown":         dockercli.ErrArgument,
	"pull-refused":                dockercli.ErrPull,
	"pull-short-name":             dockercli.ErrPull,
	"pull-unresolvable":           dockercli.ErrPull,
	"remote-connection-unknown":   dockercli.ErrEngineDown,
	"remote-no-socket":            dockercli.ErrEngineDown,
	"remote-permission":           dockercli.ErrPermission,
	"remote-refused":              dockercli.ErrEngineDown,
	"rm-in-progress":              dockercli.ErrRemoving,
	"rm-no-container":             dockercli.ErrNoContainer,
	"rm-no-container-unforced":    dockercli.ErrNoContainer,
	"run-capability-unknown":      dockercli.ErrArgument,
	"run-command-directory":       dockercli.ErrNoCommand,
	"run-command-missing":         dockercli.ErrNoCommand,
	"run-command-path-missing":    dockercli.ErrNoCommand,
	"run-connection-lost":         dockercli.ErrEngineDown,
	"run-context-unknown":         dockercli.ErrEngineDown,
	"run-exec-format":             dockercli.ErrNoCommand,
	"run-log-driver":              dockercli.ErrArgument,
	"run-rootless-down":           dockercli.ErrEngineDown,
	"run-flag-unknown":            dockercli.ErrArgument,
	"run-pid-mode-unknown":        dockercli.ErrArgument,
	"run-flag-value":              dockercli.ErrArgument,
	"run-gpus":                    dockercli.ErrArgument,
	"run-host-unresolvable":       dockercli.ErrEngineDown,
	"run-hostname-long":           dockercli.ErrArgument,
	"run-image-missing":           dockercli.ErrImageMissing,
	"run-image-missing-short":     dockercli.ErrImageMissing,
	"run-keep-id-without-range":   dockercli.ErrUserRange,
	"run-memory-small":            dockercli.ErrArgument,
	"run-memory-value":            dockercli.ErrArgument,
	"run-mount-field":             dockercli.ErrArgument,
	"run-mount-file-on-directory": dockercli.ErrArgument,
	"run-mount-source":            dockercli.ErrArgument,
	"run-mount-target":            dockercli.ErrArgument,
	"run-name-in-use":             dockercli.ErrNameInUse,
	"run-name-invalid":            dockercli.ErrArgument,
	"run-network-unknown":         dockercli.ErrArgument,
	"run-no-command":              dockercli.ErrNoCommand,
	"run-no-socket":               dockercli.ErrEngineDown,
	"run-permission":              dockercli.ErrPermission,
	"run-platform":                dockercli.ErrImageMissing,
	"run-pull-unresolvable":       dockercli.ErrPull,
	"run-reference":               dockercli.ErrArgument,
	"run-reference-upper":         dockercli.ErrArgument,
	"run-runtime-unknown":         dockercli.ErrRuntime,
	"run-seccomp-action":          dockercli.ErrArgument,
	"run-seccomp-arch":            dockercli.ErrArgument,
	"run-seccomp-missing":         dockercli.ErrArgument,
	"run-seccomp-syntax":          dockercli.ErrArgument,
	"run-seccomp-type":            dockercli.ErrArgument,
	"run-ssh-refused":             dockercli.ErrEngineDown,
	"run-tcp-refused":             dockercli.ErrEngineDown,
	"run-ulimit":                  dockercli.ErrArgument,
	"run-ulimit-unprivileged":     dockercli.ErrRuntime,
	"run-user-out-of-range":       dockercli.ErrUserRange,
	"run-user-unknown":            dockercli.ErrArgument,
	"run-workdir-missing":         dockercli.ErrArgument,
	"run-workdir-relative":        dockercli.ErrArgument,
	"run-volume-missing":          dockercli.ErrNoVolume,
	"volume-create-exists":        dockercli.ErrVolumeExists,
	"volume-inspect-missing":      dockercli.ErrNoVolume,
	"volume-rm-in-use":            dockercli.ErrVolumeInUse,
	"volume-rm-missing":           dockercli.ErrNoVolume,
	"version-no-socket":           dockercli.ErrEngineDown,
	"version-permission":          dockercli.ErrPermission,
}

// readRecorded returns the exit code and the message of a recording.
func readRecorded(t *testing.T, file string) (int, []byte) {
	t.Helper()
	text, err := os.ReadFile(file)
	assert.NilError(t, err)
	first, stderr, _ := strings.Cut(string(text), "\n")
	exit, err := strconv.Atoi(strings.TrimPrefix(first, "exit "))
	assert.NilError(t, err)
	return exit, []byte(stderr)
}

func recordings(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/recorded/*.txt")
	assert.NilError(t, err)
	assert.Assert(t, len(files) > 0)
	return files
}

// caseOf returns a recording's name without its engine.
func caseOf(file string) string {
	_, name, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".txt"), "-")
	return name
}

func TestClassifyRecorded(t *testing.T) {
	seen := map[string]bool{}
	for _, file := range recordings(t) {
		name := caseOf(file)
		seen[name] = true
		want, ok := recorded[name]
		assert.Check(t, ok, "%s: nothing says what it means", file)
		_, stderr := readRecorded(t, file)
		assert.Check(t, errors.Is(dockercli.Classify(stderr), want), "%s: %v, not %v", file, dockercli.Classify(stderr), want)
	}
	for name := range recorded {
		assert.Check(t, seen[name], "%s: it has no recording", name)
	}
}

// A client that never reached its engine has asked it for nothing.
func TestUnreachedRecorded(t *testing.T) {
	want := []string{
		"remote-connection-unknown", "remote-no-socket", "remote-permission", "remote-refused",
		"run-context-unknown", "run-host-unresolvable",
		"run-no-socket", "run-permission", "run-rootless-down", "run-ssh-refused", "run-tcp-refused", "version-no-socket", "version-permission",
	}
	for _, file := range recordings(t) {
		exit, stderr := readRecorded(t, file)
		err := dockercli.NewRunError([]string{"docker", "run"}, exit, stderr, nil)
		assert.Check(t, err.Unreached() == slices.Contains(want, caseOf(file)), "%s", file)
	}
	cut := dockercli.NewRunError([]string{"docker", "run"}, -1, []byte("Cannot connect to the Docker daemon"),
		context.Canceled)
	assert.Assert(t, !cut.Unreached())
}

// An ssh server that turns docker's client away shows in one of two ways.
func TestTurnedAwayRecorded(t *testing.T) {
	for _, file := range recordings(t) {
		exit, stderr := readRecorded(t, file)
		err := dockercli.NewRunError([]string{"docker", "exec"}, exit, stderr, nil)
		assert.Check(t, err.TurnedAway() == (caseOf(file) == "exec-turned-away"), "%s", file)
		assert.Check(t, err.Unnegotiated() == (caseOf(file) == "exec-unnegotiated"), "%s", file)
	}
}

// A row that no message needs would only get in the way of the others.
func TestEveryRowIsNeeded(t *testing.T) {
	// Docker's client says this since version 29.
	texts := []string{"failed to connect to the docker API at unix:///run/docker.sock; check if the path is " +
		"correct and if the daemon is running: " +
		"dial unix /run/docker.sock: connect: no such file or directory"}
	// Containerd says these of a container that has just ended, and docker's client
	// prints them to stdout.
	texts = append(texts, "cannot exec in a stopped state: unknown", "cannot exec in a deleted state: unknown")
	texts = slices.AppendSeq(texts, maps.Keys(desktops))
	for _, file := range recordings(t) {
		_, stderr := readRecorded(t, file)
		texts = append(texts, string(stderr))
	}
	for i := range dockercli.ClassCount() {
		used := false
		for _, text := range texts {
			all := true
			for _, words := range dockercli.ClassWords(i) {
				all = all && strings.Contains(strings.ToLower(text), words)
			}
			used = used || all
		}
		assert.Check(t, used, "no recorded message has %q", dockercli.ClassWords(i))
	}
}

func TestClassifyUnknown(t *testing.T) {
	for _, text := range []string{"", "\n", "Error: something new", "hello"} {
		assert.NilError(t, dockercli.Classify([]byte(text)))
	}
}

func TestErrorText(t *testing.T) {
	for _, name := range []string{"nerdctl-run-name-in-use", "docker-run-image-missing", "docker-run-permission", "docker-run-flag-unknown",
		"podman-remote-no-socket", "podman-run-pull-unresolvable", "podman-info-newuidmap-missing"} {
		t.Run(name, func(t *testing.T) {
			exit, stderr := readRecorded(t, "testdata/recorded/"+name+".txt")
			err := dockercli.NewRunError([]string{"docker", "run"}, exit, stderr, nil)
			golden.Assert(t, err.Error()+"\n", "errors/"+name+".txt")
		})
	}
}

func TestErrorHidesValues(t *testing.T) {
	err := dockercli.NewRunError([]string{"docker", "run", "-e", "TOKEN=hunter2", "--", "image"}, 125,
		[]byte("Error: unknown flag"), nil)
	assert.Equal(t, err.Command, "docker run -e 'TOKEN=***' -- image")
	assert.Assert(t, !strings.Contains(err.Error(), "hunter2"))
}

func TestErrorUnwraps(t *testing.T) {
	cause := errors.New("enough")
	err := dockercli.NewRunError([]string{"docker"}, -1, nil, cause)
	assert.ErrorIs(t, err, cause)
	assert.Assert(t, err.Class == nil)
	assert.Error(t, err, "run: the client was ended: enough")

	err = dockercli.NewRunError([]string{"docker"}, -1, nil, context.DeadlineExceeded)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorIs(t, err, dockercli.ErrEngineDown)

	err = dockercli.NewRunError([]string{"docker"}, 3, []byte("what?"), nil)
	assert.Equal(t, len(err.Unwrap()), 0)
	assert.Error(t, err, "run: the client exited with 3: what?")
}

func TestErrorIsBounded(t *testing.T) {
	stderr := []byte("first " + strings.Repeat("x", 1<<20) + " No such image: last")
	err := dockercli.NewRunError([]string{"docker"}, 125, stderr, nil)
	assert.ErrorIs(t, err, dockercli.ErrImageMissing)
	assert.Equal(t, len(err.Stderr), 4<<10)
	assert.Assert(t, strings.HasPrefix(err.Stderr, "first ") && strings.HasSuffix(err.Stderr, "last"))
}

func FuzzClassify(f *testing.F) {
	f.Add([]byte("Error: no such container"))
	f.Fuzz(func(t *testing.T, stderr []byte) {
		err := dockercli.NewRunError([]string{"docker"}, 125, stderr, nil)
		assert.Assert(t, strings.HasPrefix(err.Error(), "run: "))
		assert.Assert(t, len(err.Stderr) <= 4<<10)
	})
}

// Only what says that nobody listens lets another engine be taken.
func TestNobodyListens(t *testing.T) {
	for _, file := range recordings(t) {
		_, stderr := readRecorded(t, file)
		var want bool
		switch filepath.Base(file) {
		case "docker-run-no-socket.txt", "docker-run-tcp-refused.txt", "docker-version-no-socket.txt":
			want = true
		}
		assert.Equal(t, dockercli.NobodyListens(string(stderr)), want, file)
	}
}
