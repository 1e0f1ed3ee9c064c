package mountguard

import (
	"io/fs"
	"syscall"
)

// isHardLink reports whether a file of root's has another name, which may be anywhere in
// its file system.
func isHardLink(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Mode&syscall.S_IFMT == syscall.S_IFREG && st.Uid == 0 && st.Nlink > 1
}
