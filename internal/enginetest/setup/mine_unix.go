//go:build unix

package setup

import (
	"io/fs"
	"os"
	"syscall"
)

// mine reports whether a file belongs to this program's user.
func mine(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
