package mountguard

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// tableOf returns a table of mounts, each of words as in "254:0 /etc /mnt/etc ext4".
func tableOf(mounts ...string) string {
	var b strings.Builder
	for i, m := range mounts {
		f := strings.Split(m, " ")
		const line = "%d 1 %s %s %s rw,relatime shared:1 - %s /dev/x rw\n"
		fmt.Fprintf(&b, line, i+1, f[0], f[1], f[2], f[3])
	}
	return b.String()
}

func TestOtherNames(t *testing.T) {
	table := tableOf(
		"0:21 / /proc proc", "0:22 / /sys sysfs", "254:0 / / ext4", "0:6 / /dev devtmpfs",
		"0:30 / /run tmpfs", "0:40 / /run/user/7 tmpfs", "8:1 / /home ext4", "8:2 / /data xfs",
		"254:0 /etc/ssl /mnt/ssl ext4", "8:1 /me /mnt/me ext4", "0:40 / /mnt/run tmpfs",
		"0:99 / /mnt/chroot/proc proc", "254:0 / /mnt/again ext4",
		"8:2 /docker /var/lib/docker xfs",
		"8:1 /me/project /var/lib/docker/volumes/v/_data ext4",
		"254:0 /etc/ssl /srv/tree/deep/x ext4", "0:6 /null /srv/hidden/.env devtmpfs",
		`254:0 /a\040b\134 /srv/a\011b ext4`, "254:0 /etc /srv/c\r\u00a0d ext4",
	)
	for _, c := range []struct {
		path         string
		names, parts []string
	}{
		{"/opt/x", nil, nil},
		{"/mnt/ssl", []string{"/etc/ssl"}, []string{"/srv/tree/deep/x"}},
		{"/mnt/ssl/private/key", []string{"/etc/ssl/private/key"}, nil},
		{"/mnt/me/.ssh", []string{"/home/me/.ssh"}, nil},
		{"/mnt/run/docker.sock", []string{"/run/user/7/docker.sock"}, nil},
		{"/mnt/chroot", []string{"/proc"}, nil}, // carried along
		{"/mnt/chroot/proc/1", []string{"/proc/1"}, nil},
		{"/srv/tree", []string{"/etc/ssl"}, []string{"/mnt/ssl"}},
		{"/srv/tre", nil, nil},
		{"/srv/hidden", nil, nil},
		{"/srv/a\tb/c", []string{`/a b\/c`}, nil},
		{"/srv/c\r\u00a0d/x", []string{"/etc/x"}, nil},
		{"/mnt/again/etc/x", []string{"/etc/x"}, nil},
		// A store that came from there is held, and a volume that came from there means
		// nothing.
		{"/data", nil, []string{"/var/lib/docker"}},
		{"/home/me/project", nil, []string{"/var/lib/docker/volumes/v/_data"}},
		{"/home/me/project/x", nil, nil},
	} {
		names, parts := otherNames(table, c.path)
		assert.Equal(t, names[0], c.path)
		for _, want := range c.names {
			assert.Check(t, slices.Contains(names, want), "%s: %q", c.path, names)
		}
		for _, want := range c.parts {
			assert.Check(t, slices.Contains(parts, want), "%s: %q", c.path, parts)
		}
		// What it is not called, it is not refused for. A mount that may be hidden is its
		// own name.
		for _, name := range names {
			own := name == c.path || strings.HasPrefix(name, c.path+"/")
			assert.Check(t, own || slices.Contains(c.names, name), "%s: %q", c.path, names)
		}
		for _, name := range parts {
			own := strings.HasPrefix(name, c.path) || slices.Contains(c.names, name)
			assert.Check(t, own || slices.Contains(c.parts, name), "%s: %q", c.path, parts)
		}
	}
	for _, table := range []string{"", "\n\n", "1 2 3 4", strings.Repeat("x ", 20)} {
		names, parts := otherNames(table, "/opt/x")
		assert.DeepEqual(t, slices.Compact(names), []string{"/opt/x"})
		assert.Equal(t, len(parts), 0)
	}
}

// Whatever a table holds, a path keeps its name, all names are absolute, and a bind is
// known.
func FuzzOtherNames(f *testing.F) {
	f.Add(tableOf("254:0 / / ext4", "254:0 /etc /mnt/etc ext4"), "/mnt/etc", "/a b")
	f.Add("1 2 3:4 \\040 \\134040 6 7 - proc 9", "/", "\\")
	f.Fuzz(func(t *testing.T, table, name, bind string) {
		name, bind = filepath.Clean("/"+name), filepath.Clean("/"+bind)
		names, parts := otherNames(table, name)
		assert.Equal(t, names[0], name)
		for _, other := range append(names, parts...) {
			assert.Assert(t, filepath.IsAbs(other), "%q", other)
		}
		if bind == "/" {
			return // nothing is mounted over the root
		}
		escapes := strings.NewReplacer(`\`, `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`)
		escaped := escapes.Replace(bind)
		names, _ = otherNames(tableOf("254:0 / / ext4", "254:0 "+escaped+" /m ext4"), "/m")
		assert.Assert(t, slices.Contains(names, bind), "%q", names)
		table = tableOf("254:0 / / ext4", "254:0 /etc "+escaped+" ext4")
		names, _ = otherNames(table, bind+"/x")
		assert.Assert(t, slices.Contains(names, "/etc/x"), "%q", names)
	})
}
