package container

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
)

func init() {
	looks["another"], looks["self"], looks["nothing"] = lookAtAnother, lookAtSelf, lookAtNothing
}

// look starts the test binary as another program, which has that look, and returns what
// it prints.
func look(t *testing.T, name string, change func(cmd *exec.Cmd)) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", lookVar+"="+name)
	cmd.Stderr = os.Stderr
	change(cmd)
	out, err := cmd.Output()
	assert.NilError(t, err, "%s", out)
	return strings.TrimSuffix(string(out), "\n")
}

// fail ends a program that can't have its look.
func fail(err error) {
	fmt.Println(err)
	os.Exit(1)
}

// lookAtAnother looks at a process of root's as somebody else, with the /proc that there
// is, and one that hides other users' processes.
func lookAtAnother() {
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
	start, err := strconv.ParseUint(leftover.StartOf(pid), 10, 64)
	check(err)
	check(syscall.Setgroups(nil))
	check(syscall.Setgid(65534))
	check(syscall.Setuid(65534))
	_, err = os.Stat("/proc/" + strconv.Itoa(pid))
	fmt.Println(syscall.Kill(pid, 0) == syscall.EPERM, os.IsNotExist(err), ended(pid, start), ended(pid, start+1))
}

// lookAtSelf looks at itself in a namespace whose /proc is that of another.
func lookAtSelf() {
	pid := os.Getpid()
	stat, _ := os.ReadFile("/proc/self/stat")
	outer, _, _ := strings.Cut(string(stat), " ")
	_, rest, _ := strings.Cut(string(stat), ") ")
	start, err := strconv.ParseUint(strings.Fields(rest)[19], 10, 64)
	if err != nil {
		fail(err)
	}
	fmt.Println(outer != strconv.Itoa(pid), ended(pid, start), ended(1<<30, start))
}

// lookAtNothing looks at a process that is gone, on a machine that says nothing of
// itself, with labels of one that said nothing.
func lookAtNothing() {
	mountProc("tmpfs", "")
	host, _ := os.Hostname()
	labels := map[string]string{"cofferdam.host": host, "cofferdam.pid": strconv.Itoa(1 << 30), "cofferdam.pid-start": "1"}
	_, err := os.Stat("/proc/self")
	fmt.Println(os.IsNotExist(err), ownerGone(labels))
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
			seen := look(t, "another", func(cmd *exec.Cmd) {
				cmd.Env = append(cmd.Env, "PROC_OPTIONS="+c.options)
				apart(cmd)
			})
			assert.Equal(t, seen, c.want)
		})
	}
}

func TestEndedWithAForeignProc(t *testing.T) {
	needRoot(t)
	seen := look(t, "self", func(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID} })
	assert.Equal(t, seen, "true false true")
}

func TestOwnerIsNotGoneWhereNothingIsKnown(t *testing.T) {
	needRoot(t)
	assert.Equal(t, look(t, "nothing", apart), "true false")
}
