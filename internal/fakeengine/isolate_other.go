//go:build !linux

package fakeengine

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

var errNoLinux = errors.New("it takes Linux")

func isolation() error { return errNoLinux }

func ownSession() *syscall.SysProcAttr { return nil }

func closeOnExec(uintptr) {}

func identify(pid int) process { return process{Pid: pid} }

// alive takes the test for alive: there are no containers here to tell apart from it.
func (p process) alive() bool { return p.Pid != 0 }

func (p process) signal(string) error { return errNoLinux }

func withEnvironment(string) []process { return nil }

type child struct{ process }

func start(kind dockercli.Kind, _ spec, _ string, _ [3]*os.File) (*child, *refusal) {
	return nil, refuseStart(kind, 128, errNoLinux.Error())
}

func (c *child) release() *refusal { return nil }
func (c *child) wait() int         { return -1 }

func initialize(dockercli.Kind) int { return 1 }

func enter(process, spec, io.Reader, io.Writer, io.Writer) (int, error) { return 126, errNoLinux }
