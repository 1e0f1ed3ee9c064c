package fakeengine

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func closeOnExec(fd uintptr) { syscall.CloseOnExec(int(fd)) }

// identify returns the process that has the number now. Its zero value means that there
// is none, or that it is dead and not reaped.
func identify(pid int) process {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}
	}
	// The name stands in parentheses and may hold any byte.
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	if open < 0 || len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return process{}
	}
	return process{Pid: pid, Start: fields[19], name: string(stat[open+1 : end])}
}

func (p process) alive() bool {
	if p.Pid <= 1 {
		return false
	}
	now := identify(p.Pid)
	return now.Pid == p.Pid && now.Start == p.Start
}

// signal signals the process, and nothing else: the handle is taken first, so that it is
// the same process which is then looked at.
func (p process) signal(name string) error {
	sig, ok := signalNumber(name)
	if !ok {
		return syscall.EINVAL
	}
	if p.Pid <= 1 || p.Pid == os.Getpid() {
		return os.ErrProcessDone
	}
	handle, err := os.FindProcess(p.Pid)
	if err != nil {
		return err
	}
	defer handle.Release()
	if !p.alive() {
		return os.ErrProcessDone
	}
	return handle.Signal(sig)
}

// withEnvironment returns the processes, other than this, that have the variable in their
// environment.
func withEnvironment(variable string) []process {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	var found []process
	for _, file := range files {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		p := identify(pid)
		environ, err := os.ReadFile(file)
		if err != nil || pid == os.Getpid() || !slices.Contains(strings.Split(string(environ), "\x00"), variable) {
			continue
		}
		if p.alive() {
			found = append(found, p)
		}
	}
	return found
}
