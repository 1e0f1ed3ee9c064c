package workspace

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A stage is a directory in a root that holds files until they get their names.
type stage struct {
	root *os.Root
	dir  string
	in   *os.Root // the directory, whatever somebody makes of its name; nil until it is made
	n    int
	own  func(f *os.File) error // gives a file to whom it is to belong to; nil if that is who makes it
}

const stagePrefix = ".cofferdam-"

func newStage(root *os.Root) *stage {
	return &stage{root: root, dir: stagePrefix + strings.ToLower(rand.Text())}
}

// isStage reports whether a name is that of a stage: another session may save to the same
// workspace, or to a part of it.
func isStage(name string) bool {
	token, ok := strings.CutPrefix(path.Base(name), stagePrefix)
	return ok && len(token) == len(rand.Text()) && strings.Trim(token, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// put makes a file in the stage, and returns its name.
func (g *stage) put(content io.Reader, perm fs.FileMode) (string, error) {
	if g.in == nil {
		err := g.root.Mkdir(g.dir, 0o700)
		if err == nil {
			if g.in, err = g.root.OpenRoot(g.dir); err != nil {
				g.root.Remove(g.dir)
			}
		}
		if err != nil {
			return "", err
		}
	}
	g.n++
	name := g.name(g.n)
	f, err := g.in.OpenFile(filepath.Base(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	if _, err = io.Copy(f, content); err == nil && g.own != nil {
		err = g.own(f)
	}
	return name, errors.Join(err, f.Chmod(perm), f.Close())
}

func (g *stage) drop(name string) error { return g.in.Remove(filepath.Base(name)) }

// clean removes the stage with what is left of the files in it, and nothing else: whoever
// may write to the root may have put another directory, or a link, in its place.
func (g *stage) clean() error {
	if g.in == nil {
		return nil
	}
	for n := range g.n {
		g.in.Remove(filepath.Base(g.name(n + 1)))
	}
	err := g.check()
	g.in.Close()
	if err != nil {
		return err
	}
	return g.root.Remove(g.dir)
}

// check returns an error if something else is in the place of the stage.
func (g *stage) check() error {
	if g.in == nil {
		return nil
	}
	was, err := g.in.Stat(".")
	if err != nil {
		return err
	}
	now, err := g.root.Lstat(g.dir)
	if err == nil && !os.SameFile(was, now) {
		err = fmt.Errorf("%w: somebody has put %v in the place of %s", ErrConflict, now.Mode(), g.dir)
	}
	return err
}

func (g *stage) name(n int) string { return filepath.Join(g.dir, strconv.Itoa(n)) }

// A lease on a file is waited for so long, and looked at so often.
const (
	leaseTime  = 2 * time.Second
	leasePause = 10 * time.Millisecond
)

// open opens what the host has of that name. It waits for nothing but a lease, whatever
// somebody has made of the name: one that was a file's may be that of a fifo that nobody
// writes to.
func open(root *os.Root, name string) (f *os.File, mode fs.FileMode, err error) {
	// A server that has a lease on the file is told of the first try, and gives it up.
	for tries := leaseTime / leasePause; ; tries-- {
		f, err = root.OpenFile(name, os.O_RDONLY|dontWait, 0)
		if !errors.Is(err, syscall.EAGAIN) || tries == 0 {
			break
		}
		time.Sleep(leasePause)
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Mode(), nil
}

// lstat returns the type of what the host has of that name, and reports whether the name
// exists.
func lstat(root *os.Root, name string) (mode fs.FileMode, there bool, err error) {
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	return info.Mode(), true, nil
}

// parents returns the directories that a name is in, the outermost first.
func parents(name string) []string {
	var all []string
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		all = append(all, dir)
	}
	slices.Reverse(all)
	return all
}
