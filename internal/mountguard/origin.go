package mountguard

import (
	"path"
	"strings"

	"github.com/seed-64a260eb/cofferdam/internal/mountinfo"
)

// originIn returns what the directory of that name is to the kernel whose table of mounts
// that is, and that mounted there: the file system, and the directory's place in it, such
// as "254:0/home/user". It is empty if the table does not have such a mount. id is the
// number of the mount in the table; if it is empty, it is the last one at that very name.
func originIn(table, id, name string) (origin string) {
	for line := range strings.SplitSeq(table, "\n") {
		m, ok := mountinfo.Parse(line)
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(line, " ")
		switch {
		case id == "" && m.Target == name:
			origin = m.Device + path.Clean(m.Root)
		case id != "" && number == id && Within(name, strings.TrimSuffix(m.Target, "/")):
			origin = m.Device + path.Join(m.Root, name[len(strings.TrimSuffix(m.Target, "/")):])
		}
	}
	return origin
}

// OriginInside returns what is mounted at a name, by the table of mounts that is shown
// there. It is empty if nothing is. Two names show the same directory if their origins
// are the same, and the kernel is.
func OriginInside(table, name string) string { return originIn(table, "", name) }
