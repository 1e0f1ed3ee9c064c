//go:build linux

package execpolicy_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"
)

// stop stops an engine's client that this test has started, and nothing passes it until it is resumed.
func stop(t *testing.T, client *os.Process) {
	t.Helper()
	assert.NilError(t, client.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { client.Signal(syscall.SIGCONT) })
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		threads, err := filepath.Glob("/proc/" + strconv.Itoa(client.Pid) + "/task/*/stat")
		if err != nil || len(threads) == 0 {
			return poll.Error(err)
		}
		for _, file := range threads {
			stat, _ := os.ReadFile(file)
			if !strings.HasPrefix(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " T") {
				return poll.Continue("%s: %s", file, stat)
			}
		}
		return poll.Success()
	})
}

func resume(t *testing.T, client *os.Process) {
	t.Helper()
	assert.NilError(t, client.Signal(syscall.SIGCONT))
}

// longScript returns 1 MiB that does what the script does: more than all the pipes up to the shell hold.
func longScript(script string) string {
	return strings.Repeat(": "+strings.Repeat("x", 125)+"\n", 1<<13) + script
}
