package mountguard

import (
	"fmt"
	"os"
	"syscall"

	"github.com/seed-64a260eb/cofferdam/internal/mountinfo"
)

// oPath opens a file for its place alone, which takes no right to read it. Package
// syscall does not have it.
const oPath = 0x200000

// Origin returns what a directory of this machine is to the kernel, as [OriginInside]
// does for what a container sees, or nothing if that is not known.
func Origin(dir string) string {
	fd, err := syscall.Open(dir, oPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer syscall.Close(fd)
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return ""
	}
	info, _ := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	table, _ := os.ReadFile("/proc/self/mountinfo")
	id := mountinfo.ID(string(info))
	if id == "" {
		return ""
	}
	return originIn(string(table), id, name)
}
