package hostproc

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/seed-64a260eb/cofferdam/internal/mountinfo"
	"github.com/seed-64a260eb/cofferdam/internal/random"
)

// oPath opens a file for its place alone, which takes no right to read it. Package
// syscall does not have it.
const oPath = 0x200000

// A directory is open. What is in it is reached by its descriptor, through /proc, so that
// nothing can be moved, linked or mounted on the way.
type directory struct {
	file  *os.File
	path  string // for errors
	mount string // the number of its mount; empty if the kernel does not tell
}

// removeAll removes a directory with all that is in it. It does not enter a directory
// that is on another mount than the one above it: a program may have mounted any part of
// the host, and a mount outlives the program. It removes what it can, and returns its
// first error.
func removeAll(name string) error {
	above, err := os.OpenFile(filepath.Dir(name), oPath|syscall.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer above.Close()
	// Without /proc every name below would look as if it were gone.
	if _, err := os.Stat(self(above)); err != nil {
		return fmt.Errorf("%s is left: %w", name, err)
	}
	d := directory{file: above, path: filepath.Dir(name)}
	if d.mount, err = mountOf(above); err == nil {
		err = d.remove(filepath.Base(name))
	}
	if err != nil {
		return fmt.Errorf("%s is left: %w", name, err)
	}
	return nil
}

// readInfo reads what /proc tells of an open file. A test replaces it.
var readInfo = func(f *os.File) ([]byte, error) {
	return os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", f.Fd()))
}

// mountOf returns the number of the mount that an open file is on, or nothing where the
// kernel does not tell: gVisor does not, and some keep it from an ordinary user. Any
// other error says nothing of the kernel, as that of a program without a free descriptor.
func mountOf(f *os.File) (string, error) {
	info, err := readInfo(f)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return mountinfo.ID(string(info)), err
}

// onMountOf reports whether f is on the mount that d is on. Without their numbers it
// compares devices, of which a bind mount may have the same. That leaves only what was
// mounted a moment ago: before, the directory could not be removed for being busy.
func (d directory) onMountOf(f *os.File) (bool, error) {
	mount, err := mountOf(f)
	if err != nil || mount != "" && d.mount != "" {
		return mount == d.mount, err
	}
	var ours, its syscall.Stat_t
	err = cmp.Or(syscall.Fstat(int(d.file.Fd()), &ours), syscall.Fstat(int(f.Fd()), &its))
	return ours.Dev == its.Dev, err
}

// self returns a name of an open file that leads nowhere else.
func self(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// remove removes what has that name, with all that is in it.
func (d directory) remove(name string) error { return d.removeBy(name, directory.empty) }

// removeBy removes what has that name, and has empty remove what is in it.
func (d directory) removeBy(name string, empty func(directory) error) error {
	err := d.unlink(name)
	if !notEmpty(err) {
		return err
	}
	sub, err := d.enter(name)
	if err == nil {
		err = empty(sub)
		sub.file.Close()
	}
	// A program that lives on may remove it meanwhile.
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return d.unlink(name)
}

// empty removes all that is in a directory. What is in a directory below is moved up here
// and emptied later, under a number: so depth costs no memory, and no open files.
func (d directory) empty() error {
	prefix, moved := random.Token(), 0
	up := func(sub directory) error {
		return sub.each(func(name string) error {
			err := sub.unlink(name)
			if !notEmpty(err) {
				return err
			}
			if !sub.move(name, d, prefix+strconv.Itoa(moved)) {
				// It may be a file system's limit, or the border of a subvolume.
				return sub.remove(name)
			}
			moved++
			return nil
		})
	}
	err := d.each(func(name string) error { return d.removeBy(name, up) })
	for i := 0; i < moved; i++ {
		err = cmp.Or(err, d.removeBy(prefix+strconv.Itoa(i), up))
	}
	return err
}

// each calls f with each name in a directory, and returns the first error.
func (d directory) each(f func(name string) error) (failed error) {
	var err error
	for err == nil {
		var names []string
		names, err = d.file.Readdirnames(100)
		for _, name := range names {
			failed = cmp.Or(failed, f(name))
		}
	}
	if err == io.EOF {
		return failed
	}
	return cmp.Or(failed, d.named("", err))
}

// move moves a directory, and reports whether it could.
func (d directory) move(name string, to directory, as string) bool {
	f, err := d.look(name)
	if err != nil {
		return false
	}
	f.Close()
	return os.Rename(filepath.Join(self(d.file), name), filepath.Join(self(to.file), as)) == nil
}

// unlink removes a file, a link or an empty directory. It does not look into what is
// mounted there, whose server may be dead.
func (d directory) unlink(name string) error {
	err := os.Remove(filepath.Join(self(d.file), name))
	if errors.Is(err, syscall.EBUSY) {
		return errBusy(filepath.Join(d.path, name))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return d.named(name, err)
}

// enter opens the directory of that name, if nothing is mounted there.
func (d directory) enter(name string) (directory, error) {
	f, err := d.look(name)
	if err != nil {
		return directory{}, err
	}
	defer f.Close()
	f, err = os.Open(self(f))
	return directory{f, filepath.Join(d.path, name), d.mount}, d.named(name, err)
}

// look opens the directory of that name for its place alone, if nothing is mounted there,
// and takes all rights to it: to move it is to write to it.
func (d directory) look(name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(self(d.file), name), oPath|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, d.named(name, err)
	}
	same, err := d.onMountOf(f)
	if err == nil && !same {
		err = errBusy(filepath.Join(d.path, name))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	// A command may have left it without any rights. If they can't be changed, what comes
	// next says why.
	_ = os.Chmod(self(f), 0o700)
	return f, nil
}

// named returns an error of package os with a path that means something to a reader.
func (d directory) named(name string, err error) error {
	var told *fs.PathError
	if errors.As(err, &told) {
		told.Path = filepath.Join(d.path, name)
	}
	return err
}

// errBusy is the error of what can't be removed for being busy. Something may be mounted
// there. On NFS it may be a file that was removed while a program has it open.
func errBusy(path string) error {
	return fmt.Errorf("%s is in use, or something is mounted there: end what uses it or unmount it, "+
		"and remove the directory", path)
}

// notEmpty reports whether a directory could not be removed for what is in it. Of the two
// numbers for that, EEXIST is some servers'.
func notEmpty(err error) bool { return errors.Is(err, fs.ErrExist) }
