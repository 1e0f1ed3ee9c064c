package enginetest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

func TestContainersOfThisTestAreSeenAndRemoved(t *testing.T) {
	RunOnAll(t, func(t *testing.T, e Engine) {
		args := []string{"create", "--network=none", "--name=cofferdam-enginetest-" + filepath.Base(os.Getenv("TMPDIR"))}
		for k, v := range e.Labels {
			args = append(args, "--label="+k+"="+v)
		}
		e.labeled().List(append(args, "--", e.Image, "true")...)
		assert.Equal(t, len(e.labeled().Containers()), 1)
		e.labeled().Remove()
		assert.Equal(t, len(e.labeled().Containers()), 0)
	})
}

// The library's tests and its demonstration rest on these tools, whichever image was
// found.
func TestImageHoldsWhatSessionsNeed(t *testing.T) {
	RunOnAll(t, func(t *testing.T, e Engine) {
		const script = `
			for tool in mkfifo cp chmod rm dd python3; do command -v "$tool" >/dev/null || echo "no $tool"; done
			[ ! -e /workspace ] || echo "/workspace exists"
			[ -k /tmp ] || echo "/tmp is not for everybody"
			echo done`
		args := []string{"run", "--rm", "--pull=never", "--network=none", "--", e.Image, "sh", "-c", script}
		assert.DeepEqual(t, e.labeled().List(args...), []string{"done"})
	})
}

// A test always gets the same one of all, and not every test the same.
func TestPick(t *testing.T) {
	const all = 3
	found := map[int]bool{}
	for i := range 100 {
		name := fmt.Sprint("Test", i)
		one := pick(name, all)
		assert.Equal(t, pick(name, all), one)
		found[one] = true
	}
	assert.Equal(t, len(found), all)
}

// What is chosen in a subtest does not follow from what its test has chosen.
func TestPickInSubtests(t *testing.T) {
	engines := []string{"docker", "podman"}
	found := map[[2]int]bool{}
	for i := range 100 {
		name := fmt.Sprint("Test", i)
		engine := pick(name, len(engines))
		found[[2]int{engine, pick(name+"/"+engines[engine], 2)}] = true
	}
	assert.Equal(t, len(found), 4)
}
