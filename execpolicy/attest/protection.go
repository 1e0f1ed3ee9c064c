package attest

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-64a260eb/cofferdam/internal/mountinfo"
	"github.com/seed-64a260eb/cofferdam/internal/outside"
)

// A Protection is one of the things that keep a container apart from its host.
type Protection string

// The protections of the zero policy.
const (
	// NoNetwork means that a container has no route, and no interface but its loopback
	// and those that the kernel puts into every namespace. If the image has bash or
	// Python, it also means that a datagram to an address outside can't be sent. Of a pod
	// it means that no address that was tried has answered. An Egress of the policy is a
	// way out all the same, which the Note says and Report.Egress lists.
	NoNetwork Protection = "no network"
	// ReadOnlyRoot means that the root is mounted read-only, and only what the policy
	// names can be written to.
	ReadOnlyRoot Protection = "read-only root"
	// NoCapabilities means that none of the five sets has a capability that the policy
	// does not name.
	NoCapabilities Protection = "no capabilities"
	// NoNewPrivileges means that set-uid programs have no effect.
	NoNewPrivileges Protection = "no new privileges"
	// Seccomp means that system calls are filtered, by the filter that the policy names
	// as far as that can be seen: podman does not tell the text of a caller's filter.
	// If that is the library's own, it refused every call that was tried.
	Seccomp Protection = "seccomp"
	// User means that the shell runs as the policy's user, which is neither root nor in
	// root's group. A policy that names root does not ask for this protection, and one
	// that names root's group does not ask for the part about the group. The Note names
	// either as a weakness.
	User Protection = "user"
	// MemoryLimit, NoSwap, CPULimit and PidsLimit mean that the limits of the control
	// group are at most those that the policy names. A pod's PidsLimit is the limit of
	// its user's processes (RLIMIT_NPROC), which does not bind root.
	MemoryLimit Protection = "memory limit"
	NoSwap      Protection = "no swap"
	CPULimit    Protection = "cpu limit"
	PidsLimit   Protection = "pids limit"
	// PIDNamespace means that process 1 is the session's own, and it sees no process of
	// the host.
	PIDNamespace Protection = "pid namespace"
	// PrivateIPC means that shared memory is the container's own, and bounded.
	PrivateIPC Protection = "private ipc"
	// TmpfsFlags means that directories in memory have the size that was asked for, and
	// allow no set-uid programs and no devices.
	TmpfsFlags Protection = "tmpfs flags"
	// MaskedProc means that the files in /proc and /sys that tell of the host's kernel
	// are hidden, and its settings are read-only.
	MaskedProc Protection = "masked /proc"
	// NoDevices means that there is no device but those that every container has. Where
	// the rules for devices can't be read, as with cgroups of version 2, only /dev tells.
	NoDevices Protection = "no devices"
	// NoHostMounts means that only the host's directories and files that the policy names
	// are mounted, and read-only where it says so. Whether what is mounted at such a
	// place is what the policy names, is left to the engine.
	NoHostMounts Protection = "no host mounts"
	// Lifeline means that nobody inside can open the memory, the environment or the pipes
	// of process 1, with which the container ends.
	Lifeline Protection = "lifeline"
	// NoUnsafeArgs means that the engine was given no argument that needs
	// AllowUnsafeArgs, and that no effect of such an argument is seen which no other
	// protection covers. Core dumps are such an effect, and Compat allows them too. The
	// Note names each argument, whether or not its effect is seen.
	NoUnsafeArgs Protection = "no unsafe arguments"
)

// The protections that only a pod has. Protections does not list them.
const (
	// NoToken means that the container has no token for the API server, and no secret of
	// the cluster, which may be one.
	NoToken Protection = "no token"
	// NothingInjected means that admission has added no container and no volume that the
	// policy does not name. It is seen from outside alone.
	NothingInjected Protection = "nothing injected"
	// NoContainerLog means that what the container prints is kept nowhere. No policy asks
	// for it, because a node keeps it until the pod is deleted.
	NoContainerLog Protection = "no container log"
	// NoTerminationLog means that there is no file of the node that the container can
	// write to without a limit. No policy asks for it, because every pod has one.
	NoTerminationLog Protection = "no termination log"
)

// limits are those that engines drop in silence.
var limits = []Protection{MemoryLimit, NoSwap, CPULimit, PidsLimit}

// A side is what was seen from one side, and what it means.
type side struct {
	state    State
	evidence string
}

func yes(format string, a ...any) side     { return side{Yes, fmt.Sprintf(format, a...)} }
func no(format string, a ...any) side      { return side{No, fmt.Sprintf(format, a...)} }
func unknown(format string, a ...any) side { return side{Unknown, fmt.Sprintf(format, a...)} }

// either is yes if it is, and else no, with the same evidence.
func either(ok bool, format string, a ...any) side {
	if ok {
		return yes(format, a...)
	}
	return no(format, a...)
}

// A row says what a policy asks for, and how that is seen. asked is empty if it does not
// ask, and inside is nil if nothing can be seen from there.
type row struct {
	name    Protection
	asked   func(want) string
	inside  func(want, *facts) side
	outside func(want, *outside.Settings) side
}

var protections = []row{
	{NoNetwork, askedNetwork, insideNetwork, func(_ want, s *outside.Settings) side {
		return either(s.Network == "none", "network %s", s.Network)
	}},
	{ReadOnlyRoot, unless(func(w want) bool { return w.WritableRoot }, "read-only"), insideRoot, func(_ want, s *outside.Settings) side {
		return either(s.ReadOnly, "read-only %v", s.ReadOnly)
	}},
	{NoCapabilities, askedCaps, insideCaps, outsideCaps},
	{NoNewPrivileges, unless(func(w want) bool { return w.NewPrivileges }, "set"), func(_ want, f *facts) side {
		return f.flag("NoNewPrivs", "1")
	}, outsideNewPrivileges},
	{Seccomp, func(w want) string { return w.Filter }, insideSeccomp, outsideSeccomp},
	{User, askedUser, insideUser, outsideUser},
	{MemoryLimit, func(w want) string { return bytesText(w.Memory) }, insideMemory, func(w want, s *outside.Settings) side {
		return either(s.Memory > 0 && s.Memory <= w.Memory, "%s", limitText(s.Memory, bytesText))
	}},
	{NoSwap, always("none"), insideSwap, func(_ want, s *outside.Settings) side {
		return either(s.MemorySwap > 0 && s.MemorySwap <= s.Memory, "memory and swap %s", limitText(s.MemorySwap, bytesText))
	}},
	{CPULimit, func(w want) string { return w.CPUs }, insideCPU, outsideCPU},
	{PidsLimit, func(w want) string { return strconv.FormatInt(w.Pids, 10) }, insidePids, func(w want, s *outside.Settings) side {
		if s.Pod != nil {
			return unknown("") // a pod has no such field
		}
		return either(s.PidsLimit > 0 && s.PidsLimit <= w.Pids, "%s", limitText(s.PidsLimit, plain))
	}},
	{PIDNamespace, always("its own"), insidePID, func(_ want, s *outside.Settings) side {
		return either(s.PID == "" || s.PID == "private", "%s", cmp.Or(s.PID, "private"))
	}},
	{PrivateIPC, func(w want) string { return "private, " + bytesText(w.Shm) }, insideIPC, func(w want, s *outside.Settings) side {
		// Podman says so of what is private, too.
		return either(s.IPC == "private" || s.IPC == "none" || s.IPC == "shareable" && !w.DockerItself, "%s", s.IPC)
	}},
	{TmpfsFlags, askedTmpfs, insideTmpfs, outsideTmpfs},
	{MaskedProc, always("masked"), insideMasks, outsideMasks},
	{NoDevices, unless(func(w want) bool { return w.Devices }, "none"), insideDevices, func(_ want, s *outside.Settings) side {
		return either(len(s.Devices) == 0 && !s.Privileged, "%s", list(s.Devices))
	}},
	{NoHostMounts, askedMounts, insideMounts, outsideMounts},
	{Lifeline, always("process 1 unreadable"), insideLifeline, func(want, *outside.Settings) side { return unknown("") }},
	{NoUnsafeArgs, always("none"), insideArgs, outsideArgs},
}

// Protections returns the protections of every container, in the order of a report.
func Protections() []Protection { return namesOf(protections) }

// PodProtections returns the protections that only a report of a pod has, in its order.
func PodProtections() []Protection { return namesOf(podProtections) }

func namesOf(rows []row) []Protection {
	names := make([]Protection, len(rows))
	for i, r := range rows {
		names[i] = r.name
	}
	return names
}

// classify compares what is wanted with what was seen from both sides.
func classify(w want, f *facts, s *outside.Settings) []Finding {
	w.GVisor = w.GVisor || strings.Contains(s.Runtime, "runsc")
	var findings []Finding
	rows := protections
	if s.Pod != nil {
		rows = slices.Concat(protections, podProtections)
	}
	for _, p := range rows {
		in, out := unknown("the shell's answer is not whole"), p.outside(w, s)
		switch {
		case p.inside == nil:
			in = unknown("")
			if out.state == Yes {
				in.state = Admitted
			}
		case f.whole:
			in = p.inside(w, f)
		}
		if s.Privileged {
			// It switches nearly everything off, whatever else is asked for.
			out.evidence = "privileged, " + out.evidence
		}
		found := Finding{Protection: p.name, Asked: p.asked(w), InForce: in.state, Inside: printable(in.evidence), Outside: printable(out.evidence)}
		switch {
		case out.state == No && in.state == Yes:
			found.InForce = No
			if p.name != NoUnsafeArgs {
				found.note("the engine contradicts what is seen from inside")
			}
		case out.state == No:
			found.InForce = No
		case in.state == No && out.state == Yes && slices.Contains(limits, p.name):
			found.note("dropped in silence: the engine says that it has set it")
		case in.state == No && out.state == Yes:
			found.note("the engine does not say so")
		case p.name == NoSwap && strings.Contains(in.evidence, "swap accounting is off"):
			found.note("the limit was dropped in silence: swap accounting is off, and swap that the host gets later is not limited")
		}
		if root, group := f.rooted(); p.name == User && (root || group) {
			what := "root's group"
			if root {
				what = "root"
			}
			found.note("a weakness: what runs inside is " + what + ", and has its rights over whatever of the host it can reach, such as a mount")
			if f.userNS {
				found.note("the engine gives it the number of another user there")
			}
		}
		if root, _ := f.rooted(); p.name == Seccomp && root && !f.userNS && !f.cgroup2 && f.calls["user namespaces"] == "allowed" {
			found.note("a weakness: as root, what runs inside can mount the control groups in a user namespace, and freeze the container, process 1 too; " +
				"what is frozen ends only by a removal, or by the guard process on the host")
		}
		if n := len(w.Egress); p.name == NoNetwork && n > 0 {
			found.note(fmt.Sprintf("a weakness: through a proxy outside, what runs inside reaches %d destinations by the policy's Egress", n))
		}
		if p.name == NoUnsafeArgs {
			for _, text := range w.Unsafe {
				found.InForce = No
				found.note("a weakness: " + text)
			}
		}
		if p.name == Lifeline && found.InForce != Yes {
			found.note("what runs inside can keep the container from ending with this program; the second line is the guard process on the host, " +
				"which then removes it")
			if w.GVisor {
				found.note("gVisor keeps process 1 neither unreadable nor from being stopped")
			}
		}
		findings = append(findings, found)
	}
	return findings
}

func always(text string) func(want) string { return func(want) string { return text } }

func unless(off func(want) bool, text string) func(want) string {
	return func(w want) string {
		if off(w) {
			return ""
		}
		return text
	}
}

// list joins words, or says that there are none.
func list(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, " ")
}

func plain(n int64) string { return strconv.FormatInt(n, 10) }

func limitText(n int64, text func(int64) string) string {
	if n <= 0 {
		return "no limit"
	}
	return text(n)
}

// flag judges a field of the status that has one value.
func (f *facts) flag(name, good string) side {
	value := f.status[name]
	if len(value) != 1 {
		return unknown("the kernel does not tell %s", name)
	}
	return either(value[0] == good, "%s %s", name, value[0])
}

// fallback are links that the kernel puts into every network namespace when their modules
// are loaded. They are down.
var fallback = []string{"lo", "sit0", "tunl0", "ip6tnl0", "ip_vti0", "ip6_vti0", "gre0", "gretap0", "erspan0", "ip6gre0", "teql0"}

func askedNetwork(w want) string {
	switch {
	case w.Network:
		return ""
	case w.Pod != nil:
		return "none, by NetworkPolicy " + w.Pod.NetworkPolicy
	}
	return "none"
}

func insideNetwork(w want, f *facts) side {
	if w.Pod != nil {
		return insidePodNetwork(f)
	}
	if !f.read["/proc/net/dev"] || !f.read["/proc/net/route"] {
		return unknown("/proc/net can't be read")
	}
	extra := slices.DeleteFunc(slices.Clone(f.links), func(name string) bool { return slices.Contains(fallback, name) })
	evidence := fmt.Sprintf("links %s, %d routes", list(f.links), len(f.routes))
	if f.reach != "" {
		evidence += ", " + f.reach
	}
	return either(len(extra) == 0 && len(f.routes) == 0 && !strings.HasSuffix(f.reach, ": sent"), "%s", evidence)
}

func insideRoot(w want, f *facts) side {
	root, ok := f.at("/")
	if !ok {
		return unknown("the mounts can't be read")
	}
	if !root.Has("ro") {
		return no("/ %s", list(strings.Split(root.Options, ",")))
	}
	var paths []string
	for _, p := range f.writable {
		// Some shells go by the mode and don't see that a mount is read-only.
		m, ok := f.under(p)
		if ok && !m.Has("ro") && !w.allows(p) && !slices.Contains(paths, p) {
			paths = append(paths, p)
		}
	}
	for _, m := range f.mounts {
		// The shell asks about the name as the kernel escapes it, which nothing has.
		escaped := strings.ContainsAny(m.Target, " \t\n\\")
		if escaped && !m.Has("ro") && !w.allows(m.Target) && !slices.Contains(paths, m.Target) {
			paths = append(paths, m.Target)
		}
	}
	return either(len(paths) == 0, "/ ro, writable besides: %s", list(paths))
}

// capabilities are the kernel's, by their numbers.
var capabilities = strings.Fields("CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE " +
	"NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE " +
	"SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM " +
	"BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE")

func askedCaps(w want) string {
	if len(w.Caps) == 0 {
		return "none"
	}
	return "none but " + strings.Join(w.Caps, " ")
}

// insideCaps takes all sets together: from some of them a program gets a capability only
// later.
func insideCaps(w want, f *facts) side {
	var all uint64
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		value := f.status[set]
		if len(value) != 1 {
			if set == "CapAmb" {
				continue // since Linux 4.3
			}
			return unknown("the kernel does not tell %s", set)
		}
		n, err := strconv.ParseUint(value[0], 16, 64)
		if err != nil {
			return unknown("%s %s", set, value[0])
		}
		all |= n
	}
	var names []string
	extra := false
	for rest := all; rest != 0; rest &= rest - 1 {
		n := bits.TrailingZeros64(rest)
		name := strconv.Itoa(n)
		if n < len(capabilities) {
			name = capabilities[n]
		}
		names = append(names, name)
		extra = extra || !slices.Contains(w.Caps, name) && !slices.Contains(w.Caps, "ALL")
	}
	return either(!extra, "%016x %s", all, list(names))
}

func outsideCaps(w want, s *outside.Settings) side {
	if s.Privileged {
		return no("")
	}
	for _, name := range s.CapAdd {
		name = strings.TrimPrefix(strings.ToUpper(name), "CAP_")
		if !slices.Contains(w.Caps, name) && !slices.Contains(w.Caps, "ALL") {
			return no("%s added", name)
		}
	}
	if len(s.CapDrop) == 0 {
		return no("none dropped")
	}
	if slices.Contains(s.CapDrop, "ALL") {
		return yes("ALL dropped, %s added", list(s.CapAdd))
	}
	// Podman tells what is dropped of its defaults, and not what was added to none.
	return unknown("%d dropped, %s added", len(s.CapDrop), list(s.CapAdd))
}

func outsideNewPrivileges(_ want, s *outside.Settings) side {
	set := false
	for _, option := range s.SecurityOpt {
		name, value, ok := strings.Cut(strings.Replace(option, "=", ":", 1), ":")
		if name == "no-new-privileges" {
			set = !ok || value == "true"
		}
	}
	// The text of a filter is long, and has a row of its own.
	rest := slices.DeleteFunc(slices.Clone(s.SecurityOpt), func(option string) bool { return strings.HasPrefix(option, "seccomp") })
	return either(set, "%s", list(rest))
}

// filtered are the calls that are tried, which the library's filter refuses. Engines' own
// ones allow some of them.
var filtered = []string{"set-uid files", "user namespaces", "priorities", "io_uring"}

func insideSeccomp(w want, f *facts) side {
	s := f.flag("Seccomp", "2")
	switch {
	case w.GVisor && w.Profile != "":
		s = unknown("gVisor answers the system calls, and reads no filter")
	case w.GVisor:
		s = yes("gVisor answers the system calls")
	}
	how := map[string][]string{}
	for _, what := range filtered {
		answer := cmp.Or(f.calls[what], "not tried")
		how[answer] = append(how[answer], what)
	}
	for _, answer := range []string{"refused", "allowed", "not tried"} {
		if len(how[answer]) > 0 {
			s.evidence += "; " + answer + ": " + strings.Join(how[answer], ", ")
		}
	}
	if w.Filter == outside.LibraryFilter && len(how["allowed"]) > 0 {
		s.state = No
	}
	return s
}

// outsideSeccomp compares the filter with what the client was given. Docker tells its
// text; podman tells where its client has read it.
func outsideSeccomp(w want, s *outside.Settings) side {
	filter := ""
	for _, option := range s.SecurityOpt {
		// Podman writes it with a colon if the caller did.
		if text, ok := strings.CutPrefix(option, "seccomp:"); ok {
			option = "seccomp=" + text
		}
		if text, ok := strings.CutPrefix(option, "seccomp="); ok {
			filter = text
		}
	}
	switch {
	case s.Privileged, filter == "unconfined":
		return no("unconfined")
	case filter == "":
		return either(w.Profile == "", "the engine's own")
	case w.Profile == "":
		return yes("one that the client was given")
	case strings.HasPrefix(filter, "{"):
		if compact(filter) != compact(w.Profile) {
			return no("another one than was sent")
		}
		return yes("the one that was sent")
	case filter == "/dev/fd/3":
		return unknown("read from a descriptor")
	}
	return no("%s", filter)
}

// compact returns a JSON text without the white space between its words.
func compact(text string) string {
	quoted, escaped := false, false
	return strings.Map(func(r rune) rune {
		switch {
		case escaped:
			escaped = false
		case quoted && r == '\\':
			escaped = true
		case r == '"':
			quoted = !quoted
		case !quoted && strings.ContainsRune(" \t\r\n", r):
			return -1
		}
		return r
	}, text)
}

func askedUser(w want) string {
	switch {
	case w.User == "":
		return w.AnyUser
	case w.root():
		return ""
	}
	return w.User
}

// rooted says which rights of root's the shell has.
func (f *facts) rooted() (user, group bool) {
	group = slices.Contains(f.status["Gid"], "0") || slices.Contains(f.status["Groups"], "0")
	return slices.Contains(f.status["Uid"], "0"), group
}

func insideUser(w want, f *facts) side {
	uids, gids := f.status["Uid"], f.status["Gid"]
	if len(uids) != 4 || len(gids) != 4 {
		return unknown("the kernel does not tell the user")
	}
	evidence := fmt.Sprintf("uid %s, gid %s, groups %s", uids[0], gids[0], list(f.status["Groups"]))
	root, group := f.rooted()
	ok := !root && (!group || w.rootGroup()) &&
		len(slices.Compact(slices.Clone(uids))) == 1 && len(slices.Compact(slices.Clone(gids))) == 1
	if uid, gid, hasGroup := strings.Cut(w.User, ":"); !w.root() {
		// Who a name is, or the owner, the engine was told; the other side compares.
		ok = ok && (!isNumber(uid) || uids[0] == uid) && (!hasGroup || !isNumber(gid) || gids[0] == gid)
	}
	return either(ok, "%s", evidence)
}

func outsideUser(w want, s *outside.Settings) side {
	switch {
	case w.User == "":
		return either(s.User != "", "user %s", s.User)
	case w.root():
		return unknown("user %s", s.User)
	}
	return either(s.User == w.User, "user %s", cmp.Or(s.User, "the image's"))
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// A limit's values come from the first version of cgroups, or from the second.
func (f *facts) limit(v1 []string, v2, what string) (values []string, missing side) {
	for _, path := range v1 {
		values = append(values, f.values[path]...)
	}
	if len(values) == 0 {
		values = f.values[v2]
	}
	switch {
	case len(values) > 0:
		return values, side{}
	case f.cgroup2:
		return nil, no("the control group has no %s: its controller is not there", what)
	}
	return nil, unknown("the control group can't be read")
}

// atMost judges a limit that is one number.
func atMost(values []string, most int64, text func(int64) string) side {
	s := unknown("")
	for _, value := range values {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n > most {
			// Version 1 has its greatest number for none.
			if err != nil || n >= 1<<62 {
				return no("no limit (%s)", value)
			}
			return no("%s", text(n))
		}
		s = yes("%s", text(n))
	}
	return s
}

const memoryV1 = "/sys/fs/cgroup/memory/memory.limit_in_bytes"

func insideMemory(w want, f *facts) side {
	values, missing := f.limit([]string{memoryV1}, "memory.max", "limit of memory")
	if values == nil {
		return missing
	}
	return atMost(values, w.Memory, bytesText)
}

func insideSwap(w want, f *facts) side {
	values := f.values["memory.swap.max"]
	most := int64(0)
	if limits := f.values[memoryV1]; len(limits) > 0 {
		values = f.values["/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes"]
		// This one counts both.
		n, err := strconv.ParseInt(limits[0], 10, 64)
		if err != nil {
			return unknown("memory limit %s", limits[0])
		}
		most = min(n, w.Memory)
	} else if !f.cgroup2 {
		return unknown("the control group can't be read")
	}
	if len(values) == 0 {
		return either(f.read["/proc/swaps"] && f.swaps == 0, "swap accounting is off, %d swap areas", f.swaps)
	}
	s := atMost(values, most, bytesText)
	if most > 0 {
		s.evidence = "memory and swap " + s.evidence
	}
	return s
}

func insideCPU(w want, f *facts) side {
	var quota, period []string
	for _, dir := range []string{"cpu", "cpu,cpuacct", "cpuacct,cpu"} {
		quota = append(quota, f.values["/sys/fs/cgroup/"+dir+"/cpu.cfs_quota_us"]...)
		period = append(period, f.values["/sys/fs/cgroup/"+dir+"/cpu.cfs_period_us"]...)
	}
	if len(quota) == 0 {
		values, missing := f.limit(nil, "cpu.max", "limit of processor time")
		if values == nil {
			return missing
		}
		q, p, _ := strings.Cut(values[0], " ")
		quota, period = []string{q}, []string{p}
	}
	if len(quota) != len(period) {
		return unknown("quota %s, period %s", list(quota), list(period))
	}
	s := unknown("")
	for i := range quota {
		q, err := strconv.ParseInt(quota[i], 10, 64)
		if err != nil || q <= 0 {
			return no("no limit (%s)", quota[i])
		}
		p, err := strconv.ParseInt(period[i], 10, 64)
		if err != nil || p <= 0 {
			return unknown("quota %s, period %s", quota[i], period[i])
		}
		s = cpuSide(w, q, p)
		if s.state != Yes {
			return s
		}
	}
	return s
}

// cpuSide judges a quota of time in a period. It is some millionths off, for engines
// round.
func cpuSide(w want, quota, period int64) side {
	const slack = 1.00001
	return either(float64(quota)*1e6 <= slack*float64(millionths(w.CPUs))*float64(period), "%d of %d µs", quota, period)
}

func outsideCPU(w want, s *outside.Settings) side {
	switch {
	case s.NanoCPUs > 0:
		return cpuSide(w, s.NanoCPUs/1000, 1e6)
	case s.CPUQuota > 0:
		return cpuSide(w, s.CPUQuota, cmp.Or(s.CPUPeriod, 100_000))
	}
	return no("no limit")
}

func insidePids(w want, f *facts) side {
	if w.Pod != nil {
		// It is the user's, because the control group of the pod can't be seen.
		if len(f.nproc) == 0 {
			return unknown("the limit of the user can't be read")
		}
		if uids := f.status["Uid"]; len(uids) > 0 && uids[0] == "0" && !f.userNS {
			return no("the limit of the user does not bind root")
		}
		s := atMost(f.nproc[:1], w.Pids, plain)
		s.evidence += " of the user"
		return s
	}
	values, missing := f.limit([]string{"/sys/fs/cgroup/pids/pids.max"}, "pids.max", "limit of processes")
	if values == nil {
		return missing
	}
	return atMost(values, w.Pids, plain)
}

func insidePID(_ want, f *facts) side {
	switch {
	case f.second == "kthreadd":
		return no("the host's kernel threads are seen")
	case len(f.parents) == 0:
		return unknown("the shell's parent can't be seen")
	}
	return either(slices.Contains(f.parents, "1"), "the shell's forebears are %s", list(f.parents))
}

func insideIPC(w want, f *facts) side {
	m, ok := f.at("/dev/shm")
	if !ok {
		if f.read["/proc/self/mountinfo"] {
			return unknown("/dev/shm is no mount")
		}
		return unknown("the mounts can't be read")
	}
	return sizedTmpfs(w, m, w.Shm)
}

// sizedTmpfs judges a directory in memory.
func sizedTmpfs(w want, m mountinfo.Mount, most int64) side {
	size, sized := tmpfsSize(m.SuperOptions)
	text := "no size"
	if sized {
		text = bytesText(size)
	}
	// The kernel counts in pages, of which some machines have larger ones.
	ok := m.Type == "tmpfs" && m.Root == "/" && sized && size > 0 && size <= most+64<<10 &&
		(w.Pod != nil || m.Has("nosuid") && m.Has("nodev"))
	return either(ok, "%s %s %s %s", m.Target, m.Type, text, m.Options)
}

func askedTmpfs(w want) string {
	var words []string
	for _, target := range slices.Sorted(maps.Keys(w.Tmpfs)) {
		words = append(words, target+" "+bytesText(w.Tmpfs[target]))
	}
	if w.Pod != nil {
		return strings.Join(words, ", ") // a pod can't ask for more
	}
	return strings.Join(words, ", ") + ", nosuid, nodev"
}

func insideTmpfs(w want, f *facts) side {
	if !f.read["/proc/self/mountinfo"] {
		return unknown("the mounts can't be read")
	}
	for _, target := range slices.Sorted(maps.Keys(w.Tmpfs)) {
		m, ok := f.at(target)
		if !ok {
			return no("%s is no mount", target)
		}
		if s := sizedTmpfs(w, m, w.Tmpfs[target]); s.state != Yes {
			return s
		}
	}
	return yes("%d as asked", len(w.Tmpfs))
}

func outsideTmpfs(w want, s *outside.Settings) side {
	applied := map[string]string{}
	for target, options := range s.Tmpfs {
		applied[path.Clean(target)] = options
	}
	for _, target := range slices.Sorted(maps.Keys(w.Tmpfs)) {
		options, ok := applied[target]
		words := strings.Split(options, ",")
		size, sized := tmpfsSize(options)
		if !ok || !sized || size > w.Tmpfs[target] || slices.Contains(words, "suid") || slices.Contains(words, "dev") {
			return no("%s %s", target, cmp.Or(options, "is not a tmpfs"))
		}
	}
	return yes("%d as asked", len(w.Tmpfs))
}

// hidden and frozen are what every engine hides, and makes read-only, as far as the
// kernel has it.
var (
	hidden = []string{"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi",
		"/proc/timer_list", "/proc/timer_stats", "/sys/firmware"}
	frozen = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

func insideMasks(w want, f *facts) side {
	if w.GVisor {
		return yes("gVisor has a /proc of its own")
	}
	if !f.read["/proc/self/mountinfo"] {
		return unknown("the mounts can't be read")
	}
	var open []string
	count := 0
	for _, name := range hidden {
		if !f.exists[name] {
			continue
		}
		count++
		if m, ok := f.at(name); !ok || m.Type != "tmpfs" && m.Root != "/null" {
			open = append(open, name)
		}
	}
	for _, name := range frozen {
		if !f.exists[name] {
			continue
		}
		count++
		if m, ok := f.under(name); !ok || !m.Has("ro") {
			open = append(open, name)
		}
	}
	if m, ok := f.at("/sys"); !ok || !m.Has("ro") {
		open = append(open, "/sys")
	}
	if len(open) > 0 {
		return no("open: %s", list(open))
	}
	return yes("%d paths hidden or read-only, and no other is there", count)
}

func outsideMasks(_ want, s *outside.Settings) side {
	for _, option := range s.SecurityOpt {
		if strings.HasPrefix(option, "systempaths") || strings.HasPrefix(option, "unmask") || strings.HasPrefix(option, "proc-opts") {
			return no("%s", option)
		}
	}
	switch {
	case s.Privileged:
		return no("")
	case len(s.MaskedPaths) == 0:
		return unknown("")
	}
	return yes("%d paths", len(s.MaskedPaths))
}

// common are the devices that every container has, and commonRules their numbers with
// those of pseudo terminals. Engines let a container make any device, which takes a
// capability, and use none but these.
var (
	common      = []string{"console", "full", "null", "ptmx", "random", "tty", "urandom", "zero"}
	commonRules = []string{"b *:* m", "c *:* m", "c 1:3 rwm", "c 1:5 rwm", "c 1:7 rwm", "c 1:8 rwm", "c 1:9 rwm", "c 5:0 rwm", "c 5:1 rwm", "c 5:2 rwm",
		"c 10:200 rwm", "c 136:* rwm"}
)

func insideDevices(_ want, f *facts) side {
	if !slices.Contains(f.devices, "c /dev/null") {
		return unknown("/dev can't be read")
	}
	var extra []string
	for _, device := range f.devices {
		name, ok := strings.CutPrefix(device, "c /dev/")
		if !ok || !slices.Contains(common, name) {
			extra = append(extra, device)
		}
	}
	for _, rule := range f.values["/sys/fs/cgroup/devices/devices.list"] {
		// With users of its own nobody inside can make a device that works, and the rules
		// may be the host's.
		if !f.userNS && !slices.Contains(commonRules, rule) {
			extra = append(extra, "rule "+rule)
		}
	}
	if len(extra) > 0 {
		return no("%s", strings.Join(extra, ", "))
	}
	return yes("%d that every container has", len(f.devices))
}

func askedMounts(w want) string {
	var words []string
	for _, target := range slices.Sorted(maps.Keys(w.Mounts)) {
		mode := "ro"
		if w.Mounts[target] {
			mode = "rw"
		}
		words = append(words, target+" "+mode)
	}
	if w.fifos {
		words = append(words, fifoDir+" ro, which has only FIFOs in it")
	}
	if len(words) == 0 {
		return "none"
	}
	return "none but " + strings.Join(words, ", ")
}

func insideMounts(w want, f *facts) side {
	if !f.read["/proc/self/mountinfo"] {
		return unknown("the mounts can't be read")
	}
	var bad []string
	for target, writable := range w.Mounts {
		m, ok := f.at(target)
		if !ok || !writable && !m.Has("ro") {
			bad = append(bad, target+" is not as it was asked for")
		}
	}
	if _, ok := f.at(fifoDir); w.fifos && !ok {
		bad = append(bad, fifoDir+" is not there")
	}
	for _, m := range f.mounts {
		if !w.expects(m) && (w.Pod == nil || !ofPod(m)) {
			bad = append(bad, fmt.Sprintf("%s (%s %s)", m.Target, m.Type, m.Root))
		}
	}
	slices.Sort(bad)
	return either(len(bad) == 0, "%d mounts, unasked: %s", len(f.mounts), list(bad))
}

// expects reports whether every container has a mount, or the policy names it.
func (w want) expects(m mountinfo.Mount) bool {
	is := func(types ...string) bool { return slices.Contains(types, m.Type) }
	below := func(dir string) bool { return strings.HasPrefix(m.Target, dir+"/") }
	if _, ok := w.Mounts[m.Target]; ok {
		return true // insideMounts looks at the one that shows
	}
	for target := range w.Tmpfs {
		if m.Target == target {
			return is("tmpfs")
		}
	}
	if m.Target == fifoDir {
		return w.fifos && m.Has("ro") && path.Base(m.Root) == fifoSource
	}
	// What is mounted below a source comes along, and an engine may leave it writable
	// where the source is not.
	for dir := path.Dir(m.Target); len(dir) > 1; dir = path.Dir(dir) {
		if writable, ok := w.Mounts[dir]; ok {
			if writable || m.Has("ro") {
				return true
			}
			break
		}
	}
	mask := is("tmpfs") || m.Root == "/null"
	switch {
	case m.Target == "/":
		return true
	case m.Target == "/proc":
		return is("proc")
	case below("/proc"):
		return is("proc") || mask
	case m.Target == "/dev":
		return is("tmpfs", "dev")
	case m.Target == "/dev/pts" || m.Target == "/dev/console":
		return is("devpts")
	case m.Target == "/dev/mqueue":
		return is("mqueue")
	case m.Target == "/dev/shm":
		return is("tmpfs")
	case below("/dev"):
		// Without root's rights an engine can't make a device and mounts the host's.
		return m.Root == strings.TrimPrefix(m.Target, "/dev") && slices.Contains(common, strings.TrimPrefix(m.Root, "/"))
	case m.Target == "/sys":
		return is("sysfs")
	case m.Target == "/sys/fs/cgroup" || below("/sys/fs/cgroup"):
		return is("tmpfs", "cgroup", "cgroup2")
	case below("/sys"):
		return is("sysfs") || mask
	}
	return slices.Contains(engineFiles, m.Target) && path.Base(m.Root) == path.Base(m.Target) && ofContainer(m.Root)
}

// engineFiles are files that an engine writes for a container and mounts.
var engineFiles = []string{"/etc/group", "/etc/hostname", "/etc/hosts", "/etc/passwd", "/etc/resolv.conf", "/run/.containerenv"}

// ofContainer reports whether a path of the host is in a directory that has a container's
// ID for its name, as engines have it for what is a container's own.
func ofContainer(name string) bool {
	return slices.ContainsFunc(strings.Split(name, "/"), func(dir string) bool {
		return len(dir) == 64 && strings.Trim(dir, "0123456789abcdef") == ""
	})
}

func outsideMounts(w want, s *outside.Settings) side {
	var words []string
	ok := true
	for _, m := range s.Mounts {
		writable, asked := w.Mounts[path.Clean(m.Target)]
		if w.fifos && m.Target == fifoDir {
			// Its source has another name in each session.
			asked, m.Source = true, "FIFOs"
		}
		ok = ok && asked && (writable || !m.Writable)
		words = append(words, m.Source+" on "+m.Target)
	}
	return either(ok, "%s", list(words))
}

func insideLifeline(_ want, f *facts) side {
	switch {
	case len(f.open) > 0:
		return no("open: %s", list(f.open))
	case len(f.refused) == 0:
		return unknown("process 1 can't be seen")
	}
	return yes("refused: %s", list(f.refused))
}

// insideArgs judges what shows inside of arguments that no other protection is about.
func insideArgs(_ want, f *facts) side {
	var bad []string
	if len(f.core) > 1 && f.core[1] != "0" {
		bad = append(bad, "core dumps of up to "+f.core[1])
	}
	if slices.Contains(f.values["/sys/fs/cgroup/memory/memory.oom_control"], "oom_kill_disable 1") {
		bad = append(bad, "nothing is killed for want of memory")
	}
	return either(len(bad) == 0, "%s", cmp.Or(strings.Join(bad, ", "), "none seen"))
}

// outsideArgs judges what the engine says that it does, and never does unasked.
func outsideArgs(_ want, s *outside.Settings) side {
	var bad []string
	if s.UserNS == "host" {
		bad = append(bad, "the host's users")
	}
	for _, option := range s.SecurityOpt {
		name, value, _ := strings.Cut(strings.Replace(option, "=", ":", 1), ":")
		if name == "apparmor" && value == "unconfined" || name == "label" && value == "disable" {
			bad = append(bad, option)
		}
	}
	if len(bad) == 0 {
		return unknown("")
	}
	return no("%s", strings.Join(bad, ", "))
}
