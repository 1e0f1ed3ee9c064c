//go:build linux || darwin

package deps

import (
	"os"
	"syscall"
)

// hold locks an open file, or fails if another has it. The kernel lets go of it when the program ends.
func hold(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
