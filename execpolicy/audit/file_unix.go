//go:build unix

package audit

import "syscall"

// openFlags refuse a link as the last part of the name, and do not wait for a reader of a
// FIFO.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
