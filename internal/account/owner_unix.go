//go:build unix

package account

import (
	"io/fs"
	"syscall"
)

// OwnerOf returns the account that owns a file, if it is known. It is not if info is nil:
// the file may have gone since it was found.
func OwnerOf(info fs.FileInfo) (owner Account, ok bool) {
	if info == nil {
		return Account{}, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Account{}, false
	}
	return Account{int(st.Uid), int(st.Gid)}, true
}
