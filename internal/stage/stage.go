// Package stage makes files of a host's directory in a stage, a directory of their own in
// it, until they are whole and get their names.
//
// Whoever may write to the host's directory may put something else in the place of the
// stage, or of a directory that was made. What is there then is not made, changed or
// removed.
package stage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-64a260eb/cofferdam/internal/random"
)

// ErrReplaced says that somebody has put something else in the place of what was made.
var ErrReplaced = errors.New("somebody has put something else in its place")

// Prefix begins the names of stages.
const Prefix = ".cofferdam-"

// Is reports whether a path with slashes may be that of a stage. A stage stays if its
// program is killed.
func Is(name string) bool {
	token, ok := strings.CutPrefix(path.Base(name), Prefix)
	return ok && len(token) == len(random.Token()) && strings.Trim(token, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// A Stage is a directory in a root. Names in it have this system's separators.
type Stage struct {
	root *os.Root
	name string
	in   *os.Root // the directory, whatever becomes of its name; nil until it is made
	made []string // what was made in it, parents first
}

// New returns a stage in that directory, which is made with the first file in it.
func New(root *os.Root) *Stage {
	return &Stage{root: root, name: Prefix + strings.ToLower(random.Token())}
}

// open makes the stage, if it is not there.
func (s *Stage) open() (err error) {
	if s.in != nil {
		return nil
	}
	if err = s.root.Mkdir(s.name, 0o700); err != nil {
		return err
	}
	if s.in, err = openDir(s.root, s.name); err != nil {
		s.root.Remove(s.name)
	}
	return err
}

// Put makes a file in the stage. If own is not nil, Put calls it with the whole file.
func (s *Stage) Put(name string, content io.Reader, perm fs.FileMode, own func(*os.File) error) error {
	if err := s.open(); err != nil {
		return err
	}
	f, err := s.in.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	s.made = append(s.made, name)
	if _, err = io.Copy(f, content); err == nil && own != nil {
		err = own(f)
	}
	return errors.Join(err, f.Chmod(perm), f.Close())
}

// mkdir makes a directory in the stage.
func (s *Stage) mkdir(name string) error {
	err := s.open()
	if err == nil {
		err = s.in.Mkdir(name, 0o700)
	}
	if err == nil {
		s.made = append(s.made, name)
	}
	return err
}

// Drop removes a file in the stage.
func (s *Stage) Drop(name string) error { return s.in.Remove(name) }

// Rename gives a file in the stage its name in the root.
func (s *Stage) Rename(name, to string) error {
	return s.root.Rename(filepath.Join(s.name, name), to)
}

// Check returns an error that wraps [ErrReplaced] if something else is in the place of
// the stage. Files are not to be renamed then.
func (s *Stage) Check() error {
	if s.in == nil {
		return nil
	}
	was, err := s.in.Stat(".")
	if err != nil {
		return err
	}
	now, err := s.root.Lstat(s.name)
	if err == nil && !os.SameFile(was, now) {
		err = fmt.Errorf("%q: %w: %v", s.name, ErrReplaced, now.Mode())
	}
	return err
}

// Clean removes the stage with what is left in it. It returns the error of Check if it
// can't find the stage.
func (s *Stage) Clean() error {
	if s.in == nil {
		return nil
	}
	for _, name := range slices.Backward(s.made) {
		s.in.Remove(name)
	}
	err := s.Check()
	s.in.Close()
	if err != nil {
		return err
	}
	return s.root.Remove(s.name)
}

// openDir opens a directory, and nothing else: to open a FIFO would wait for who writes
// to it.
func openDir(root *os.Root, name string) (*os.Root, error) { return root.OpenRoot(name + "/.") }

// WithDir calls f with the directory of that name, if it is the one that info is of. If
// it is another, the error wraps [ErrReplaced]. A root follows a link in its place.
func WithDir(root *os.Root, name string, info fs.FileInfo, f func(*os.Root) error) error {
	dir, err := openDir(root, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	now, err := dir.Stat(".")
	switch {
	case err != nil:
		return err
	case !os.SameFile(now, info):
		return fmt.Errorf("%q: %w", name, ErrReplaced)
	}
	return f(dir)
}
