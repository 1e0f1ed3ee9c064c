//go:build unix

package shell

import (
	"io"
	"os"
	"syscall"
)

// writeNow returns a function that writes as much to w as w takes without waiting, which
// is nothing if that can't be known. It is not for calls at the same time.
func writeNow(w io.Writer) func([]byte) int {
	f, ok := w.(*os.File)
	if !ok {
		return func([]byte) int { return 0 }
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return func([]byte) int { return 0 }
	}
	waits := true
	raw.Control(func(fd uintptr) {
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFL, 0)
		waits = errno != 0 || flags&syscall.O_NONBLOCK == 0
	})
	if waits {
		return func([]byte) int { return 0 }
	}
	// One function for all calls: a new one would be allocated for each.
	var data []byte
	var n int
	write := func(fd uintptr) bool {
		n, _ = syscall.Write(int(fd), data)
		return true
	}
	return func(p []byte) int {
		data, n = p, 0
		raw.Write(write)
		data = nil
		return max(n, 0)
	}
}
