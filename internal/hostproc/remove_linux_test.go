package hostproc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/mountinfo"
)

// Without /proc nothing can be removed, and that is told.
func TestRemovalWithoutProc(t *testing.T) {
	if !enginetest.OwnMounts(t) {
		return
	}
	assert.NilError(t, syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	own := t.TempDir()
	assert.NilError(t, syscall.Mount("tmpfs", "/proc", "tmpfs", 0, ""))
	assert.ErrorContains(t, removeAll(own), own+" is left: ")
	assert.NilError(t, syscall.Unmount("/proc", 0))
	assert.NilError(t, removeAll(own))
	_, err := os.Lstat(own)
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

// What a command has mounted is not the session's, and nothing looks into it: the server
// of a file system may be dead.
func TestWhatIsMountedIsNotRemoved(t *testing.T) {
	if !enginetest.OwnMounts(t) {
		return
	}

	outside := t.TempDir()
	kept := filepath.Join(outside, "kept", "file")
	assert.NilError(t, os.Mkdir(filepath.Dir(kept), 0o755))
	assert.NilError(t, os.WriteFile(kept, []byte("text"), 0o644))
	bind := func(t *testing.T, from, to string) {
		assert.NilError(t, syscall.Mount(from, to, "", syscall.MS_BIND, ""))
	}
	for name, mount := range map[string]func(t *testing.T, own string) (at string){
		"below": func(t *testing.T, own string) string {
			at := filepath.Join(own, "workspace", "m")
			assert.NilError(t, os.Mkdir(at, 0o755))
			bind(t, outside, at)
			return at
		},
		"a file": func(t *testing.T, own string) string {
			at := filepath.Join(own, "scratch", "f")
			assert.NilError(t, os.WriteFile(at, nil, 0o644))
			bind(t, kept, at)
			return at
		},
		"the workspace": func(t *testing.T, own string) string {
			bind(t, outside, filepath.Join(own, "workspace"))
			return filepath.Join(own, "workspace")
		},
		"all": func(t *testing.T, own string) string {
			bind(t, outside, own)
			return own
		},
		"a dead server": func(t *testing.T, own string) string {
			at := filepath.Join(own, "workspace", "m")
			assert.NilError(t, os.Mkdir(at, 0o755))
			fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
			if err != nil {
				leftout.Skip(t, "no FUSE: %v", err)
			}
			t.Cleanup(func() { fuse.Close() })
			options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fuse.Fd())
			assert.NilError(t, syscall.Mount("none", at, "fuse", 0, options))
			return at
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			p, err := Start("/bin/sh", []string{"sh", "-c", "read line"}, nil, "")
			assert.NilError(t, err)
			defer p.Stdin.Close()
			defer p.Stdout.Close()
			defer p.Stderr.Close()
			at := mount(t, p.own)
			err = p.Kill(t.Context())
			assert.ErrorContains(t, err, p.own+" is left: "+at+" is in use, or something is mounted there: ")
			text, err := os.ReadFile(kept)
			assert.NilError(t, err)
			assert.Equal(t, string(text), "text")
			assert.NilError(t, syscall.Unmount(at, syscall.MNT_DETACH))
			assert.NilError(t, p.Kill(t.Context()))
			_, err = os.Lstat(p.own)
			assert.ErrorIs(t, err, os.ErrNotExist)
		})
	}
	t.Run("where no directory can be moved", func(t *testing.T) {
		base := t.TempDir()
		assert.NilError(t, syscall.Mount("none", base, "tmpfs", 0, ""))
		defer syscall.Unmount(base, syscall.MNT_DETACH)
		at := filepath.Join(base, "merged")
		for _, dir := range []string{at, base + "/lower/own/a/b/c/d", base + "/upper", base + "/work"} {
			assert.NilError(t, os.MkdirAll(dir, 0o755))
		}
		// What is in its lower layer can't be moved, only copied.
		options := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work,redirect_dir=off", base)
		if err := syscall.Mount("none", at, "overlay", 0, options); err != nil {
			leftout.Skip(t, "no overlay: %v", err)
		}
		defer syscall.Unmount(at, syscall.MNT_DETACH)
		assert.ErrorIs(t, syscall.Rename(at+"/own/a/b", at+"/b"), syscall.EXDEV)
		assert.NilError(t, removeAll(at+"/own"))
		_, err := os.Lstat(at + "/own")
		assert.ErrorIs(t, err, os.ErrNotExist)
	})
	t.Run("of no known number", func(t *testing.T) {
		for _, err := range []error{nil, syscall.EACCES} {
			withoutMountNumbers(t, err)
			own := filepath.Join(t.TempDir(), "own")
			at := filepath.Join(own, "a", "m")
			assert.NilError(t, os.MkdirAll(at, 0o755))
			bind(t, outside, at)
			err := removeAll(own)
			assert.Check(t, err != nil && strings.Contains(err.Error(), "is mounted"), err)
			_, err = os.Lstat(kept)
			assert.NilError(t, err)

			// What is on another device is told from what is not, also a moment later.
			dir := t.TempDir()
			f, err := os.Open(dir)
			assert.NilError(t, err)
			defer f.Close()
			assert.NilError(t, os.Mkdir(dir+"/m", 0o755))
			assert.NilError(t, syscall.Mount("none", dir+"/m", "tmpfs", 0, ""))
			mount, err := mountOf(f)
			assert.NilError(t, err)
			_, err = directory{f, dir, mount}.enter("m")
			assert.ErrorContains(t, err, "is mounted")
			assert.NilError(t, syscall.Unmount(dir+"/m", 0))
			// The directory above it may have moved.
			table, err := os.ReadFile("/proc/self/mountinfo")
			assert.NilError(t, err)
			for line := range strings.Lines(string(table)) {
				if m, ok := mountinfo.Parse(strings.TrimSpace(line)); ok && strings.HasPrefix(m.Target, own) {
					assert.NilError(t, syscall.Unmount(m.Target, 0))
				}
			}
			assert.NilError(t, removeAll(own))
		}
	})
	t.Run("after the look at it", func(t *testing.T) {
		dir := t.TempDir()
		at := filepath.Join(dir, "m")
		assert.NilError(t, os.Mkdir(at, 0o755))
		f, err := os.Open(dir)
		assert.NilError(t, err)
		defer f.Close()
		bind(t, outside, at)
		mount, err := mountOf(f)
		assert.NilError(t, err)
		_, err = directory{f, dir, mount}.enter("m")
		assert.ErrorContains(t, err, at+" is in use, or something is mounted there: ")
		_, err = os.Lstat(kept)
		assert.NilError(t, err)
		assert.NilError(t, syscall.Unmount(at, 0))
	})
}

// An ordinary user can't remove what is in a directory that he has no rights to, without
// seeing to it first. What links lead to keeps its rights.
func TestWhatHasNoRightsIsRemoved(t *testing.T) {
	dir := t.TempDir()
	if os.Getuid() == 0 {
		for _, d := range []string{filepath.Dir(dir), dir} {
			assert.NilError(t, os.Chmod(d, 0o777))
		}
	}
	own, outside := filepath.Join(dir, "own"), filepath.Join(dir, "outside")
	done := make(chan error)
	go func() {
		// The thread ends with the goroutine, and so does what it gives up.
		runtime.LockOSThread()
		if os.Getuid() == 0 {
			if err := syscall.Setfsuid(65534); err != nil {
				done <- err
				return
			}
		}
		done <- func() error {
			err := errors.Join(os.Mkdir(outside, 0o555), os.MkdirAll(own+"/a/b/c", 0o700),
				os.WriteFile(own+"/a/b/file", nil, 0), os.Symlink(outside, own+"/a/link"),
				os.Chmod(own+"/a/b", 0o555), os.Chmod(own+"/a", 0))
			if err != nil {
				return err
			}
			if os.RemoveAll(own) == nil {
				return errors.New("it can be removed without seeing to its rights")
			}
			return removeAll(own)
		}()
	}()
	assert.NilError(t, <-done)
	_, err := os.Lstat(own)
	assert.ErrorIs(t, err, os.ErrNotExist)
	info, err := os.Stat(outside)
	assert.NilError(t, err)
	assert.Equal(t, info.Mode().Perm(), os.FileMode(0o555))
}

// withoutMountNumbers lets /proc tell nothing of an open file, until the test ends.
func withoutMountNumbers(t *testing.T, err error) {
	old := readInfo
	t.Cleanup(func() { readInfo = old })
	readInfo = func(*os.File) ([]byte, error) { return nil, err }
}

// Not every kernel tells the numbers of mounts.
func TestAllIsRemovedWithoutNumbersOfMounts(t *testing.T) {
	for _, err := range []error{nil, syscall.EACCES} {
		withoutMountNumbers(t, err)
		own := filepath.Join(t.TempDir(), "own")
		assert.NilError(t, os.MkdirAll(filepath.Join(own, "a/b/c"), 0o755))
		assert.NilError(t, removeAll(own))
		_, err := os.Lstat(own)
		assert.ErrorIs(t, err, os.ErrNotExist)
	}
}

// A program that can't ask does not do without the answer.
func TestNothingIsRemovedWithoutADescriptor(t *testing.T) {
	withoutMountNumbers(t, syscall.EMFILE)
	own := t.TempDir()
	assert.ErrorIs(t, removeAll(own), syscall.EMFILE)
	_, err := os.Lstat(own)
	assert.NilError(t, err)
}

// Links are removed and not followed, and no number of files is too large.
func TestAllIsRemoved(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "kept")
	assert.NilError(t, os.Mkdir(outside, 0o755))
	own := filepath.Join(t.TempDir(), "own")
	for i := range 2500 {
		assert.NilError(t, os.MkdirAll(filepath.Join(own, "many", fmt.Sprint(i)), 0o755))
	}
	assert.NilError(t, os.MkdirAll(filepath.Join(own, strings.Repeat("d/", 500)), 0o755))
	assert.NilError(t, os.Symlink(filepath.Dir(outside), filepath.Join(own, "many", "link")))
	assert.NilError(t, os.WriteFile(filepath.Join(own, "file"), nil, 0))
	assert.NilError(t, removeAll(own))
	_, err := os.Lstat(own)
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = os.Lstat(outside)
	assert.NilError(t, err)
	assert.NilError(t, removeAll(own))
	assert.NilError(t, removeAll(filepath.Join(own, "none")))
}

// Depth costs neither memory nor open files, or a command could end the host's program.
func TestADeepTreeIsRemoved(t *testing.T) {
	own := filepath.Join(t.TempDir(), "own")
	assert.NilError(t, os.Mkdir(own, 0o755))
	f, err := os.Open(own)
	assert.NilError(t, err)
	name := strings.Repeat("d", 255)
	for range 3000 {
		assert.NilError(t, os.WriteFile(filepath.Join(self(f), "file"), nil, 0o644))
		assert.NilError(t, os.Mkdir(filepath.Join(self(f), name), 0o755))
		sub, err := os.Open(filepath.Join(self(f), name))
		assert.NilError(t, err)
		assert.NilError(t, f.Close())
		f = sub
	}
	assert.NilError(t, f.Close())

	var limit syscall.Rlimit
	assert.NilError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	assert.NilError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 64, Max: limit.Max}))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	assert.NilError(t, removeAll(own))
	runtime.ReadMemStats(&after)
	_, err = os.Lstat(own)
	assert.ErrorIs(t, err, os.ErrNotExist)
	used := after.TotalAlloc - before.TotalAlloc
	assert.Assert(t, used < 100<<20, "%d bytes", used)
}

// Who ends it twice at a time has removed everything twice.
func TestKillAtTheSameTime(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	p, err := Start("/bin/sh", []string{"sh", "-c", "read line"}, nil, "")
	assert.NilError(t, err)
	defer p.Stdin.Close()
	defer p.Stdout.Close()
	defer p.Stderr.Close()
	for i := range 200 {
		assert.NilError(t, os.MkdirAll(filepath.Join(p.Scratch, fmt.Sprint(i), "a/b/c/d/e"), 0o755))
	}
	done := make(chan error)
	for range 4 {
		go func() { done <- p.Kill(t.Context()) }()
	}
	for range 4 {
		assert.Check(t, <-done)
	}
}

// Servers of files have either number for it.
func TestNotEmpty(t *testing.T) {
	for _, number := range []syscall.Errno{syscall.ENOTEMPTY, syscall.EEXIST} {
		assert.Check(t, notEmpty(&os.PathError{Op: "remove", Path: "d", Err: number}), number)
	}
	for _, number := range []syscall.Errno{0, syscall.EBUSY, syscall.ENOENT, syscall.EACCES} {
		assert.Check(t, !notEmpty(&os.PathError{Op: "remove", Path: "d", Err: number}), number)
	}
}
