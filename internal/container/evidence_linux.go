package container

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// FindFirst returns process 1 of the container whose supervisor has that name for the
// last word of its command line. It looks at the processes with a number above that of
// the client, which started it, before it looks at the others.
//
// It must be called before anything that nobody trusts runs inside: whoever may make
// namespaces can make another process 1 with such a command line.
func FindFirst(name string, client int) FirstProcess {
	if !ownProc() {
		return FirstProcess{}
	}
	proc, err := os.Open("/proc")
	if err != nil {
		return FirstProcess{}
	}
	defer proc.Close()
	entries, _ := proc.Readdirnames(-1)
	buf := make([]byte, 4<<10)
	for _, above := range []bool{true, false} {
		for _, entry := range entries {
			pid, err := strconv.Atoi(entry)
			if err != nil || (pid > client) != above {
				continue
			}
			if p, ok := readFirst(pid, name, buf); ok {
				p.Freezer, p.Quota = groups(entry, buf)
				return p
			}
		}
	}
	return FirstProcess{}
}

// readFirst returns the process of that number if it is process 1 of a namespace below
// this one, runs a supervisor's program, and has that last word. Others may have the
// word: a client that asks an engine for the container of that name, in a container of
// its own.
func readFirst(pid int, name string, buf []byte) (FirstProcess, bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	cmdline := string(readInto(buf, dir+"/cmdline"))
	if !strings.HasPrefix(cmdline, ScratchDir+"/sh\x00") || !strings.HasSuffix(cmdline, "\x00"+name+"\x00") {
		return FirstProcess{}, false
	}
	// The last of the numbers is that in the process's own namespace.
	numbers := nsPIDs(string(readInto(buf, dir+"/status")))
	if len(numbers) < 2 || numbers[len(numbers)-1] != "1" {
		return FirstProcess{}, false
	}
	start, err := strconv.ParseUint(statField(string(readInto(buf, dir+"/stat")), 22), 10, 64)
	return FirstProcess{Name: name, PID: pid, Start: start}, err == nil
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

// ended reports whether it is proven that the process which had that number, and started
// at that tick, has ended. If in doubt it has not.
func ended(pid int, start uint64) bool {
	// Signal 0 is only asked after. It finds also those that /proc hides from other
	// users.
	if err := syscall.Kill(pid, 0); err != nil && err != syscall.EPERM {
		return err == syscall.ESRCH
	}
	if !ownProc() {
		return false
	}
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	stat := string(data)
	now, err := strconv.ParseUint(statField(stat, 22), 10, 64)
	if err != nil {
		return false
	}
	// A zombie has no memory and no descriptors any more, and may stay for as long as its
	// parent does not care. But it may be only the first of a program's threads that has
	// ended.
	zombie := statField(stat, 3) == "Z" && statField(stat, 20) == "1"
	return now != start || zombie
}

// ownProc reports whether the numbers in /proc are those of this program's process
// namespace. A namespace that was made without a mount of its own has its parent's.
func ownProc() bool {
	status, _ := os.ReadFile("/proc/self/status")
	return len(nsPIDs(string(status))) == 1
}
