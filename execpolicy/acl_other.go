//go:build !linux

package execpolicy

import "io/fs"

// hasACL is not asked: modes are judged on Linux only.
func hasACL(string) bool { return false }

// isHardLink is not asked either.
func isHardLink(fs.FileInfo) bool { return false }
