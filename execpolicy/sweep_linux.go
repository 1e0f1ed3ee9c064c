package execpolicy

import (
	"os"
	"strconv"
	"syscall"
)

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
