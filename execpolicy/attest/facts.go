package attest

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-64a260eb/cofferdam/internal/mountinfo"
)

// facts are what inside.sh prints.
type facts struct {
	whole    bool            // it came to its end
	read     map[string]bool // files that could be read
	status   map[string][]string
	mounts   []mountinfo.Mount
	links    []string // network interfaces
	routes   []string // that lead out
	swaps    int
	nproc    []string // the limits of the user's processes, soft and hard, and their unit
	core     []string // the soft and the hard limit of core dumps, and their unit
	userNS   bool     // the users are others than the host's
	parents  []string // the shell's parent and grandparent
	second   string   // the name of process 2
	values   map[string][]string
	cgroup2  bool
	open     []string // files of process 1
	refused  []string
	exists   map[string]bool
	devices  []string // each with its class, as in "c /dev/null"
	writable []string
	tried    []string // addresses, after "reached", "silent" or "untried"
	reach    string   // how the attempt ended to reach out
	// calls has "allowed" or "refused", by what a filter of system calls may refuse.
	calls map[string]string
}

// parseFacts reads what was printed inside. Lines that it does not know mean nothing, and
// what is missing is not there: whoever looks at a fact has to see whether its file was
// read.
func parseFacts(text string) *facts {
	f := &facts{read: map[string]bool{}, status: map[string][]string{}, values: map[string][]string{}, exists: map[string]bool{}, calls: map[string]string{}}
	for line := range strings.Lines(text) {
		line, ended := strings.CutSuffix(line, "\n")
		if !ended {
			break
		}
		kind, rest, _ := strings.Cut(line, " ")
		f.add(kind, rest)
	}
	return f
}

// add adds the fact of a line.
func (f *facts) add(kind, rest string) {
	switch kind {
	case "end":
		f.whole = true
	case "read":
		f.read[rest] = true
	case "status":
		if name, value, ok := strings.Cut(rest, ":"); ok {
			f.status[name] = strings.Fields(value)
		}
	case "mount":
		if m, ok := mountinfo.Parse(rest); ok {
			f.mounts = append(f.mounts, m)
		}
	case "uidmap":
		f.userNS = f.userNS || strings.Join(strings.Fields(rest), " ") != "0 0 4294967295"
	case "nproc":
		f.nproc = strings.Fields(rest)
	case "core":
		f.core = strings.Fields(rest)
	case "swap":
		if !strings.HasPrefix(rest, "Filename") && rest != "" {
			f.swaps++
		}
	case "second":
		f.second = rest
	case "value":
		name, value, _ := strings.Cut(rest, " ")
		f.values[name] = append(f.values[name], value)
	case "cgroup2":
		f.cgroup2 = true
	case "exists":
		f.exists[rest] = true
	case "reach":
		f.reach = rest
	case "call":
		how, what, _ := strings.Cut(rest, " ")
		f.calls[what] = how
	default:
		f.addListed(kind, rest)
	}
}

// addListed adds a fact of which there may be many.
func (f *facts) addListed(kind, rest string) {
	switch kind {
	case "net":
		if name, _, ok := strings.Cut(rest, ":"); ok && !strings.Contains(name, "|") {
			f.links = append(f.links, strings.TrimSpace(name))
		}
	case "route":
		if fields := strings.Fields(rest); len(fields) > 1 && fields[0] != "Iface" && fields[0] != "lo" {
			f.routes = append(f.routes, fields[0])
		}
	case "route6":
		if fields := strings.Fields(rest); len(fields) > 1 && fields[len(fields)-1] != "lo" {
			f.routes = append(f.routes, fields[len(fields)-1])
		}
	case "parent":
		f.parents = append(f.parents, rest)
	case "open":
		f.open = append(f.open, rest)
	case "tried":
		f.tried = append(f.tried, rest)
	case "refused":
		f.refused = append(f.refused, rest)
	case "device":
		f.devices = append(f.devices, rest)
	case "writable":
		f.writable = append(f.writable, mountinfo.Unescape(rest))
	}
}

// at returns the mount that shows at a path: the last one there.
func (f *facts) at(target string) (m mountinfo.Mount, ok bool) {
	for _, m := range slices.Backward(f.mounts) {
		if m.Target == target {
			return m, true
		}
	}
	return mountinfo.Mount{}, false
}

// under returns the mount that a path is on.
func (f *facts) under(name string) (m mountinfo.Mount, ok bool) {
	for name = path.Clean("/" + name); ; name = path.Dir(name) {
		if m, ok = f.at(name); ok || name == "/" {
			return m, ok
		}
	}
}

// tmpfsSize returns the option "size" of a tmpfs in bytes, and whether it has one.
func tmpfsSize(options string) (size int64, ok bool) {
	for option := range strings.SplitSeq(options, ",") {
		text, ok := strings.CutPrefix(option, "size=")
		if !ok {
			continue
		}
		shift := 0
		for i, unit := range []string{"k", "m", "g"} {
			if number, ok := strings.CutSuffix(text, unit); ok {
				text, shift = number, 10*(i+1)
			}
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n > 1<<62>>shift {
			return 0, false
		}
		return n << shift, true
	}
	return 0, false
}
