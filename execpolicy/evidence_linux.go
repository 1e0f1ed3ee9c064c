package execpolicy

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// findFirst returns process 1 of the container whose supervisor has that name for the
// last word of its command line. It looks at the processes with a number above that of
// the client, which started it, before it looks at the others.
//
// It must be called before anything that nobody trusts runs inside: whoever may make
// namespaces can make another process 1 with such a command line.
func findFirst(name string, client int) firstProcess {
	if !ownProc() {
		return firstProcess{}
	}
	proc, err := os.Open("/proc")
	if err != nil {
		return firstProcess{}
	}
	defer proc.Close()
	entries, _ := proc.Readdirnames(-1)
	var older []string
	buf := make([]byte, 4<<10)
	for _, entry := range entries {
		switch pid, err := strconv.Atoi(entry); {
		case err != nil:
		case pid <= client:
			older = append(older, entry)
		default:
			if p, ok := readFirst(pid, name, buf); ok {
				return p
			}
		}
	}
	for _, entry := range older {
		pid, _ := strconv.Atoi(entry)
		if p, ok := readFirst(pid, name, buf); ok {
			return p
		}
	}
	return firstProcess{}
}

// readFirst returns the process of that number if it is process 1 of a namespace below
// this one, with that last word.
func readFirst(pid int, name string, buf []byte) (firstProcess, bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	if !bytes.HasSuffix(readInto(buf, dir+"/cmdline"), []byte("\x00"+name+"\x00")) {
		return firstProcess{}, false
	}
	// The last of the numbers is that in the process's own namespace.
	numbers := nsPIDs(string(readInto(buf, dir+"/status")))
	if len(numbers) < 2 || numbers[len(numbers)-1] != "1" {
		return firstProcess{}, false
	}
	start, err := strconv.ParseUint(statField(string(readInto(buf, dir+"/stat")), 22), 10, 64)
	return firstProcess{pid, start}, err == nil
}

// The numbers of two system calls on all processors but MIPS.
const (
	pidfdSendSignal = 424
	pidfdOpen       = 434
)

// kill kills process 1 of the container with that name, and with it all that is in its
// process namespace, if this program may. It looks at the process once it holds a
// descriptor of it: a number that is used again is that of another. Where code inside has
// made it run only when nothing else does, it would not come to its end: so its scheduling
// is made the usual one.
//
// On MIPS there are no system calls of these numbers.
func (p firstProcess) kill(name string) {
	fd, _, errno := syscall.Syscall(pidfdOpen, uintptr(p.pid), 0, 0)
	if errno != 0 {
		return
	}
	if same, ok := readFirst(p.pid, name, make([]byte, 4<<10)); ok && same == p {
		var priority int32
		syscall.Syscall(syscall.SYS_SCHED_SETSCHEDULER, uintptr(p.pid), 0, uintptr(unsafe.Pointer(&priority)))
		syscall.Setpriority(syscall.PRIO_PROCESS, p.pid, 0)
		syscall.Syscall6(pidfdSendSignal, fd, uintptr(syscall.SIGKILL), 0, 0, 0, 0)
	}
	syscall.Close(int(fd))
}

// readInto reads as much of a file of /proc as buf holds. An os.File would take three
// times as long.
func readInto(buf []byte, path string) []byte {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	n, err := syscall.Read(fd, buf)
	syscall.Close(fd)
	if err != nil {
		return nil
	}
	return buf[:n]
}

// nsPIDs returns a process's number in every namespace from that of /proc down to its
// own, from its /proc/PID/status.
func nsPIDs(status string) []string {
	_, rest, _ := strings.Cut(status, "\nNSpid:")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.Fields(line)
}
