package container

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

// networkOf returns the network namespace that a user's "unshare" makes with these flags.
// It stays until the test or this program ends.
func networkOf(t *testing.T, uid uint32, flags ...string) *os.File {
	t.Helper()
	cmd := exec.Command("unshare", append(flags, "sh", "-c", "echo ready; read x")...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	stdin, err := cmd.StdinPipe()
	assert.NilError(t, err)
	stdout, err := cmd.StdoutPipe()
	assert.NilError(t, err)
	assert.NilError(t, cmd.Start())
	t.Cleanup(func() {
		stdin.Close()
		cmd.Wait()
	})
	if _, err = bufio.NewReader(stdout).ReadString('\n'); err != nil {
		leftout.Skip(t, "the user %d can't make a network namespace", uid)
	}
	namespace, err := os.Open("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/ns/net")
	assert.NilError(t, err)
	t.Cleanup(func() { namespace.Close() })
	return namespace
}

func mayListen(t *testing.T) {
	t.Helper()
	if err := MayListen(); err != nil {
		leftout.Skip(t, "%v", err)
	}
}

// A socket is made in the other namespace, and no thread stays there.
func TestListenIn(t *testing.T) {
	mayListen(t)
	namespace := networkOf(t, 0, "--net")
	// Without a device that is up the port can be taken all the same.
	assert.NilError(t, checkNetwork(namespace))
	for range 20 {
		socket, err := listenIn(namespace, 3128)
		assert.NilError(t, err)
		listener, err := net.FileListener(socket)
		assert.NilError(t, err)
		assert.Equal(t, listener.Addr().String(), "127.0.0.1:3128")
		// The port is not taken here: a second one is taken there.
		_, err = listenIn(namespace, 3128)
		assert.ErrorIs(t, err, syscall.EADDRINUSE)
		listener.Close()
		socket.Close()
	}
	theirs, err := namespace.Stat()
	assert.NilError(t, err)
	stays := func() bool {
		threads, err := filepath.Glob("/proc/self/task/*/ns/net")
		assert.NilError(t, err)
		return slices.ContainsFunc(threads, func(thread string) bool {
			ours, err := os.Stat(thread)
			return err == nil && os.SameFile(ours, theirs)
		})
	}
	for end := time.Now().Add(time.Minute); stays(); runtime.Gosched() {
		assert.Assert(t, time.Now().Before(end), "a thread stays in the namespace")
	}
}

// Nobody is listened for in this program's own network, or in one that a user made.
func TestCheckNetwork(t *testing.T) {
	mayListen(t)
	own, err := os.Open("/proc/self/ns/net")
	assert.NilError(t, err)
	defer own.Close()
	assert.ErrorContains(t, checkNetwork(own), "network of this program")

	const somebody = 1_900_000_123
	err = checkNetwork(networkOf(t, somebody, "--user", "--net"))
	assert.ErrorContains(t, err, "belongs to the user 1900000123")
}

// A process that is gone, or is another, has no network to listen in.
func TestListenNowhere(t *testing.T) {
	mayListen(t)
	_, err := new(Container).Listen(3128)
	assert.ErrorContains(t, err, "not found")
	self := FirstProcess{Name: "cofferdam-x", PID: os.Getpid()}
	_, err = self.network()
	assert.ErrorContains(t, err, "has ended")
	assert.Assert(t, !strings.Contains(err.Error(), "setns"))
}
