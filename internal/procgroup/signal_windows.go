package procgroup

import (
	"os"
	"syscall"
)

// A new group keeps the console's Ctrl+C, which is meant for this process, away from its
// children.
func attributes(bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

func terminate(p *os.Process) error { return p.Kill() }

func kill(p *os.Process) error { return p.Kill() }

func killRest(int) {}
