//go:build unix

package execpolicy

import (
	"fmt"
	"io/fs"
	"syscall"
)

// ownerOf returns the user and group that own a file, as "1000:1000".
func ownerOf(info fs.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("%d:%d", st.Uid, st.Gid)
	}
	return nobody
}
