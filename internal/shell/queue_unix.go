//go:build unix

package shell

import (
	"io"
	"os"
	"syscall"
)

// writeNow returns a function that writes as much to w as w takes without waiting, which
// is nothing if that can't be known.
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
	return func(p []byte) (n int) {
		raw.Write(func(fd uintptr) bool {
			n, _ = syscall.Write(int(fd), p)
			return true
		})
		return max(n, 0)
	}
}
