package execpolicy_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

func init() {
	roles["headless"], roles["stranger"], roles["inner"], roles["blind"] = loseHead, lookAtAnother, lookAtSelf, lookAtNothing
	if strings.Contains(os.Getenv(roleVar), `"headless"`) {
		runtime.LockOSThread() // main runs on the process's first thread
	}
}

// systemCases are processes that take system calls to make.
func systemCases(t *testing.T) []sweepCase {
	headless := play(t, role{Name: "headless"}, nil)
	wait(t, func() bool { return statOf(headless.Process.Pid)[2] == "Z" }, "its first thread lives")
	pid, start := strconv.Itoa(headless.Process.Pid), startOf(headless.Process.Pid)
	return []sweepCase{{name: "only the first thread is dead", change: func(l map[string]string) {
		l["cofferdam.pid"], l["cofferdam.pid-start"] = pid, start
	}}}
}

// loseHead ends the process's first thread, so that the process looks like a zombie, and
// lives on in the others.
func loseHead(role) {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
}

// lookAtAnother looks at a process of root's as somebody else, with the /proc that there
// is, and one that hides other users' processes.
func lookAtAnother(role) {
	check := func(err error) {
		if err != nil {
			fail(err)
		}
	}
	mountProc("proc", os.Getenv("PROC_OPTIONS"))
	cat := exec.Command("cat")
	stdin, err := cat.StdinPipe()
	check(err)
	check(cat.Start())
	defer stdin.Close()
	pid := cat.Process.Pid
	start, err := strconv.ParseUint(startOf(pid), 10, 64)
	check(err)
	check(syscall.Setgroups(nil))
	check(syscall.Setgid(65534))
	check(syscall.Setuid(65534))
	_, err = os.Stat("/proc/" + strconv.Itoa(pid))
	fmt.Println(syscall.Kill(pid, 0) == syscall.EPERM, os.IsNotExist(err), execpolicy.Ended(pid, start), execpolicy.Ended(pid, start+1))
}

// lookAtSelf looks at itself in a namespace whose /proc is that of another.
func lookAtSelf(role) {
	pid := os.Getpid()
	stat, _ := os.ReadFile("/proc/self/stat")
	outer, _, _ := strings.Cut(string(stat), " ")
	_, rest, _ := strings.Cut(string(stat), ") ")
	start, err := strconv.ParseUint(strings.Fields(rest)[19], 10, 64)
	if err != nil {
		fail(err)
	}
	fmt.Println(outer != strconv.Itoa(pid), execpolicy.Ended(pid, start), execpolicy.Ended(1<<30, start))
}

// lookAtNothing looks at a process that is gone, on a machine that says nothing of
// itself, with labels of one that said nothing.
func lookAtNothing(role) {
	mountProc("tmpfs", "")
	host, _ := os.Hostname()
	labels := map[string]string{"cofferdam.host": host, "cofferdam.pid": strconv.Itoa(1 << 30), "cofferdam.pid-start": "1"}
	_, err := os.Stat("/proc/self")
	fmt.Println(os.IsNotExist(err), execpolicy.OwnerGone(labels))
}

// mountProc puts something on /proc, in namespaces of its own.
func mountProc(what, options string) {
	err := errors.New("the mounts of the machine are not to be changed")
	if os.Getpid() == 1 && os.Getenv(mountsVar) != "" && mounts() != os.Getenv(mountsVar) {
		err = syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	}
	if err == nil {
		err = syscall.Mount(what, "/proc", what, 0, options)
	}
	if err != nil {
		fail(err)
	}
}

// apart starts a program in a process and a mount namespace of its own. With both, no
// option of /proc is anybody else's on any kernel.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	cmd.Env = append(cmd.Env, mountsVar+"="+mounts())
}

// mountsVar is the mount namespace that is not to be changed.
const mountsVar = "COFFERDAM_TEST_MOUNTS"

func mounts() string {
	link, _ := os.Readlink("/proc/self/ns/mnt")
	return link
}

func needRoot(t *testing.T) {
	if os.Getuid() != 0 {
		leftout.Skip(t, "it takes root to be somebody else and to make namespaces")
	}
}

func TestEndedOfAnotherUser(t *testing.T) {
	needRoot(t)
	for _, c := range []struct{ name, options, want string }{
		{"seen", "", "true false false true"},
		// That nothing is seen proves nothing.
		{"hidden", "hidepid=2", "true true false false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := play(t, role{Name: "stranger"}, func(cmd *exec.Cmd) {
				cmd.Env = append(cmd.Env, "PROC_OPTIONS="+c.options)
				apart(cmd)
			})
			assert.Equal(t, a.line(t), c.want)
		})
	}
}

func TestEndedWithAForeignProc(t *testing.T) {
	needRoot(t)
	a := play(t, role{Name: "inner"}, func(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID} })
	assert.Equal(t, a.line(t), "true false true")
}

func TestOwnerIsNotGoneWhereNothingIsKnown(t *testing.T) {
	needRoot(t)
	assert.Equal(t, play(t, role{Name: "blind"}, apart).line(t), "true false")
}
