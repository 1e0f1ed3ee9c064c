package setup

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/seed-64a260eb/cofferdam/internal/filelock"
)

// Lock waits for a lock of that name among all processes of the user, alone or with
// others that share it. The kernel gives it back if its holder dies. Where there are no
// such locks there are no containers either, and Lock does nothing.
func Lock(name string, shared bool) (unlock func(), err error) {
	dir, err := cacheDir()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, name+".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	lock := filelock.Lock
	if shared {
		lock = filelock.RLock
	}
	if err := lock(f); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
