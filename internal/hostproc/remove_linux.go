package hostproc

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/seed-64a260eb/cofferdam/internal/mountinfo"
)

// oPath opens a file for its place alone, which takes no right to read it. Package
// syscall does not have it.
const oPath = 0x200000

// A directory is open. What is in it is reached by its descriptor, through /proc, so that
// nothing can be moved, linked or mounted on the way.
type directory struct {
	file  *os.File
	path  string // for errors
	mount string // the number of its mount
}

// removeAll removes a directory with all that is in it. It does not enter a directory
// that is on another mount than the one above it: a program may have mounted any part of
// the host, and a mount outlives the program. Device numbers would not tell, for a bind
// mount has the same. It removes what it can, and returns its first error.
func removeAll(name string) error {
	above, err := os.OpenFile(filepath.Dir(name), oPath|syscall.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer above.Close()
	mount, err := mountOf(above)
	if err == nil {
		err = directory{above, filepath.Dir(name), mount}.remove(filepath.Base(name))
	}
	if err != nil {
		return fmt.Errorf("%s is left: %w", name, err)
	}
	return nil
}

// mountOf returns the number of the mount that an open file is on.
func mountOf(f *os.File) (string, error) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", f.Fd()))
	id := mountinfo.ID(string(info))
	if err == nil && id == "" {
		err = errors.New("the kernel does not tell what is mounted")
	}
	return id, err
}

// self returns a name of an open file that leads nowhere else.
func self(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// remove removes what has that name, with all that is in it.
func (d directory) remove(name string) error {
	err := d.unlink(name)
	if !errors.Is(err, syscall.ENOTEMPTY) {
		return err
	}
	// A program that lives on may remove it meanwhile.
	if err := d.empty(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return d.unlink(name)
}

// empty removes what is in the directory of that name.
func (d directory) empty(name string) error {
	sub, err := d.enter(name)
	if err != nil {
		return err
	}
	defer sub.file.Close()
	var failed error
	for err == nil {
		var names []string
		names, err = sub.file.Readdirnames(1000)
		for _, name := range names {
			failed = cmp.Or(failed, sub.remove(name))
		}
	}
	if err == io.EOF {
		return failed
	}
	return cmp.Or(failed, d.named(name, err))
}

// unlink removes a file, a link or an empty directory. It does not look into what is
// mounted there, whose server may be dead.
func (d directory) unlink(name string) error {
	err := os.Remove(filepath.Join(self(d.file), name))
	if errors.Is(err, syscall.EBUSY) {
		return errMounted(filepath.Join(d.path, name))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return d.named(name, err)
}

// enter opens the directory of that name, if nothing is mounted there.
func (d directory) enter(name string) (directory, error) {
	path := filepath.Join(d.path, name)
	f, err := os.OpenFile(filepath.Join(self(d.file), name), oPath|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return directory{}, d.named(name, err)
	}
	defer f.Close()
	mount, err := mountOf(f)
	if err != nil {
		return directory{}, err
	}
	if mount != d.mount {
		return directory{}, errMounted(path)
	}
	// A command may have left it without any rights. If they can't be changed, what comes
	// next says why.
	_ = os.Chmod(self(f), 0o700)
	f, err = os.Open(self(f))
	return directory{f, path, mount}, d.named(name, err)
}

// named returns an error of package os with a path that means something to a reader.
func (d directory) named(name string, err error) error {
	var told *fs.PathError
	if errors.As(err, &told) {
		told.Path = filepath.Join(d.path, name)
	}
	return err
}

func errMounted(path string) error {
	return fmt.Errorf("something is mounted at %s: unmount it, and remove the directory", path)
}
