package execpolicy

import (
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
)

// A Usage is what a command has used of the processor and of memory, by the kernel's
// counts. A number that is not known is -1, and never 0.
//
// The kernel counts for the whole container. So what background jobs of earlier commands
// use while a command runs is part of the Usage of that command. What its own jobs use
// after it has ended is not. The session's shell is part of it, and so is the library
// itself, with about half a millisecond of processor time.
//
// Nothing is known under a [HostPolicy], if the command was not sent, if the container
// ended with it, or if the container does not see its own control group: with a rootless
// engine on cgroup v1, and with an allowed --pid=host. The memory is not known on version
// 2 before Linux 5.19.
//
// Code inside can't change the kernel's counts, nor what process 1 of the container reads
// of them. But process 1 tells them on the streams on which commands print. Code that has
// found the library's marks there can forge its words, and with them every number here.
// Code can also leave its work to a background job. Where that matters, give the code a
// session of its own, and limit what it can use by [DockerPolicy.CPUs],
// [DockerPolicy.MemoryBytes] and [Limits.Lifetime], which it can't evade.
type Usage struct {
	// CPU is the processor time that the container took while the command ran, in
	// programs and in the kernel, on all processors together.
	CPU time.Duration
	// PeakBefore is the container's peak of memory, in bytes, when the command began, and
	// PeakAfter when it had ended. If PeakAfter is larger, the container reached it while
	// the command ran. If they are equal, it had no more than that meanwhile. The kernel
	// counts what programs have allocated, what it keeps of the files that they read and
	// wrote, and files in a tmpfs such as /tmp.
	PeakBefore, PeakAfter int64
}

// newUsage returns what a look has told.
func newUsage(counts string) *Usage {
	u := new(Usage)
	u.CPU, u.PeakBefore, u.PeakAfter = shellwire.ParseCounts(counts)
	return u
}
