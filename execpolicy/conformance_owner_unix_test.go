//go:build unix

package execpolicy_test

import (
	"os"
	"syscall"
)

// mkdirFor makes a directory that belongs to somebody, if this is root, else to this
// user.
func mkdirFor(dir string, uid, gid int) error {
	if err := os.Mkdir(dir, 0o755); err != nil || os.Getuid() != 0 {
		return err
	}
	return os.Chown(dir, uid, gid)
}

func ownerOf(path string) (uid, gid int, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	st := info.Sys().(*syscall.Stat_t)
	return int(st.Uid), int(st.Gid), nil
}
