package fakeengine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
)

// isolation returns why no container can be had here, or nil. It is tried out once.
var isolation = sync.OnceValue(func() error {
	if !ready {
		return errors.New("TestMain has to call fakeengine.Main first")
	}
	dir, err := os.MkdirTemp("", "fakeengine-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	s := spec{Argv: []string{"sh", "-c", "[ $$ = 1 ] && [ -e /proc/1/stat ]"},
		Env: []string{"PATH=" + containerPath}, Workdir: "/", OwnNetwork: true}
	c, refused := start(dockercli.Docker, s, dir, [3]*os.File{null, null, null})
	if refused != nil {
		return refused
	}
	refused = c.release()
	if code := c.wait(); refused == nil && code != 0 {
		return fmt.Errorf("a command in namespaces of its own failed with %d", code)
	}
	if refused != nil {
		return refused
	}
	return nil
})

// A child is process 1 of a container, of which this process is the parent.
type child struct {
	process
	kind   dockercli.Kind
	cmd    *exec.Cmd
	orders *os.File
	report *os.File
	task   task
}

// A task is what process 1 is told. Root is a directory that its own root may be mounted
// on.
type task struct {
	Spec spec
	Root string
}

// start starts a container's process 1, which waits to be released. This goroutine has to
// live as long as the container.
func start(kind dockercli.Kind, s spec, root string, stdio [3]*os.File) (*child, *refusal) {
	failed := func(err error) (*child, *refusal) { return nil, refuseStart(kind, 128, err.Error()) }
	ordersRead, orders, err := os.Pipe()
	if err != nil {
		return failed(err)
	}
	defer ordersRead.Close()
	report, reportWrite, err := os.Pipe()
	if err != nil {
		orders.Close()
		return failed(err)
	}
	defer reportWrite.Close()
	cmd := self(kind, initVerb)
	cmd.Dir = "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdio[0], stdio[1], stdio[2]
	cmd.ExtraFiles = []*os.File{ordersRead, reportWrite}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Setsid:     true,
		Pdeathsig:  syscall.SIGKILL,
	}
	if s.OwnNetwork {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWNET
	}
	if os.Geteuid() != 0 {
		s.ownUsers(cmd.SysProcAttr)
	}
	// The signal comes when the thread dies.
	runtime.LockOSThread()
	if err := cmd.Start(); err != nil {
		orders.Close()
		report.Close()
		return failed(err)
	}
	return &child{process: identify(cmd.Process.Pid), kind: kind, cmd: cmd, orders: orders, report: report,
		task: task{s, root}}, nil
}

// ownUsers gives a container of an engine that is not root's a user namespace. It has one
// user and one group: the container's, which are this process's outside.
func (s spec) ownUsers(attr *syscall.SysProcAttr) {
	u, _ := lookUser(s.User) // process 1 says if there is none
	attr.Cloneflags |= syscall.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: u.UID, HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: u.GID, HostID: os.Getegid(), Size: 1}}
	// A user that is not root in there has no others after exec.
	for n := range capabilities {
		attr.AmbientCaps = append(attr.AmbientCaps, uintptr(n))
	}
}

// release lets it become the command, and returns why that failed, or nil.
func (c *child) release() *refusal {
	defer c.report.Close()
	err := json.NewEncoder(c.orders).Encode(c.task)
	c.orders.Close()
	if err != nil {
		return nil // it was killed, as its status will tell
	}
	var r refusal
	if json.NewDecoder(c.report).Decode(&r) != nil {
		return nil
	}
	return &r
}

// kill kills the container. It may be called at any time.
func (c *child) kill() { _ = c.cmd.Process.Kill() }

// wait returns the exit code, 128 and the signal's number if one ended it.
func (c *child) wait() int {
	_ = c.cmd.Wait()
	return exitCode(c.cmd.ProcessState)
}

func exitCode(state *os.ProcessState) int {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}

// initialize is the whole program of process 1 until the container's command takes its
// place.
func initialize(kind dockercli.Kind) int {
	runtime.LockOSThread()
	closeOnExec(3)
	closeOnExec(4)
	var t task
	if os.Getpid() != 1 || json.NewDecoder(os.NewFile(3, "orders")).Decode(&t) != nil {
		return 1
	}
	report := os.NewFile(4, "report")
	r := t.become(kind, report)
	_ = json.NewEncoder(report).Encode(r)
	return 1
}

// become returns only if it fails.
func (t task) become(kind dockercli.Kind, report *os.File) *refusal {
	if err := t.makeRoot(); err != nil {
		return refuseStart(kind, 126, "error during container init: "+err.Error())
	}
	s := t.Spec
	if kind == dockercli.Docker {
		_ = os.MkdirAll(s.Workdir, 0o755)
	}
	if s.ReadOnly {
		if err := remountReadOnly("/"); err != nil {
			return refuseStart(kind, 126, "error during container init: "+err.Error())
		}
	}
	u, err := lookUser(s.User)
	if err != nil {
		return refuseRun(kind, refusal{125, err.Error()}, refusal{126, err.Error()})
	}
	if err := os.Chdir(s.Workdir); err != nil {
		return refuseRun(kind, refusal{126, err.Error()},
			refusal{126, fmt.Sprintf("workdir %q does not exist on container %s", s.Workdir, s.ID)})
	}
	s.Env = withHome(s.Env, u)
	path, code, err := lookCommand(s)
	if err != nil {
		return refuseStart(kind, code, err.Error())
	}
	err = errors.Join(
		wrap("sethostname", syscall.Sethostname([]byte(s.Hostname))),
		giveStdio(u),
		restrict(s),
		leaveGroups(),
		wrap("setgid", syscall.Setgid(u.GID)),
		wrap("setuid", syscall.Setuid(u.UID)),
		// A change of the user has cleared it.
		prctl(prSetPdeathsig, uintptr(syscall.SIGKILL)))
	if err != nil {
		return refuseStart(kind, 126, "error during container init: "+err.Error())
	}
	err = syscall.Exec(path, s.Argv, s.Env)
	if err == syscall.ENOEXEC {
		// The engines say so as the container.
		report.Close()
		fmt.Fprintf(os.Stderr, "exec %s: exec format error\n", path)
		os.Exit(1)
	}
	return refuseStart(kind, 126, fmt.Sprintf("exec: %q: %v", s.Argv[0], err))
}

// leaveGroups leaves all groups but the container's. In a user namespace that is not
// root's the kernel lets nobody leave any.
func leaveGroups() error {
	if text, _ := os.ReadFile("/proc/self/setgroups"); string(text) == "deny\n" {
		return nil
	}
	return wrap("setgroups", syscall.Setgroups(nil))
}

func withHome(env []string, u user) []string {
	for _, entry := range env {
		if strings.HasPrefix(entry, "HOME=") {
			return env
		}
	}
	return append(env, "HOME="+u.Home)
}

// giveStdio lets the user open its own stdin, stdout and stderr anew, as the engines'
// runtime does.
func giveStdio(u user) error {
	for fd := range 3 {
		var st syscall.Stat_t
		if err := syscall.Fstat(fd, &st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFIFO {
			continue
		}
		if err := syscall.Fchown(fd, u.UID, u.GID); err != nil {
			return wrap("fchown", err)
		}
	}
	return nil
}

// lookCommand returns the program's file, or the exit code and why there is none.
func lookCommand(s spec) (path string, code int, err error) {
	name := s.Argv[0]
	executable := func(path string) error {
		info, err := os.Stat(path)
		if err == nil && (info.IsDir() || info.Mode()&0o111 == 0) {
			return os.ErrPermission
		}
		return err
	}
	if strings.Contains(name, "/") {
		err := executable(name)
		switch {
		case errors.Is(err, os.ErrPermission):
			return "", 126, fmt.Errorf("exec: %q: permission denied", name)
		case err != nil:
			return "", 127, fmt.Errorf("exec: %q: %w", name, err)
		}
		return name, 0, nil
	}
	for _, entry := range s.Env {
		dirs, ok := strings.CutPrefix(entry, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(dirs) {
			if path := filepath.Join(dir, name); dir != "" && executable(path) == nil {
				return path, 0, nil
			}
		}
	}
	return "", 127, fmt.Errorf("exec: %q: executable file not found in $PATH", name)
}

func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// From linux/prctl.h and linux/capability.h, which package syscall has not.
const (
	prSetPdeathsig   = 1
	prCapbsetDrop    = 24
	prSetNoNewPrivs  = 38
	prCapAmbient     = 47
	prAmbientClear   = 4
	capabilityFormat = 0x20080522
)

func prctl(option int, arg uintptr) error {
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, uintptr(option), arg, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("prctl %d: %w", option, errno)
	}
	return nil
}

// restrict takes from this thread, and from what it executes, the capabilities that the
// container is not to have.
func restrict(s spec) error {
	keep := map[string]bool{}
	for _, name := range s.Capabilities {
		keep[name] = true
	}
	for n := range 64 {
		if n < len(capabilities) && keep[capabilities[n]] {
			continue
		}
		if err := prctl(prCapbsetDrop, uintptr(n)); errors.Is(err, syscall.EINVAL) {
			break // the kernel has no more
		} else if err != nil {
			return err
		}
	}
	header := struct {
		version uint32
		pid     int32
	}{version: capabilityFormat}
	var sets [2]struct{ effective, permitted, inheritable uint32 }
	for _, call := range []uintptr{syscall.SYS_CAPGET, syscall.SYS_CAPSET} {
		if _, _, errno := syscall.RawSyscall(call, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&sets)),
			0); errno != 0 {
			return fmt.Errorf("capabilities: %w", errno)
		}
		sets[0].inheritable, sets[1].inheritable = 0, 0
	}
	if err := prctl(prCapAmbient, prAmbientClear); err != nil {
		return err
	}
	if s.NoNewPrivileges {
		return prctl(prSetNoNewPrivs, 1)
	}
	return nil
}

// makeRoot makes a file system of the container's own and goes into it. All of it is in
// this mount namespace only.
func (t task) makeRoot() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	at := func(path string) string { return filepath.Join(t.Root, path) }
	if err := mountTmpfs(t.Root, syscall.MS_NODEV|syscall.MS_NOSUID, "mode=0755"); err != nil {
		return err
	}
	for _, dir := range []string{"proc", "sys", "dev", "root", "run", "var/tmp", "tmp"} {
		if err := os.MkdirAll(at(dir), 0o755); err != nil {
			return err
		}
	}
	for _, dir := range []string{"var/tmp", "tmp"} {
		if err := os.Chmod(at(dir), 0o777|os.ModeSticky); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		if to, err := os.Readlink(dir); err == nil {
			if err := os.Symlink(to, at(dir)); err != nil {
				return err
			}
			continue
		}
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		if err := bind(dir, at(dir), true); err != nil {
			return err
		}
	}
	if err := syscall.Mount("proc", at("proc"), "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC,
		""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	// Through these root would reach the machine itself.
	for _, path := range []string{"proc/sys", "proc/sysrq-trigger", "proc/irq", "proc/bus", "proc/fs"} {
		if _, err := os.Stat(at(path)); err != nil {
			continue
		}
		if err := bind(at(path), at(path), true); err != nil {
			return err
		}
	}
	err := syscall.Mount("sysfs", at("sys"), "sysfs",
		syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "")
	if errors.Is(err, syscall.EPERM) {
		// It would show the network's devices, which are another user namespace's.
		err = mountTmpfs(at("sys"), syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "")
	}
	if err != nil {
		return fmt.Errorf("mounting /sys: %w", err)
	}
	if err := makeDevices(at("dev")); err != nil {
		return err
	}
	for _, m := range t.Spec.Mounts {
		if err := m.mount(at(m.Target)); err != nil {
			return fmt.Errorf("error mounting %q to rootfs at %q: %w", m.Source, m.Target, err)
		}
	}
	if err := os.Chdir(t.Root); err != nil {
		return err
	}
	// The old root is put on top of the new one, and taken away.
	if err := syscall.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := syscall.Unmount(".", syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the old root: %w", err)
	}
	return os.Chdir("/")
}

// makeDevices makes a /dev that has the harmless ones only.
func makeDevices(dev string) error {
	if err := mountTmpfs(dev, syscall.MS_NOSUID|syscall.MS_NOEXEC, "mode=0755"); err != nil {
		return err
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom"} {
		target := filepath.Join(dev, name)
		if err := os.WriteFile(target, nil, 0o666); err != nil {
			return err
		}
		if err := syscall.Mount("/dev/"+name, target, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("/dev/%s: %w", name, err)
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0",
		"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	shm := filepath.Join(dev, "shm")
	if err := os.Mkdir(shm, 0o755); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		// In a user namespace it is the container's user who owns it.
		if err := remountReadOnly(dev); err != nil {
			return err
		}
	}
	return mountTmpfs(shm, syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "mode=1777,size=64m")
}

func mountTmpfs(target string, flags uintptr, data string) error {
	if err := syscall.Mount("tmpfs", target, "tmpfs", flags, data); err != nil {
		return fmt.Errorf("tmpfs: %w", err)
	}
	return nil
}

// bind makes source visible at target, without what is mounted below it.
func bind(source, target string, readOnly bool) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(target, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(target), 0o755); err == nil {
		var f *os.File
		if f, err = os.OpenFile(target, os.O_CREATE, 0o644); err == nil {
			err = f.Close()
		}
	}
	if err != nil {
		return err
	}
	if err := syscall.Mount(source, target, "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	if readOnly {
		return remountReadOnly(target)
	}
	return nil
}

func remountReadOnly(target string) error {
	return syscall.Mount("", target, "",
		syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV, "")
}

func (m mount) mount(target string) error {
	if m.Source != "" {
		return bind(m.Source, target, m.ReadOnly)
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	var flags uintptr
	for _, flag := range m.Flags {
		flags |= map[string]uintptr{"noexec": syscall.MS_NOEXEC, "nosuid": syscall.MS_NOSUID, "nodev": syscall.MS_NODEV}[flag]
	}
	if m.ReadOnly {
		flags |= syscall.MS_RDONLY
	}
	return mountTmpfs(target, flags, m.Data)
}

// execDelay is how long docker waits for streams that something else holds open when an
// exec has ended.
const execDelay = 2 * time.Second

// enter runs one more command in the container of which p is process 1, and returns its
// exit code. It changes this thread for good.
func enter(p process, s spec, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	runtime.LockOSThread()
	names := []string{"ipc", "uts", "net", "pid", "mnt"}
	if os.Geteuid() != 0 {
		names = append(names, "user")
	}
	var namespaces []*os.File
	for _, name := range names {
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", p.Pid, name))
		if err != nil {
			return 126, err
		}
		defer f.Close()
		namespaces = append(namespaces, f)
	}
	if !p.alive() {
		return 126, errors.New("the container has ended")
	}
	u, err := lookUser(s.User)
	if err != nil {
		return 126, err
	}
	streams, err := givenPipes(u)
	if err != nil {
		return 126, err
	}
	defer streams.CloseOutside()
	defer streams.CloseInside()
	var cmd *exec.Cmd
	var code int
	if os.Geteuid() == 0 {
		cmd, code, err = s.inside(namespaces, u)
	} else {
		cmd, code, err = s.insideUsers(names, namespaces)
	}
	if err != nil {
		return code, err
	}
	cmd.Env = withHome(s.Env, u)
	if stdin != nil {
		cmd.Stdin = streams.Inside[0]
	}
	cmd.Stdout, cmd.Stderr = streams.Inside[1], streams.Inside[2]
	if err := cmd.Start(); err != nil {
		return 126, fmt.Errorf("exec: %q: %w", s.Argv[0], err)
	}
	streams.CloseInside()
	if stdin != nil {
		go func() {
			_, _ = io.Copy(streams.Outside[0], stdin)
			streams.Outside[0].Close()
		}()
	}
	var copies sync.WaitGroup
	for i, to := range []io.Writer{stdout, stderr} {
		copies.Go(func() { _, _ = io.Copy(to, streams.Outside[1+i]) })
	}
	if os.Geteuid() != 0 {
		defer resume(cmd.Process)()
	}
	_ = cmd.Wait()
	late := time.AfterFunc(execDelay, streams.CloseOutside)
	defer late.Stop()
	copies.Wait()
	return exitCode(cmd.ProcessState), nil
}

// givenPipes returns pipes of which the ends inside are the user's, as giveStdio has it.
// The command must not hold what the client was given.
func givenPipes(u user) (*procgroup.Pipes, error) {
	p, err := procgroup.NewPipes()
	if err != nil || os.Geteuid() != 0 {
		return p, err
	}
	for _, f := range p.Inside {
		if err := f.Chown(u.UID, u.GID); err != nil {
			p.CloseInside()
			p.CloseOutside()
			return nil, err
		}
	}
	return p, nil
}

// resume goes on resuming nsenter, until end is called: what stops all that is inside
// stops its child too, and then it stops itself. If this client has gone by then, the
// container does not end.
func resume(nsenter *os.Process) (end func()) {
	ended := make(chan struct{})
	go func() {
		for tick := time.Tick(100 * time.Millisecond); ; {
			select {
			case <-tick:
				_ = nsenter.Signal(syscall.SIGCONT)
			case <-ended:
				return
			}
		}
	}()
	return func() { close(ended) }
}

// inside enters the namespaces with this thread, and returns the command to run there.
func (s spec) inside(namespaces []*os.File, u user) (cmd *exec.Cmd, code int, err error) {
	setns := map[string]uintptr{"amd64": 308, "arm64": 268, "riscv64": 268, "loong64": 268, "386": 346,
		"arm": 375, "s390x": 339, "ppc64le": 350}[runtime.GOARCH]
	if setns == 0 {
		return nil, 126, fmt.Errorf("the number of setns is not known for %s", runtime.GOARCH)
	}
	// Threads share their root, and the mount namespace of one that does can't be
	// changed.
	if err := syscall.Unshare(syscall.CLONE_FS); err != nil {
		return nil, 126, err
	}
	for _, f := range namespaces {
		if _, _, errno := syscall.RawSyscall(setns, f.Fd(), 0, 0); errno != 0 {
			return nil, 126, fmt.Errorf("setns: %w", errno)
		}
	}
	path, code, err := lookCommand(s)
	if err != nil {
		return nil, code, err
	}
	if err := restrict(s); err != nil {
		return nil, 126, err
	}
	return &exec.Cmd{
		Path: path, Args: s.Argv, Dir: s.Workdir,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true,
			Credential: &syscall.Credential{Uid: uint32(u.UID), Gid: uint32(u.GID)}},
	}, 0, nil
}

// insideUsers returns what runs the command there as the container's user, whose
// capabilities only exec takes away. A program with threads can't enter a user namespace.
// Nsenter stops itself with its child if that is stopped, and then would wait for it no
// more: so that is a shell, which does not stop with the command.
func (s spec) insideUsers(names []string, namespaces []*os.File) (cmd *exec.Cmd, code int, err error) {
	if _, code, err := lookCommand(s); err != nil && !strings.Contains(s.Argv[0], "/") {
		return nil, code, err
	}
	path, err := exec.LookPath("nsenter")
	if err != nil {
		return nil, 126, err
	}
	argv := []string{path, "--preserve-credentials"}
	for i, name := range names {
		if name == "mnt" {
			name = "mount"
		}
		argv = append(argv, fmt.Sprintf("--%s=/proc/self/fd/%d", name, 3+i))
	}
	argv = append(argv, "/bin/sh", "-c", `cd -- "$1" && shift && (exec "$@" 3>&- 4>&- 5>&- 6>&- 7>&- 8>&-); exit $?`,
		"sh", s.Workdir)
	return &exec.Cmd{Path: path, Args: append(argv, s.Argv...), ExtraFiles: namespaces,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}}, 0, nil
}
