package account

import "syscall"

// hasACL reports whether a file has an access control list, beside which its mode does
// not tell who may use it.
func hasACL(name string) bool {
	size, err := syscall.Getxattr(name, "system.posix_acl_access", nil)
	return err == nil && size > 0
}
