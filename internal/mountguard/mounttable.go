package mountguard

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/seed-64a260eb/cofferdam/internal/mountinfo"
)

// table is the kernel's table of mounts.
var table = "/proc/self/mountinfo"

// mountNames returns the names of what a container would see of a path, as otherNames
// does. There is only its own where the kernel's table is not to be had, on other systems
// and on other machines. It is an error if the table is there and could not be read, as
// when no descriptor is left.
func (g *Guard) mountNames(name string) (names, parts []string, err error) {
	var text []byte
	if runtime.GOOS == "linux" && !g.Remote {
		text, err = os.ReadFile(table)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			err = nil
		}
	}
	names, parts = otherNames(string(text), name)
	return names, parts, err
}

// otherNames returns a path, and what else a table of mounts, as proc(5) has it, calls
// that which a container would see of it. Engines bind what is mounted below a path too.
//
// A name is by what a file system, or a part of one, was first mounted, so that it says
// where the source comes from. Parts are all other paths at which some of the source is
// mounted. They matter for what they hold, and not for what they are inside: an engine's
// store, which is guarded, may have any directory mounted in it as a volume.
func otherNames(table, name string) (names, parts []string) {
	found := [2][]string{{name}}
	lines := strings.Split(table, "\n")
	// A place is such as "254:0/etc".
	mounts := make([]struct{ place, target string }, len(lines))
	for i, line := range lines {
		m, ok := mountinfo.Parse(line)
		if !ok {
			continue
		}
		if m.Type == "proc" || m.Type == "sysfs" {
			m.Device = m.Type // all of them show the same kernel
		}
		mounts[i].place = strings.TrimSuffix(m.Device+m.Root, "/")
		mounts[i].target = strings.TrimSuffix(m.Target, "/")
	}
	for _, m := range mounts {
		_, root, _ := strings.Cut(m.place, "/")
		if Within(name, m.target) {
			// Another mount on the way may hide this one. Then the place has no other
			// name.
			m.place += name[len(m.target):]
		} else if !Within(m.target, name) || root == "null" {
			continue // it is not seen, or a file is hidden behind /dev/null
		}
		first := true
		for _, other := range mounts {
			kind, alias := 0, other.target
			if first && Within(m.place, other.place) {
				first = false
				alias += m.place[len(other.place):]
			} else if Within(other.place, m.place) {
				kind = 1
			} else {
				continue
			}
			found[kind] = append(found[kind], filepath.Clean("/"+alias))
		}
	}
	return found[0], found[1]
}
