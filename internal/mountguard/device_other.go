//go:build !linux

package mountguard

import "io/fs"

// deviceNumber returns no number: the engine's devices are those of a virtual machine.
func deviceNumber(fs.FileInfo) (n number, ok bool) { return n, false }
