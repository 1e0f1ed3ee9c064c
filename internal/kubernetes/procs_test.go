//go:build linux

package main

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/kubeplug"
)

func TestProcs(t *testing.T) {
	p := newProcs()
	log := filepath.Join(t.TempDir(), "log")
	assert.NilError(t, p.run("true"))
	assert.ErrorContains(t, p.run("sh", "-c", "echo no >&2; exit 3"), "exit status 3: no")
	assert.ErrorContains(t, p.run("sh", "-c", "kill -s KILL $$"), "killed")
	assert.ErrorContains(t, p.run("/does/not/exist"), "no such file")

	sleep := func() *exec.Cmd {
		return exec.Command("sh", "-c", "echo started; exec sleep 1000")
	}
	do := func(verb string) error {
		return control(example, p, kubeplug.Order{Verb: verb, Part: "one"})
	}
	assert.NilError(t, p.startNamed("one", log, sleep()))
	assert.ErrorContains(t, p.startNamed("one", log, sleep()), "runs already")
	_, err := p.signal("two", syscall.SIGKILL)
	assert.ErrorContains(t, err, "two does not run")
	first := p.get("one")
	assert.NilError(t, p.kill("one"))
	assert.Equal(t, first.status.Signal(), syscall.SIGKILL)
	assert.Assert(t, p.get("one") == nil)
	// Its number may be another's by now.
	assert.ErrorContains(t, p.kill("one"), "one does not run")

	assert.NilError(t, p.startNamed("one", log, sleep()))
	assert.NilError(t, do("pause"))
	assert.NilError(t, do("resume"))
	assert.NilError(t, do("kill"))
	assert.ErrorContains(t, do("pause"), "does not run")
	assert.ErrorContains(t, do("cut"), "no cut for one")

	// A shell that was killed early has said nothing.
	said, err := os.ReadFile(log)
	assert.NilError(t, err)
	assert.Equal(t, strings.ReplaceAll(string(said), "started\n", ""), "")
}

func TestServe(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	assert.NilError(t, os.WriteFile(socket, nil, 0o600)) // left by another
	var got kubeplug.Order
	listener, err := serve(socket, func(o kubeplug.Order) error {
		got = o
		if o.Verb == "kill" {
			return os.ErrProcessDone
		}
		return nil
	})
	assert.NilError(t, err)
	defer listener.Close()
	start := kubeplug.Order{Verb: "start", Part: "etcd"}
	assert.NilError(t, start.Send(t.Context(), socket))
	assert.Equal(t, got, start)
	kill := kubeplug.Order{Verb: "kill", Part: "etcd"}
	assert.ErrorContains(t, kill.Send(t.Context(), socket), os.ErrProcessDone.Error())
	wrong := kubeplug.Order{Verb: "cut", Part: "etcd"}
	assert.ErrorContains(t, wrong.Send(t.Context(), socket), "it is none of")
	assert.Equal(t, got, kill)
}

func TestRelay(t *testing.T) {
	dir := t.TempDir()
	outer, err := net.Listen("unix", filepath.Join(dir, "outer"))
	assert.NilError(t, err)
	defer outer.Close()
	inner, err := net.Listen("unix", filepath.Join(dir, "inner"))
	assert.NilError(t, err)
	address := inner.Addr().String()
	go relay(outer, func() (net.Conn, error) { return net.Dial("unix", address) })
	go accept(inner, func(conn net.Conn) {
		content, _ := io.ReadAll(conn) // to its end, which has to be passed on
		_, _ = conn.Write(append([]byte("got "), content...))
	})
	talk := func() string {
		conn, err := net.Dial("unix", outer.Addr().String())
		assert.NilError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, strings.Repeat("x", 1<<20))
		if err != nil {
			return ""
		}
		assert.NilError(t, conn.(*net.UnixConn).CloseWrite())
		answer, _ := io.ReadAll(conn)
		return string(answer)
	}
	assert.Assert(t, talk() == "got "+strings.Repeat("x", 1<<20))
	inner.Close()
	assert.Equal(t, talk(), "")
}

func TestIsHidden(t *testing.T) {
	assert.Assert(t, isHidden("/run"))
	assert.Assert(t, isHidden("/var/lib/x"))
	assert.Assert(t, !isHidden("/running"))
	assert.Assert(t, !isHidden("/"))
}
