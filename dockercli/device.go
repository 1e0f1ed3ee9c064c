package dockercli

import "strings"

// A Device is a device of the engine's host that the container has.
type Device struct {
	// Source is the device's absolute path on the engine's host.
	Source string
	// Target is where it appears, an absolute path below /. If empty, it is Source.
	Target string
	// Permissions are what the container may do: "r" to read, "w" to write, "m" to make
	// such a device, or several of them. If empty, they are "rw".
	Permissions string
}

// value returns the value of --device, whose parts stand between colons.
func (d Device) value(c *checker) string {
	if d.Target == "" {
		d.Target = d.Source
	}
	if d.Permissions == "" {
		d.Permissions = "rw"
	}
	if !strings.HasPrefix(d.Source, "/") {
		c.refuse("device %q: it has to be an absolute path", d.Source)
	}
	c.target("device target", d.Target)
	for _, path := range []string{d.Source, d.Target} {
		if strings.ContainsAny(path, ":=,") {
			c.refuse("device path %q: it can't have a colon, an equals sign or a comma", path)
		}
	}
	for i, p := range d.Permissions {
		if !strings.ContainsRune("rwm", p) || strings.ContainsRune(d.Permissions[:i], p) {
			c.refuse("device %q: its permissions are %q, and have to be of \"r\", \"w\" and \"m\", each once", d.Source, d.Permissions)
			break
		}
	}
	return d.Source + ":" + d.Target + ":" + d.Permissions
}
