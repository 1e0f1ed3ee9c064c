package execpolicy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

// ownMountsVar is set in a test binary that has a mount namespace of its own.
const ownMountsVar = "COFFERDAM_OWN_MOUNTS"

// What is mounted, under any name, is what the kernel says it is.
func TestMountsByAnotherName(t *testing.T) {
	if os.Getenv(ownMountsVar) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), ownMountsVar+"=1")
		// What is mounted there is seen by nobody else, and ends with it.
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		out, err := cmd.CombinedOutput()
		if os.Geteuid() != 0 && err != nil {
			leftout.Skip(t, "only root mounts")
		}
		assert.NilError(t, err, "%s", out)
		assert.Assert(t, strings.Contains(string(out), "--- PASS: "+t.Name()), "%s", out)
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

	p := DockerPolicy{ProtectedPaths: []string{in("store")}}
	for _, e := range []*dockercli.Engine{{}, {Kind: dockercli.Podman}} {
		for name, shows := range map[string]string{
			"bind/s s l": "/etc", "bind/s s l/certs": "/etc", "bind": "/etc", "file": "/etc",
			"chroot/proc": "/proc", "chroot/proc/1": "/proc", "chroot": "/proc",
			"me": in("people/me"), "keys": in("people/me/.ssh"), "me/.ssh": in("people/me/.ssh"),
			"store": in("store"), "disk": in("store"), "disk/store/deep": in("store"),
			"memory": in("store"),
			"again":  "/", "again/etc/ssl": "/etc",
		} {
			refuses(t, p, e, in(name), "would show "+shows)
		}
		// A directory that is also mounted in the store is no part of that.
		for _, name := range []string{
			"work", "work/data", "disk/other", "me/project", "people/me/project", "again/usr",
		} {
			mounts(t, p, e, in(name), in(name))
		}
		allowed := p
		allowed.AllowUnsafeMounts = []string{in("bind/s s l"), in("memory")}
		for _, name := range allowed.AllowUnsafeMounts {
			mounts(t, allowed, e, name, name)
		}
		refuses(t, allowed, e, in("bind"), "would show /etc")
	}
	mounts(t, p, &dockercli.Engine{Remote: true}, in("bind/s s l"), in("bind/s s l"))
	assert.ErrorContains(t, p.CheckWorkspace(in("bind")), "would show /etc")
}

// On a machine as it is, what people work in is mounted.
func TestOrdinaryMountsHaveNoOtherName(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	assert.NilError(t, err)
	t.Setenv("HOME", "/no/such/home")
	for _, name := range []string{dir, "/tmp", "/usr", "/usr/share", "/opt", "/srv"} {
		if leads, err := filepath.EvalSymlinks(name); err == nil && leads == name {
			mounts(t, DockerPolicy{}, &dockercli.Engine{}, name, name)
		}
	}
}

// A file of root's may be anything under another name. Others' files are theirs.
func TestHardLinksAreNotMounted(t *testing.T) {
	if os.Geteuid() != 0 {
		leftout.Skip(t, "only root has files of root's")
	}
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		if e.Remote {
			return // its files are not here
		}
		dir, err := filepath.EvalSymlinks(t.TempDir())
		assert.NilError(t, err)
		in := func(name string) string { return filepath.Join(dir, name) }
		for _, name := range []string{"shadow", "single", "theirs"} {
			assert.NilError(t, os.WriteFile(in(name), []byte("x"), 0o644))
		}
		assert.NilError(t, os.Chmod(dir, 0o755))
		assert.NilError(t, os.Link(in("shadow"), in("data")))
		assert.NilError(t, os.Link(in("theirs"), in("too")))
		assert.NilError(t, os.Chown(in("theirs"), enginetest.UID, enginetest.GID))
		assert.NilError(t, os.Mkdir(in("sub"), 0o755))
		p := DockerPolicy{Engine: e.Engine, Image: e.Image}
		p.Mounts = []dockercli.Mount{{Source: in("data"), Target: "/data"}}
		_, err = Start(t.Context(), p, Spec{Labels: e.Labels})
		assert.ErrorIs(t, err, ErrInvalid)
		assert.ErrorContains(t, err, "would show a file of root's that has another name")
		refuses(t, DockerPolicy{}, e.Engine, in("shadow"), "another name")
		for _, name := range []string{"single", "theirs", "too", "sub", "."} {
			mounts(t, DockerPolicy{}, e.Engine, in(name), in(name))
		}

		p.AllowUnsafeMounts = []string{in("data")}
		s, err := Start(t.Context(), p, Spec{Labels: e.Labels})
		assert.NilError(t, err)
		r, err := s.Run(t.Context(), Command{Script: "cat /data"})
		assert.NilError(t, err)
		assert.Equal(t, string(r.Stdout), "x")
		assert.NilError(t, s.Close())
	})
}
