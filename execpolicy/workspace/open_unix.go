//go:build unix

package workspace

import "syscall"

// dontWait lets a fifo be opened that nobody writes to.
const dontWait = syscall.O_NONBLOCK
