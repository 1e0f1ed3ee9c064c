// Package mountinfo parses the table of mounts that Linux shows in /proc/self/mountinfo.
// The manual page proc(5) describes it.
package mountinfo

import (
	"slices"
	"strconv"
	"strings"
)

// A Mount is a line of the table.
type Mount struct {
	// Device is the number of the device that holds the file system, such as "254:0".
	// A file system that is not on a device has a number of its own.
	Device string
	// Root is the path in the file system of the directory or file that is mounted.
	Root string
	// Target is the path at which it is mounted.
	Target string
	// Options are those of this mount, such as "ro,nosuid".
	Options string
	// Type is the type of the file system, such as "ext4".
	Type string
	// SuperOptions are those of the file system, which all its mounts share.
	SuperOptions string
}

// Has reports whether the mount has an option, such as "ro". Options of the file system
// do not count.
func (m Mount) Has(option string) bool {
	return slices.Contains(strings.Split(m.Options, ","), option)
}

// Parse parses a line without its newline, and reports whether it is one of the table's.
func Parse(line string) (m Mount, ok bool) {
	// Any number of optional fields ends with a dash.
	mount, super, _ := strings.Cut(line, " - ")
	// strings.Fields would lose a source that is empty, and would split a name at a
	// carriage return, which the kernel does not escape.
	first, last := strings.Split(mount, " "), strings.Split(super, " ")
	if len(first) < 6 || len(last) < 3 {
		return Mount{}, false
	}
	return Mount{
		Device:       first[2],
		Root:         Unescape(first[3]),
		Target:       Unescape(first[4]),
		Options:      first[5],
		Type:         last[0],
		SuperOptions: last[2],
	}, true
}

// ID returns the number of the mount that an open file is on, with which its line of the
// table begins. info is what /proc/self/fdinfo has of the file. If that does not say, ID
// returns nothing.
func ID(info string) string {
	_, id, _ := strings.Cut(info, "mnt_id:")
	id, _, _ = strings.Cut(strings.TrimSpace(id), "\n")
	return id
}

// Unescape undoes the octal escapes of the kernel, which writes a space as "\040". It
// keeps a backslash that begins no escape.
func Unescape(s string) string {
	b := []byte(s)
	n := 0
	for i := 0; i < len(s); i++ {
		b[n] = s[i]
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b[n] = byte(c)
				i += 3
			}
		}
		n++
	}
	return string(b[:n])
}
