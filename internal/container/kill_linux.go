package container

import (
	"context"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// The numbers of two system calls on all processors but MIPS.
const (
	pidfdSendSignal = 424
	pidfdOpen       = 434
)

// kill kills process 1, and with it all that is in its process namespace, if this program
// may. Where code inside has made it run only when nothing else does, it would not come
// to its end: so it is favored again. ctx bounds the search for what was frozen.
func (p FirstProcess) kill(ctx context.Context) {
	p.hold(func(fd uintptr) {
		// What runs as it should is left alone, so that nothing of another is changed
		// that may get the number in this moment.
		stat := string(readInto(make([]byte, 4<<10), "/proc/"+strconv.Itoa(p.PID)+"/stat"))
		nice, policy := statField(stat, 19), statField(stat, 41)
		if policy != "0" || nice != "0" && !strings.HasPrefix(nice, "-") {
			p.raise()
		}
		_, _, errno := syscall.Syscall6(pidfdSendSignal, fd, uintptr(syscall.SIGKILL), 0, 0, 0, 0)
		if errno == 0 {
			p.lift()
		}
		p.thaw(ctx)
	})
}

// favor has process 1 preferred to the others that want the container's processor, if
// this program may. Hundreds of others could otherwise hold it up for many seconds when
// its stdin has ended. The container's share of the machine stays the same.
func (p FirstProcess) favor() { p.hold(func(uintptr) { p.raise() }) }

// hold calls f with a descriptor of process 1, if it is still there. It looks at the
// process once it has the descriptor: a number that is used again is that of another.
//
// On MIPS there are no system calls of these numbers.
func (p FirstProcess) hold(f func(fd uintptr)) {
	fd, _, errno := syscall.Syscall(pidfdOpen, uintptr(p.PID), 0, 0)
	if errno != 0 {
		return
	}
	defer syscall.Close(int(fd))
	if same, ok := readFirst(p.PID, p.Name, make([]byte, 4<<10)); ok && same.Start == p.Start {
		f(fd)
	}
}

// raise gives process 1 the usual scheduling and a higher priority, of which its children
// inherit nothing. Only root may. The calls take a number, so the process must have been
// looked at just before.
//
// The kernel gives each step of niceness a quarter more of the processor. With the
// highest priority a child for which process 1 waits, without sleeping, would come to
// nothing where they share one processor.
func (p FirstProcess) raise() {
	const (
		resetOnFork = 0x40000000 // SCHED_RESET_ON_FORK, beside SCHED_OTHER, which is 0
		niceness    = -10
	)
	var priority int32
	syscall.Syscall(syscall.SYS_SCHED_SETSCHEDULER, uintptr(p.PID), resetOnFork, uintptr(unsafe.Pointer(&priority)))
	syscall.Setpriority(syscall.PRIO_PROCESS, p.PID, niceness)
}
