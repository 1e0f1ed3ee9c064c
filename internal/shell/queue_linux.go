package shell

import (
	"os"
	"syscall"
	"unsafe"

	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
)

const (
	// maxBlock is half of what a FIFO usually holds.
	maxBlock = 32 << 10
	// getPipeSize is F_GETPIPE_SZ, which package syscall does not have.
	getPipeSize = 1032
)

// blockNow returns a function that makes a block of operations in a FIFO that the
// supervisor reads: a whole one, or none. It is nil if f is.
func blockNow(f *os.File, prefix string) func(ops []byte) bool {
	if f == nil {
		return nil
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	most := 0
	raw.Control(func(fd uintptr) {
		// There are smaller ones, of a user who has many.
		size, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, getPipeSize, 0)
		if errno == 0 {
			most = min(int(size), maxBlock)
		}
	})
	return func(ops []byte) (whole bool) {
		if len(ops) > most {
			return false
		}
		block := shellwire.Block(prefix, ops)
		if block == nil || len(block) > most {
			return false
		}
		raw.Control(func(fd uintptr) {
			// Behind another block, or a part of one, it could be read with that.
			var unread int32
			_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCINQ, uintptr(unsafe.Pointer(&unread)))
			if errno == 0 && unread == 0 {
				n, _ := syscall.Write(int(fd), block)
				whole = n == len(block)
			}
		})
		return whole
	}
}
