package container

import (
	"strconv"
	"syscall"
	"unsafe"
)

// The numbers of two system calls on all processors but MIPS.
const (
	pidfdSendSignal = 424
	pidfdOpen       = 434
)

// kill kills process 1, and with it all that is in its process namespace, if this program
// may. It looks at the process once it holds a descriptor of it: a number that is used
// again is that of another. Where code inside has made it run only when nothing else
// does, it would not come to its end: so its scheduling is made the usual one.
//
// On MIPS there are no system calls of these numbers.
func (p FirstProcess) kill() {
	fd, _, errno := syscall.Syscall(pidfdOpen, uintptr(p.PID), 0, 0)
	if errno != 0 {
		return
	}
	buf := make([]byte, 4<<10)
	if same, ok := readFirst(p.PID, p.Name, buf); ok && same == p {
		// These calls take a number. What has the usual scheduling is left alone, so that
		// they change nothing of another that may get the number in this moment.
		stat := string(readInto(buf, "/proc/"+strconv.Itoa(p.PID)+"/stat"))
		if nice, policy := statField(stat, 19), statField(stat, 41); nice != "0" || policy != "0" {
			var priority int32
			syscall.Syscall(syscall.SYS_SCHED_SETSCHEDULER, uintptr(p.PID), 0, uintptr(unsafe.Pointer(&priority)))
			syscall.Setpriority(syscall.PRIO_PROCESS, p.PID, 0)
		}
		syscall.Syscall6(pidfdSendSignal, fd, uintptr(syscall.SIGKILL), 0, 0, 0, 0)
	}
	syscall.Close(int(fd))
}
