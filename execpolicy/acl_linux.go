package execpolicy

import (
	"io/fs"
	"syscall"
)

// hasACL reports whether a file has an access control list, beside which its mode does
// not tell who may use it.
func hasACL(name string) bool {
	size, err := syscall.Getxattr(name, "system.posix_acl_access", nil)
	return err == nil && size > 0
}

// isHardLink reports whether a file of root's has another name, which may be anywhere in
// its file system.
func isHardLink(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Mode&syscall.S_IFMT == syscall.S_IFREG && st.Uid == 0 && st.Nlink > 1
}
