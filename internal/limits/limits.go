// Package limits bounds what a container takes of its host.
package limits

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/account"
)

// What a policy limits that does not say otherwise.
const (
	Memory = 512 << 20
	CPUs   = "1"
	// Pids lets a build run in parallel, and a walk over that many processes take
	// 60 ms.
	Pids = 256
	// Shm is the size of /dev/shm, and shmBytes the same number.
	Shm      = 16 << 20
	shmBytes = "16m"
	// Tmpfs is the size of a directory in memory.
	Tmpfs = 64 << 20
	// StartupTimeout and Lifetime are a session's.
	StartupTimeout = 30 * time.Second
	Lifetime       = 24 * time.Hour
)

// The least and the most that a policy can ask for.
const (
	// MinMemory is docker's.
	MinMemory    = 6 << 20
	MinPids      = 16
	MinKeepAlive = time.Second
	MaxKeepAlive = 24 * time.Hour
)

// ParseCPUs returns how many thousandths of a processor a text asks for. It has to be a
// decimal number from 0.01, below a million.
func ParseCPUs(text string) (thousandths uint64, ok bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	n, err := strconv.ParseUint("0"+whole+(fraction + "000")[:3], 10, 64)
	return n, err == nil && 10 <= n && n < 1e9 && strings.Trim(fraction, "0123456789") == ""
}

// Wanted is what a policy asks for. What is zero is this package's.
type Wanted struct {
	Memory    int64
	CPUs      string
	CPUShares int64
	Pids      int64
	// HostShm says that /dev/shm may be the host's.
	HostShm bool
}

// Set bounds what the container takes of the host. Its user is chosen.
func Set(o *dockercli.RunOptions, e *dockercli.Engine, w Wanted) {
	pids := cmp.Or(w.Pids, Pids)
	shm := shmBytes
	// No core dumps, and a bound on descriptors.
	ulimits := []string{"core=0:0", "nofile=1024:1024"}
	if e.Kind == dockercli.Podman || e.PodmanService {
		if w.HostShm {
			// Podman takes no size for a /dev/shm that is the host's.
			shm = ""
		}
		// Podman would raise what is not named to what not every host allows. This one is
		// counted over all of a user's containers, so it is as high as it may be:
		// PidsLimit is what bounds the container.
		n := uint64(everywhere)
		if !e.Remote {
			n = maxProcesses()
		}
		// Where the owner's processes outside count too, it may have too many already.
		outside := o.UserNS != "" && o.User != account.Nobody.String() && countsOutside(e.Kernel)
		if CountsByUser(e) && !outside {
			n = min(n, uint64(pids))
		}
		ulimits = append(ulimits, fmt.Sprintf("nproc=%d:%d", n, n))
	}
	o.Memory = strconv.FormatInt(cmp.Or(w.Memory, Memory), 10)
	// The same for both means no swap; otherwise it would be as much again.
	o.MemorySwap = o.Memory
	o.CPUs, o.CPUShares, o.PidsLimit = cmp.Or(w.CPUs, CPUs), w.CPUShares, pids
	// What is missing would be dropped with a warning, or fail the start.
	if e.Lacks(dockercli.LimitMemory) {
		o.Memory, o.MemorySwap = "", ""
	}
	if e.Lacks(dockercli.LimitProcessors) {
		o.CPUs, o.CPUShares = "", 0
	}
	if e.Lacks(dockercli.LimitProcesses) {
		o.PidsLimit = 0
	}
	o.IPC, o.ShmSize, o.Ulimits = "private", shm, ulimits
}

// CountsByUser reports whether the kernel's limit for each user number takes the place of
// PidsLimit.
func CountsByUser(e *dockercli.Engine) bool {
	return e.Lacks(dockercli.LimitProcesses) && e.Kind == dockercli.Podman && !e.Remote
}
