package setup

import (
	"os"
	"path/filepath"
	"syscall"
)

// lock waits for a lock among all processes of the user. The kernel gives it back if its holder dies.
func lock() (unlock func(), err error) {
	dir, err := cacheDir()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "image.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
