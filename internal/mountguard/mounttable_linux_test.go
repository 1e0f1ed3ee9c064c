package mountguard

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

// What is mounted, under any name, is what the kernel says it is.
func TestMountsByAnotherName(t *testing.T) {
	if !enginetest.OwnMounts(t) {
		return
	}

	root, err := filepath.EvalSymlinks(t.TempDir())
	assert.NilError(t, err)
	in := func(name string) string { return filepath.Join(root, name) }
	mount := func(from, to, kind string) {
		t.Helper()
		if info, err := os.Stat(from); err == nil && !info.IsDir() {
			assert.NilError(t, os.WriteFile(to, nil, 0o644))
		} else {
			assert.NilError(t, os.MkdirAll(to, 0o755))
		}
		flags := uintptr(syscall.MS_BIND | syscall.MS_REC)
		if kind != "" {
			flags = 0
		}
		assert.NilError(t, syscall.Mount(from, to, kind, flags, ""))
		// The test's directory has to be empty when it is removed.
		t.Cleanup(func() { assert.Check(t, syscall.Unmount(to, syscall.MNT_DETACH)) })
	}
	for _, dir := range []string{
		"people/me/.ssh", "people/me/project", "disk/store/deep", "disk/other", "work/data", "bind",
	} {
		assert.NilError(t, os.MkdirAll(in(dir), 0o755))
	}
	mount("/etc/ssl", in("bind/s s l"), "")
	mount("/etc/passwd", in("file"), "")
	mount("proc", in("chroot/proc"), "proc")
	mount(in("people/me"), in("me"), "")
	mount(in("people/me/.ssh"), in("keys"), "")
	mount(in("disk/store"), in("store"), "")
	mount(in("work/data"), in("store/volume"), "")
	mount("tmpfs", in("store/memory"), "tmpfs")
	mount(in("store/memory"), in("memory"), "")
	mount("/dev/null", in("work/.env"), "")
	mount("/", in("again"), "")
	defer func(dirs string) { homeDirs = dirs }(homeDirs)
	homeDirs = in("people")

	g := &Guard{Protected: []string{in("store")}}
	for name, shows := range map[string]string{
		"bind/s s l": "/etc", "bind/s s l/certs": "/etc", "bind": "/etc", "file": "/etc",
		"chroot/proc": "/proc", "chroot/proc/1": "/proc", "chroot": "/proc",
		"me": in("people/me"), "keys": in("people/me/.ssh"), "me/.ssh": in("people/me/.ssh"),
		"store": in("store"), "disk": in("store"), "disk/store/deep": in("store"),
		"memory": in("store"),
		"again":  "/", "again/etc/ssl": "/etc",
	} {
		refuses(t, g, in(name), "would show "+shows)
	}
	// A directory that is also mounted in the store is no part of that.
	for _, name := range []string{
		"work", "work/data", "disk/other", "me/project", "people/me/project", "again/usr",
	} {
		allows(t, g, in(name), in(name))
	}
	allowed := *g
	allowed.Allowed = []string{in("bind/s s l"), in("memory")}
	for _, name := range allowed.Allowed {
		allows(t, &allowed, name, name)
	}
	refuses(t, &allowed, in("bind"), "would show /etc")
	allows(t, &Guard{Remote: true}, in("bind/s s l"), in("bind/s s l"))
}

// On a machine as it is, what people work in is mounted.
func TestOrdinaryMountsHaveNoOtherName(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	assert.NilError(t, err)
	t.Setenv("HOME", "/no/such/home")
	t.Setenv("TMPDIR", "/tmp")
	for _, name := range []string{dir, "/var/tmp", "/usr", "/usr/share", "/opt", "/srv"} {
		if leads, err := filepath.EvalSymlinks(name); err == nil && leads == name {
			allows(t, &Guard{}, name, name)
		}
	}
}
