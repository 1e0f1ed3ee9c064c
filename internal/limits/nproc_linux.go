package limits

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// maxProcesses returns how many processes of one user podman may allow: it lowers its own
// limit to the number of process ids there are.
func maxProcesses() uint64 {
	const rlimitNproc = 6 // which package syscall does not name
	var l syscall.Rlimit
	text, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if err != nil || syscall.Getrlimit(rlimitNproc, &l) != nil {
		return everywhere
	}
	ids, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return everywhere
	}
	return min(l.Max, ids)
}
