//go:build linux || (darwin && !ios)

package procgroup

import (
	"syscall"
	"unsafe"
)

// From sys/wait.h; package syscall has the call and its options but not this argument.
const idTypePid = 1

// awaitExit returns true when the child pid has ended, and leaves it a zombie: until it
// is reaped, its number and its group's can't be given to another process. It returns
// false if it can't tell.
func awaitExit(pid int) bool {
	var info [128]byte // at least the size of siginfo_t on every architecture
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, idTypePid, uintptr(pid), uintptr(unsafe.Pointer(&info)),
			syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if errno != syscall.EINTR {
			return errno == 0
		}
	}
}
