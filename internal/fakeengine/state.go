package fakeengine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A state is the directory that an engine's processes share. There are no locks in it,
// because a process can be killed at any time: what must happen once is a link or a
// directory that can be made once.
type state string

const (
	ownerFile     = "owner"
	configFile    = "config"
	statusFile    = "status"
	containersDir = "containers"
	callsDir      = "calls"
	pulledDir     = "pulled"
	removedDir    = "removed"
	rootDir       = "root" // with each container's root, in its mount namespace
)

func (s state) path(elem ...string) string {
	return filepath.Join(append([]string{string(s)}, elem...)...)
}

func (s state) init() error {
	for _, dir := range []string{containersDir, callsDir, pulledDir, removedDir, rootDir} {
		if err := os.Mkdir(s.path(dir), 0o755); err != nil {
			return err
		}
	}
	return s.write(ownerFile, identify(os.Getpid()))
}

// orphaned says that the test is gone, or its state, so that the engine's processes have
// to go.
func (s state) orphaned() bool {
	var owner process
	return s.read(ownerFile, &owner) != nil || !owner.alive()
}

func (s state) read(name string, to any) error {
	data, err := os.ReadFile(s.path(name))
	if err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}

// write replaces a file at one stroke.
func (s state) write(name string, from any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return err
	}
	temp := s.path(name + newID()[:12])
	if err := os.WriteFile(temp, data, 0o644); err != nil {
		return err
	}
	return os.Rename(temp, s.path(name))
}

func (s state) call(n int) string { return s.path(callsDir, strconv.Itoa(n)) }

func (s state) lastCall() int {
	entries, _ := os.ReadDir(s.path(callsDir))
	last := 0
	for _, entry := range entries {
		n, _ := strconv.Atoi(entry.Name())
		last = max(last, n)
	}
	return last
}

// logCall notes a call and returns its number.
func (s state) logCall(words []string) (int, error) {
	data, err := json.Marshal(words)
	if err != nil {
		return 0, err
	}
	temp := s.path(callsDir, "new-"+newID())
	if err := os.WriteFile(temp, data, 0o644); err != nil {
		return 0, err
	}
	defer os.Remove(temp)
	for n := s.lastCall() + 1; ; n++ {
		if err := os.Link(temp, s.call(n)); !errors.Is(err, fs.ErrExist) {
			return n, err
		}
	}
}

func (s state) pulled(image string) bool {
	_, err := os.Stat(s.path(pulledDir, url.PathEscape(image)))
	return err == nil
}

func (s state) setPulled(image string) error {
	return os.WriteFile(s.path(pulledDir, url.PathEscape(image)), nil, 0o644)
}

// A container is a directory named as it is.
type container struct {
	spec
	dir string
}

// A status is what changes in a container's life.
type status struct {
	Status                string
	Process               process // its process 1, while it has one
	StartedAt, FinishedAt time.Time
	ExitCode              int
	Error                 string
}

func (c container) status() status {
	var st status
	_ = state(c.dir).read(statusFile, &st)
	return st
}

// containers returns all containers.
func (s state) containers() []container {
	entries, _ := os.ReadDir(s.path(containersDir))
	var all []container
	for _, entry := range entries {
		c := container{dir: s.path(containersDir, entry.Name())}
		if state(c.dir).read(configFile, &c.spec) == nil {
			all = append(all, c)
		}
	}
	return all
}

// find returns the container with a name, or whose ID begins so.
func (s state) find(name string) (container, bool) {
	all := s.containers()
	for _, c := range all {
		if c.Name == name {
			return c, true
		}
	}
	for _, c := range all {
		if len(name) > 0 && strings.HasPrefix(c.ID, name) {
			return c, true
		}
	}
	return container{}, false
}

// A record is a new container's directory, even when it has been moved away.
type record struct {
	container
	root *os.Root
}

// create makes a container, which is there at one stroke. Its error wraps fs.ErrExist if
// the name is taken.
func (s state) create(sp spec) (*record, error) {
	temp := s.path(removedDir, "new-"+sp.ID)
	if err := os.Mkdir(temp, 0o755); err != nil {
		return nil, err
	}
	err := errors.Join(state(temp).write(configFile, sp), state(temp).write(statusFile, status{Status: "created"}))
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(temp)
	if err != nil {
		return nil, err
	}
	c := container{spec: sp, dir: s.path(containersDir, sp.Name)}
	if err := os.Rename(temp, c.dir); err != nil {
		root.Close()
		_ = os.RemoveAll(temp)
		return nil, fmt.Errorf("%w: %w", fs.ErrExist, err)
	}
	return &record{container: c, root: root}, nil
}

// errRemoved means that somebody has removed the container.
var errRemoved = errors.New("the container was removed")

// set notes a status. Its error is errRemoved if nobody will see it any more.
func (r *record) set(st status) error {
	data, err := json.Marshal(st)
	if err != nil {
		return err
	}
	const temp = statusFile + ".new"
	if err := r.root.WriteFile(temp, data, 0o644); err != nil {
		return errRemoved
	}
	if err := r.root.Rename(temp, statusFile); err != nil {
		return errRemoved
	}
	mine, err := r.root.Stat(".")
	if err != nil {
		return errRemoved
	}
	if there, err := os.Stat(r.dir); err != nil || !os.SameFile(mine, there) {
		return errRemoved
	}
	return nil
}

// killTimeout bounds how long a killed container may take to be gone. The kernel ends one
// process after the other.
const killTimeout = 10 * time.Second

// destroy kills a container and removes it. One that is gone already is no error. It has
// to be looked at again when it is out of the way: it may have been started meanwhile.
func (s state) destroy(c container) error {
	if err := c.status().Process.end(); err != nil {
		return err
	}
	gone := container{dir: s.path(removedDir, c.ID)}
	if err := os.Rename(c.dir, gone.dir); err != nil {
		return nil
	}
	if err := gone.status().Process.end(); err != nil {
		return err
	}
	for deadline := time.Now().Add(killTimeout); ; {
		// The container's keeper may be writing its last word.
		err := os.RemoveAll(gone.dir)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// end kills the process, if it runs, and waits until it is gone.
func (p process) end() error {
	p.kill()
	for deadline := time.Now().Add(killTimeout); p.alive(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d does not end", p.Pid)
		}
	}
	return nil
}
