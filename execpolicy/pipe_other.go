//go:build !linux

package execpolicy

import "os"

// widen would let a pipe hold more.
func widen(*os.File) {}
