package dockercli

import (
	"strconv"
	"strings"
	"unicode"
)

// A Mount is a directory or file of the engine's host, or a volume of the engine, that is
// visible in the container.
type Mount struct {
	// Source is the absolute path on the engine's host. It must exist.
	Source string
	// Volume is the name of a volume, in place of Source. If there is no such volume, a
	// run fails with an error that matches [ErrNoVolume]. Only docker's client on
	// podman's service makes an empty volume then.
	Volume string
	// Target is where it appears, an absolute path below /.
	Target string
	// Writable lets the container change it.
	Writable bool
	// Relabel gives Source, and all that is in it, another SELinux label, with which
	// containers may use it where the engine enforces SELinux: "private" is a label of
	// this container alone, "shared" one of all containers. The label stays, and programs
	// of the host may be refused what has it. If empty, nothing is changed. Engines that
	// don't enforce SELinux ignore it. With docker neither path can then have a colon,
	// and a Source that does not exist is made.
	Relabel string
}

const (
	relabelPrivate = "private"
	relabelShared  = "shared"
)

// A Tmpfs is a directory in memory, without set-uid programs and devices, that starts out
// empty.
type Tmpfs struct {
	// Target is where it appears, an absolute path below / without a colon or comma.
	Target string
	// SizeBytes is how much it holds. If zero or negative, the engine's default counts,
	// which may be half of the memory.
	SizeBytes int64
	// Mode is its permission bits. If zero, 01777: everyone may write, as in /tmp. Old
	// versions of runc ignore it for a directory that the image has already.
	Mode uint32
	// UID and GID are the numbers of the owner and of its group. If both are empty, root
	// owns it. One alone is refused, and so are both with podman.
	UID, GID string
	// Chown gives it to the user that the container's command runs as. Podman knows it
	// from version 4, even when a docker client talks to it; docker refuses it.
	Chown bool
	// Exec lets programs in it be executed.
	Exec bool
}

// flag returns the flag of a mount, and its value.
func (m Mount) flag(c *checker, d *dialect) (name, value string) {
	if m.Relabel != "" && (m.Relabel != relabelPrivate && m.Relabel != relabelShared || m.Volume != "") {
		c.refuse("mount on %q: Relabel is %q: it has to be \"private\" or \"shared\", and is not for a volume", m.Target, m.Relabel)
	}
	if m.Relabel != "" && d.relabelsByVolume {
		m.value(c, d) // checks the rest
		if strings.Contains(m.Source+m.Target, ":") {
			c.refuse("mount of %q on %q: docker can't relabel a path with a colon", m.Source, m.Target)
		}
		options := map[string]string{relabelPrivate: "Z", relabelShared: "z"}[m.Relabel]
		if !m.Writable {
			options = "ro," + options
		}
		return "volume", m.Source + ":" + m.Target + ":" + options
	}
	return "mount", m.value(c, d)
}

// value returns the value of --mount: one record of comma-separated values, the only form
// in which colons and commas of a path are no separators.
func (m Mount) value(c *checker, d *dialect) string {
	if m.Volume != "" {
		return m.volume(c, d)
	}
	if !absolute(m.Source) {
		c.refuse("mount source %q: it has to be an absolute path", m.Source)
	}
	c.mountPaths(m.Source, m.Target)
	fields := []string{"type=bind", csvField("source=" + m.Source), csvField("target=" + m.Target)}
	if !m.Writable {
		fields = append(fields, "readonly")
	}
	if m.Relabel != "" {
		fields = append(fields, "relabel="+m.Relabel)
	}
	return strings.Join(fields, ",")
}

// mustExist is an option that no driver of a volume knows. An engine looks at the options
// only when it makes a volume.
const mustExist = "must-exist"

func (m Mount) volume(c *checker, d *dialect) string {
	if m.Source != "" {
		c.refuse("mount on %q: it has a source and a volume", m.Target)
	}
	c.volume(m.Volume)
	c.mountPaths(m.Target)
	fields := []string{"type=volume", "source=" + m.Volume, csvField("target=" + m.Target)}
	fields = append(append(fields, d.volumeFields...), "volume-opt="+mustExist+"=true")
	if !m.Writable {
		fields = append(fields, "ro")
	}
	return strings.Join(fields, ",")
}

// mountPaths checks the paths of a mount, of which the last is its target.
func (c *checker) mountPaths(paths ...string) {
	c.target("mount target", paths[len(paths)-1])
	for _, path := range paths {
		// The engines trim a value, and their parser makes a newline of a carriage return
		// and a newline.
		if strings.TrimFunc(path, unicode.IsSpace) != path {
			c.refuse("mount path %q: the engines would cut the white space at its ends", path)
		}
		if strings.Contains(path, "\r\n") {
			c.refuse("mount path %q: the engines would drop its carriage return", path)
		}
	}
}

// absolute reports whether a path is absolute on any system: the engine's host need not
// be this one.
func absolute(path string) bool {
	return strings.HasPrefix(path, "/") || strings.HasPrefix(path, `\\`) ||
		len(path) >= 3 && isLetter(path[0]) && path[1] == ':' && (path[2] == '\\' || path[2] == '/')
}

// csvField quotes one field of a record as RFC 4180 has it.
func csvField(field string) string {
	if !strings.ContainsAny(field, ",\"\r\n") {
		return field
	}
	return `"` + strings.ReplaceAll(field, `"`, `""`) + `"`
}

// value returns the value of --tmpfs. Whether programs may be executed is always said:
// the engines' defaults differ.
func (t Tmpfs) value(c *checker, d *dialect) string {
	c.target("tmpfs", t.Target)
	if strings.ContainsAny(t.Target, ":,") {
		c.refuse("tmpfs %q: its path can't have a colon or comma", t.Target)
	}
	options := []string{"rw", "nosuid", "nodev", "noexec"}
	if t.Exec {
		options[3] = "exec"
	}
	if t.SizeBytes > 0 {
		options = append(options, "size="+strconv.FormatInt(t.SizeBytes, 10))
	}
	mode := t.Mode
	if mode == 0 {
		mode = 0o1777
	}
	options = append(options, "mode="+strconv.FormatUint(uint64(mode), 8))
	options = append(options, d.noCopyUp...)
	if t.Chown {
		options = append(options, "U")
	}
	if t.UID != "" || t.GID != "" {
		if d.tmpfsIsRoots {
			c.refuse("tmpfs %q: this engine gives it to root", t.Target)
		}
		for _, id := range []string{t.UID, t.GID} {
			if id == "" || strings.Trim(id, "0123456789") != "" {
				c.refuse("tmpfs %q: its owner has to be a user and a group, by their numbers", t.Target)
			}
		}
		options = append(options, "uid="+t.UID, "gid="+t.GID)
	}
	return t.Target + ":" + strings.Join(options, ",")
}
