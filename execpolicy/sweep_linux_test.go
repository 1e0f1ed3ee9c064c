package execpolicy_test

import (
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
)

func init() {
	programs["headless"] = loseHead
	if strings.Contains(os.Getenv(programVar), `"headless"`) {
		runtime.LockOSThread() // main runs on the process's first thread
	}
}

// systemCases are processes that take system calls to make.
func systemCases(t *testing.T) []sweepCase {
	headless := startProgram(t, program{Name: "headless"}, nil)
	wait(t, func() bool { return leftover.StatOf(headless.Process.Pid)[2] == "Z" }, "its first thread lives")
	pid, start := strconv.Itoa(headless.Process.Pid), leftover.StartOf(headless.Process.Pid)
	return []sweepCase{{name: "only the first thread is dead", change: func(l map[string]string) {
		l["cofferdam.pid"], l["cofferdam.pid-start"] = pid, start
	}}}
}

// loseHead ends the process's first thread, so that the process looks like a zombie, and
// lives on in the others.
func loseHead(program) {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
}
