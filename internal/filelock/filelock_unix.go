//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package filelock

import (
	"errors"
	"os"
	"syscall"
)

const (
	exclusive    = syscall.LOCK_EX
	exclusiveNow = syscall.LOCK_EX | syscall.LOCK_NB
	shared       = syscall.LOCK_SH
)

func unlock(f *os.File) error { return lock(f, syscall.LOCK_UN) }

// lock goes through the file's own connection, so that a file that is closed meanwhile is
// not taken for another that got its number.
func lock(f *os.File, how int) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		for failed = syscall.EINTR; failed == syscall.EINTR; {
			failed = syscall.Flock(int(fd), how)
		}
	})
	switch {
	case err != nil:
		return os.ErrClosed // the one reason for which Control fails
	case failed == syscall.ENOLCK:
		return errors.ErrUnsupported // a network file system without its lock service
	}
	return failed
}
