//go:build unix

package execpolicy

import (
	"io/fs"
	"syscall"
)

// ownerOf returns the account that owns a file, if it is known.
func ownerOf(info fs.FileInfo) (owner account, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return account{}, false
	}
	return account{int(st.Uid), int(st.Gid)}, true
}
