package container

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// setns is the number of the system call, which package syscall does not have everywhere.
var setns = map[string]uintptr{
	"386": 346, "amd64": 308, "arm": 375, "arm64": 268, "loong64": 268, "mips": 4344, "mipsle": 4344,
	"mips64": 5303, "mips64le": 5303, "ppc64": 350, "ppc64le": 350, "riscv64": 268, "s390x": 339,
}[runtime.GOARCH]

const cloneNewNet = 0x40000000

// backlog is how many connections wait for Accept.
const backlog = 128

// MayListen returns why this program could not listen inside of containers, or nil.
func MayListen() error {
	const sysPtrace, sysAdmin = 19, 21
	status, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(status), "\nCapEff:")
	line, _, _ := strings.Cut(rest, "\n")
	caps, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	if err != nil {
		return errors.New("it is not known which capabilities this program has")
	}
	if caps&(1<<sysAdmin) == 0 || caps&(1<<sysPtrace) == 0 {
		return errors.New("this program needs the capabilities SYS_ADMIN and SYS_PTRACE, which root has")
	}
	if !ownProc() {
		return errors.New("/proc shows another process namespace than this program's")
	}
	return nil
}

// Listen returns a socket that listens at that port of 127.0.0.1 inside of the container.
// The command inside must have been heard.
func (c *Container) Listen(port int) (*os.File, error) {
	first := c.found()
	if first.PID == 0 {
		return nil, errors.New("process 1 of the container was not found on this machine")
	}
	namespace, err := first.network()
	if err != nil {
		return nil, err
	}
	defer namespace.Close()
	return listenIn(namespace, port)
}

// network opens the network namespace of process 1. It looks at the process once it has
// the file: a number that is used again is that of another.
func (p FirstProcess) network() (*os.File, error) {
	namespace, err := os.Open("/proc/" + strconv.Itoa(p.PID) + "/ns/net")
	if err != nil {
		return nil, err
	}
	same, ok := readFirst(p.PID, p.Name, make([]byte, 4<<10))
	if !ok || same.Start != p.Start {
		namespace.Close()
		return nil, errors.New("process 1 of the container has ended")
	}
	if err := checkNetwork(namespace); err != nil {
		namespace.Close()
		return nil, err
	}
	return namespace, nil
}

// checkNetwork refuses a namespace that is no container's of root's engine: this
// program's own, and one that another user could make for a process that looks like
// process 1.
func checkNetwork(namespace *os.File) error {
	inside, err := namespace.Stat()
	if err != nil {
		return err
	}
	ours, err := os.Stat("/proc/self/ns/net")
	if err != nil {
		return err
	}
	if os.SameFile(inside, ours) {
		return errors.New("the container has the network of this program")
	}
	// NS_GET_USERNS and NS_GET_OWNER_UID.
	getUserNS, getOwner := uintptr(0xb701), uintptr(0xb704)
	if strings.HasPrefix(runtime.GOARCH, "mips") || strings.HasPrefix(runtime.GOARCH, "ppc64") {
		getUserNS, getOwner = getUserNS|1<<29, getOwner|1<<29
	}
	users, _, errno := syscall.Syscall(syscall.SYS_IOCTL, namespace.Fd(), getUserNS, 0)
	if errno != 0 {
		return os.NewSyscallError("ioctl NS_GET_USERNS", errno)
	}
	defer syscall.Close(int(users))
	var owner uint32
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, users, getOwner, uintptr(unsafe.Pointer(&owner))); errno != 0 {
		return os.NewSyscallError("ioctl NS_GET_OWNER_UID", errno)
	}
	if owner != 0 {
		return fmt.Errorf("the container's network belongs to the user %d and not to root", owner)
	}
	return nil
}

// listenIn returns a socket of that namespace.
func listenIn(namespace *os.File, port int) (*os.File, error) {
	type result struct {
		socket *os.File
		err    error
	}
	made := make(chan result, 1)
	var enter func()
	enter = func() {
		// A thread that has left this program's namespace is of no use to others. It ends
		// with the goroutine that never unlocks it.
		runtime.LockOSThread()
		if syscall.Gettid() == syscall.Getpid() {
			// The runtime would keep the first thread, and with it the namespace.
			done := make(chan struct{})
			go func() {
				defer close(done)
				enter()
			}()
			<-done
			runtime.UnlockOSThread()
			return
		}
		socket, err := enterAndListen(namespace, port)
		made <- result{socket, err}
	}
	go enter()
	r := <-made
	return r.socket, r.err
}

// enterAndListen makes the calling thread one of the namespace.
func enterAndListen(namespace *os.File, port int) (*os.File, error) {
	if setns == 0 {
		return nil, fmt.Errorf("the number of setns is not known for %s", runtime.GOARCH)
	}
	if _, _, errno := syscall.RawSyscall(setns, namespace.Fd(), cloneNewNet, 0); errno != 0 {
		return nil, os.NewSyscallError("setns", errno)
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err = os.NewSyscallError("bind", syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})); err == nil {
		err = os.NewSyscallError("listen", syscall.Listen(fd, backlog))
	}
	if err != nil {
		syscall.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "listener"), nil
}
