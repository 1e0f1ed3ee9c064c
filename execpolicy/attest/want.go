package attest

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/fifo"
)

// A want is what a policy and a spec ask for, with the defaults of the zero policy in
// place of what is zero.
type want struct {
	network, writableRoot, newPrivileges, devices bool
	caps                                          []string // as the kernel names them, without "CAP_"
	user                                          string   // as the engine is told; empty for that of owners
	owners                                        string   // whose owner the user may be; empty for none
	memory, pids                                  int64
	cpus                                          string
	tmpfs                                         map[string]int64 // the sizes of clean paths
	mounts                                        map[string]bool  // whether each clean path may be written to
	fifos                                         bool             // the session's streams go by FIFOs
	gvisor                                        bool
	filter                                        string   // whose the filter of system calls is
	profile                                       string   // its text; empty if it is the engine's
	docker                                        bool     // the engine is docker's own
	egress                                        []string // what may be reached by the policy's Egress
	unsafe                                        []string // arguments that only AllowUnsafeArgs lets in, and why
}

// The zero policy's, and the directories that a session has of its own.
const (
	zeroMemory   = 512 << 20
	zeroPids     = 256
	zeroCPUs     = "1"
	zeroTmpfs    = 64 << 20
	zeroUser     = "65534:65534"
	zeroShm      = 16 << 20
	workspaceDir = "/workspace"
	scratchDir   = "/.cofferdam"
	fifoDir      = fifo.Target
	fifoSource   = "io" // the last name of fifo.Source
	scratchBytes = 4<<20 + 2*execpolicy.MaxStdin
	// libraryFilter says whose the filter of system calls is.
	libraryFilter = "the library's"
)

func wanted(p execpolicy.DockerPolicy, spec execpolicy.Spec) want {
	w := want{
		network:       p.NetworkEnabled,
		writableRoot:  p.WritableRootfs,
		newPrivileges: p.AllowNewPrivileges,
		devices:       p.GPUs != "" || len(p.Devices) > 0,
		user:          userOf(p.User),
		memory:        p.MemoryBytes,
		pids:          p.PidsLimit,
		cpus:          p.CPUs,
		tmpfs:         map[string]int64{},
		mounts:        map[string]bool{},
		gvisor:        strings.Contains(p.Runtime, "runsc"),
	}
	if e := p.Engine; e != nil {
		w.docker = e.Kind == dockercli.Docker && !e.PodmanService
		w.unsafe = p.UnsafeArgs(e.Kind)
	}
	if p.Egress != nil {
		w.egress, _ = p.Egress.Check() // a policy with a wrong one does not start
	}
	for _, name := range p.AddCapabilities {
		w.caps = append(w.caps, strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(name)), "CAP_"))
	}
	switch {
	case p.EngineSeccomp:
		w.filter = "the engine's"
	case p.SeccompProfile != "":
		w.filter, w.profile = "the caller's", p.SeccompProfile
	default:
		w.filter, w.profile = libraryFilter, execpolicy.DefaultSeccompProfile()
	}
	slices.Sort(w.caps)
	if w.memory == 0 {
		w.memory = zeroMemory
	}
	if w.pids == 0 {
		w.pids = zeroPids
	}
	if w.cpus == "" {
		w.cpus = zeroCPUs
	}
	for dir, size := range p.Tmpfs {
		w.tmpfs[path.Clean(dir)] = size
	}
	if p.Tmpfs == nil {
		w.tmpfs["/tmp"] = zeroTmpfs
	}
	switch {
	case w.user != "":
	case spec.Workspace != "":
		w.owners = "the workspace's"
	case slices.ContainsFunc(p.Mounts, func(m dockercli.Mount) bool { return m.Volume == "" }):
		w.owners = "the mounts'"
	default:
		w.user = zeroUser
	}
	if spec.Workspace != "" {
		w.mounts[workspaceDir] = !p.WorkspaceReadOnly
	} else {
		if _, ok := w.tmpfs[workspaceDir]; !ok {
			w.tmpfs[workspaceDir] = zeroTmpfs
		}
	}
	w.tmpfs[scratchDir] = scratchBytes
	for _, m := range p.Mounts {
		w.mounts[path.Clean(m.Target)] = m.Writable
	}
	return w
}

// userOf returns a policy's user as the engine is told of it: by numbers, if they are
// known, and a number without a group has the group of that number.
func userOf(user string) string {
	name, group, _ := strings.Cut(user, ":")
	id := func(name string) (int, error) {
		if name == "root" {
			return 0, nil
		}
		return strconv.Atoi(name)
	}
	uid, err := id(name)
	gid, groupErr := id(cmp.Or(group, name))
	if err != nil || groupErr != nil {
		return strings.TrimSuffix(user, ":")
	}
	return fmt.Sprintf("%d:%d", uid, gid)
}

// root and rootGroup report whether the policy names root as the user, and its group.
func (w want) root() bool {
	name, _, _ := strings.Cut(w.user, ":")
	return name == "0" || name == "root"
}

func (w want) rootGroup() bool {
	_, group, _ := strings.Cut(w.user, ":")
	return group == "0" || group == "root"
}

// allows reports whether the container may write to a path because the policy says so.
func (w want) allows(name string) bool {
	within := func(dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }
	for dir := range w.tmpfs {
		if within(dir) {
			return true
		}
	}
	for dir, writable := range w.mounts {
		if writable && within(dir) {
			return true
		}
	}
	// What is in these is judged by itself.
	return within("/dev") || within("/proc") || within("/sys")
}

// millionths reads a decimal number, which the policy has checked.
func millionths(s string) int64 {
	whole, part, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(whole+(part + "000000")[:6], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// bytesText returns a size as people write it.
func bytesText(n int64) string {
	for _, unit := range []struct {
		shift int
		name  string
	}{{30, "GiB"}, {20, "MiB"}, {10, "KiB"}} {
		if n >= 1<<unit.shift && n%(1<<unit.shift) == 0 {
			return fmt.Sprintf("%d %s", n>>unit.shift, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
