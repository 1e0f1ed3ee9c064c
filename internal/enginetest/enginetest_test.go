package enginetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestEveryKindOfLeftoverIsSeen(t *testing.T) {
	Check(t)
	dir := t.TempDir()
	before := look(dir, nil)

	file, err := os.Create(filepath.Join(dir, "file"))
	assert.NilError(t, err)
	defer file.Close()
	end := make(chan struct{})
	defer close(end)
	go func() { <-end }()
	child := exec.Command(os.Args[0], "-test.run=^$")
	stdin, err := child.StdinPipe()
	assert.NilError(t, err)
	assert.NilError(t, child.Start())
	defer child.Wait()
	defer stdin.Close()

	var left []string
	for what := range look(dir, nil) {
		if _, ok := before[what]; !ok {
			left = append(left, strings.Fields(what)[0])
		}
	}
	slices.Sort(left)
	want := []string{"file", "goroutine"}
	if runtime.GOOS == "linux" {
		// The open file, the child's pipe and the handle by which it is waited for.
		want = []string{"descriptor", "descriptor", "descriptor", "file", "goroutine", "process"}
	}
	assert.DeepEqual(t, left, want)
}

func TestContainersOfThisTestAreSeenAndRemoved(t *testing.T) {
	Run(t, func(t *testing.T, e Engine) {
		args := []string{"create", "--network=none", "--name=cofferdam-enginetest-" + filepath.Base(os.Getenv("TMPDIR"))}
		for k, v := range e.Labels {
			args = append(args, "--label="+k+"="+v)
		}
		list(e, append(args, "--", e.Image, "true")...)
		assert.Equal(t, len(ourContainers(e)), 1)
		removeContainers([]Engine{e})
		assert.Equal(t, len(ourContainers(e)), 0)
	})
}

// The library's tests and its demonstration rest on these tools, whichever image was found.
func TestImageHoldsWhatSessionsNeed(t *testing.T) {
	Run(t, func(t *testing.T, e Engine) {
		const script = `
			for tool in mkfifo cp chmod rm dd python3; do command -v "$tool" >/dev/null || echo "no $tool"; done
			[ ! -e /workspace ] || echo "/workspace exists"
			[ -k /tmp ] || echo "/tmp is not for everybody"
			echo done`
		args := []string{"run", "--rm", "--pull=never", "--network=none", "--", e.Image, "sh", "-c", script}
		assert.DeepEqual(t, list(e, args...), []string{"done"})
	})
}
