package leftover

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
	dir := t.TempDir()
	before := Look(dir)

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
	for what := range Look(dir) {
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
