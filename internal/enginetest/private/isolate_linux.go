package private

import (
	"os/exec"
	"syscall"
)

// isolate has the command run as process 1 of namespaces of its own. What it mounts there
// is seen by nobody else: the mounts are unshared, and not cloned, because then the
// standard library makes them private first.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:   syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Unshareflags: syscall.CLONE_NEWNS,
		Setsid:       true,
	}
}
