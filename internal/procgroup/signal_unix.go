//go:build unix

package procgroup

import (
	"fmt"
	"os"
	"syscall"
)

func attributes(newSession bool) *syscall.SysProcAttr {
	if newSession {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true}
}

func terminate(p *os.Process) error { return signalGroup(p.Pid, syscall.SIGTERM) }

func kill(p *os.Process) error { return signalGroup(p.Pid, syscall.SIGKILL) }

// killRest kills what is left of a group whose leader is dead. That nothing is left is no
// error.
func killRest(pid int) { _ = signalGroup(pid, syscall.SIGKILL) }

// signalGroup signals the group that pid leads. Group 0 would be our own, 1 and -1
// everything there is: a number that is not plainly a child's is never passed on.
func signalGroup(pid int, sig syscall.Signal) error {
	if pid <= 1 || pid == syscall.Getpgrp() || pid == os.Getpid() {
		return fmt.Errorf("refused to signal process group %d", pid)
	}
	if err := syscall.Kill(-pid, sig); err != nil {
		if err == syscall.ESRCH {
			return os.ErrProcessDone
		}
		return os.NewSyscallError("kill", err)
	}
	return nil
}
