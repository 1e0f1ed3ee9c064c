package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"
	"time"
)

// A lease on a file is waited for so long, and looked at so often.
const (
	leaseTime  = 2 * time.Second
	leasePause = 10 * time.Millisecond
)

// open opens what the host has of that name. It waits for nothing but a lease, whatever
// somebody has made of the name: one that was a file's may be that of a fifo that nobody
// writes to.
func open(root *os.Root, name string) (f *os.File, mode fs.FileMode, err error) {
	// A server that has a lease on the file is told of the first try, and gives it up.
	for tries := leaseTime / leasePause; ; tries-- {
		f, err = root.OpenFile(name, os.O_RDONLY|dontWait, 0)
		if !errors.Is(err, syscall.EAGAIN) || tries == 0 {
			break
		}
		time.Sleep(leasePause)
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Mode(), nil
}

// lstat returns the type of what the host has of that name, and reports whether the name
// exists.
func lstat(root *os.Root, name string) (mode fs.FileMode, there bool, err error) {
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	return info.Mode(), true, nil
}

// parents returns the directories that a name is in, the outermost first.
func parents(name string) []string {
	var all []string
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		all = append(all, dir)
	}
	slices.Reverse(all)
	return all
}
