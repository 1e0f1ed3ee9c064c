//go:build unix

package account

import (
	"io/fs"
	"syscall"
)

// OwnerOf returns the account that owns a file, if it is known.
func OwnerOf(info fs.FileInfo) (owner Account, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Account{}, false
	}
	return Account{int(st.Uid), int(st.Gid)}, true
}
