package private

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// setns is the number of the system call, which package syscall does not know everywhere.
var setns = map[string]uintptr{"386": 346, "amd64": 308, "arm": 375, "arm64": 268, "loong64": 268, "ppc64le": 350,
	"riscv64": 268, "s390x": 339}[runtime.GOARCH]

// inNetwork runs f in the daemon's network.
func (d *Daemon) inNetwork(f func() error) error {
	if setns == 0 {
		return fmt.Errorf("%w: the networks of others on %s", errors.ErrUnsupported, runtime.GOARCH)
	}
	network, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", d.first.Process.Pid))
	if err != nil {
		return err
	}
	defer network.Close()
	done := make(chan error, 1)
	go func() {
		// Never unlocked, so that the thread ends here, and with it its place.
		runtime.LockOSThread()
		if _, _, errno := syscall.RawSyscall(setns, network.Fd(), syscall.CLONE_NEWNET, 0); errno != 0 {
			done <- os.NewSyscallError("setns", errno)
			return
		}
		done <- f()
	}()
	return <-done
}

// loopback gives the network of the thread an address.
func loopback() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer syscall.Close(fd)
	request := struct {
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{flags: syscall.IFF_UP | syscall.IFF_RUNNING}
	copy(request.name[:], "lo")
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return os.NewSyscallError("ioctl", errno)
	}
	return nil
}
