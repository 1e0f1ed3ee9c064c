package mountguard

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

// On Linux the kernel's number counts, wherever a name leads.
func TestDevicesOfThisMachine(t *testing.T) {
	dir := t.TempDir()
	link := func(name, to string) string {
		path := filepath.Join(dir, name)
		assert.NilError(t, os.Symlink(to, path))
		return path
	}
	g := &Guard{}
	resolved, err := g.CheckDevice(link("harmless", "/dev/null"))
	assert.NilError(t, err)
	assert.Equal(t, resolved, "/dev/null")
	tty := link("null", "/dev/tty")
	_, err = g.CheckDevice(tty)
	assert.ErrorContains(t, err, `add "/dev/tty" to AllowUnsafeDevices`)
	g.Allowed = []string{tty}
	_, err = g.CheckDevice(tty)
	assert.ErrorContains(t, err, "AllowUnsafeDevices")
	g.Allowed = []string{"/dev/tty"}
	resolved, err = g.CheckDevice(tty)
	assert.NilError(t, err)
	assert.Equal(t, resolved, "/dev/tty")
	for _, path := range []string{dir, filepath.Join(dir, "none"), link("dangling", "/nowhere"), "/dev"} {
		g.Allowed = []string{path}
		_, err = g.CheckDevice(path)
		assert.Check(t, err != nil, path)
	}
	info, err := os.Stat("/dev/null")
	assert.NilError(t, err)
	n, ok := deviceNumber(info)
	assert.Assert(t, ok && n == number{1, 3}, "%+v", n)
}

// A name makes nothing harmless, and nothing that is harmless dangerous.
func TestDeviceOfAnotherName(t *testing.T) {
	for _, c := range []struct {
		name     string
		mode     uint32
		number   int // major and minor, a byte each
		harmless bool
	}{
		{"null", syscall.S_IFCHR, 1<<8 | 1, false}, // the kernel's memory
		{"video0", syscall.S_IFBLK, 7 << 8, false}, // a disk
		{"zero", syscall.S_IFBLK, 1<<8 | 5, false}, // a disk in memory, of the number of what is harmless
		{"sda", syscall.S_IFCHR, 1<<8 | 5, true},
	} {
		path := filepath.Join(t.TempDir(), c.name)
		err := syscall.Mknod(path, c.mode|0o600, c.number)
		if errors.Is(err, syscall.EPERM) {
			leftout.Skip(t, "it takes root's rights: %v", err)
		}
		assert.NilError(t, err)
		_, err = new(Guard).CheckDevice(path)
		assert.Check(t, (err == nil) == c.harmless, "%s: %v", c.name, err)
	}
}
