package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/tarball"
)

// A Tree is files and directories on their way into a directory of the host.
type Tree struct {
	stage *Stage
	files []string
	dirs  []string                  // with files in them, or an entry; parents first
	made  map[string]bool           // directories in the stage; true for those of dirs
	stamp map[string]tarball.Header // of the directories that have an entry
}

// NewTree returns a tree for that directory.
func NewTree(root *os.Root) *Tree {
	return &Tree{stage: New(root), made: map[string]bool{}, stamp: map[string]tarball.Header{}}
}

// Add adds a directory, or a file with that content. A [tarball.Checker] must have let it
// through. The error wraps [tarball.ErrName] if the host can't have its name, or takes it
// for another's. What Add returned an error for is left out.
func (t *Tree) Add(h tarball.Header, content io.Reader) error {
	name, err := filepath.Localize(h.Name)
	if err != nil {
		return fmt.Errorf("%w: %q", tarball.ErrName, h.Name)
	}
	if h.Dir {
		if err := t.mkdir(name); err != nil {
			return err
		}
		t.keep(name)
		t.stamp[name] = h
		return nil
	}
	if err := t.mkdir(filepath.Dir(name)); err != nil {
		return err
	}
	err = t.stage.Put(name, content, h.Perm, nil)
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%w: %q is the name of another on this system", tarball.ErrName, h.Name)
	}
	if err != nil {
		return err
	}
	if err := t.stage.in.Chtimes(name, time.Time{}, h.ModTime); err != nil {
		return err
	}
	t.keep(filepath.Dir(name))
	t.files = append(t.files, name)
	return nil
}

// mkdir makes a directory and its parents in the stage.
func (t *Tree) mkdir(name string) error {
	if _, there := t.made[name]; there || name == "." {
		return nil
	}
	if err := t.mkdir(filepath.Dir(name)); err != nil {
		return err
	}
	err := t.stage.mkdir(name)
	if errors.Is(err, fs.ErrExist) {
		// Some systems know a directory by several names.
		if is, e := isDir(t.stage.in, name); e == nil && is {
			err = nil
		}
	}
	if err == nil {
		t.made[name] = false
	}
	return err
}

// keep notes that a directory and its parents belong to the tree.
func (t *Tree) keep(name string) {
	if name == "." || t.made[name] {
		return
	}
	t.keep(filepath.Dir(name))
	t.made[name] = true
	t.dirs = append(t.dirs, name)
}

// Place moves the tree to where it belongs. An existing file is replaced as a whole, and
// a directory is merged with an existing one, which keeps its permissions. Place changes
// nothing if ctx has ended, or if something is in the way of a directory, or a directory
// in that of a file: then the error wraps [tarball.ErrType].
func (t *Tree) Place(ctx context.Context) error {
	root := t.stage.root
	missing, err := t.missing(ctx)
	if err == nil {
		err = t.stage.Check()
	}
	if err != nil {
		if errors.Is(err, ErrReplaced) {
			err = fmt.Errorf("%w: %w", tarball.ErrType, err)
		}
		return err
	}
	made := map[string]fs.FileInfo{}
	for _, name := range missing {
		if err := root.Mkdir(name, 0o755); err != nil {
			// Another program may place a tree in the same root.
			if is, e := isDir(root, name); e != nil || !is {
				return err
			}
			continue
		}
		if made[name], err = root.Lstat(name); err != nil {
			return err
		}
	}
	for _, name := range t.files {
		if err := t.stage.Rename(name, name); err != nil {
			return err
		}
	}
	for _, name := range slices.Backward(missing) {
		h, ok := t.stamp[name]
		if !ok || made[name] == nil {
			continue
		}
		err := WithDir(root, name, made[name], func(dir *os.Root) error {
			// Else only root could remove what is in it.
			return errors.Join(dir.Chtimes(".", time.Time{}, h.ModTime), dir.Chmod(".", h.Perm|0o700|Special(made[name])))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// missing returns the directories that are not there, or an error for what is in the way.
func (t *Tree) missing(ctx context.Context) (dirs []string, err error) {
	for _, name := range t.dirs {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		is, err := isDir(t.stage.root, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			dirs = append(dirs, name)
		case err != nil:
			return nil, err
		case !is:
			return nil, fmt.Errorf("%w: %q is no directory, and is to be one", tarball.ErrType, name)
		}
	}
	for _, name := range t.files {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		is, err := isDir(t.stage.root, name)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, err
		case is:
			return nil, fmt.Errorf("%w: %q is a directory, and is to be a file", tarball.ErrType, name)
		}
	}
	return dirs, nil
}

// Special returns the bits of a directory of the host that are no permissions, and that
// no tree has: what is made in it gets its group, and only an owner may remove it.
func Special(info fs.FileInfo) fs.FileMode { return info.Mode() & (fs.ModeSetgid | fs.ModeSticky) }

// isDir reports whether a name is that of a directory, and not of a link to one.
func isDir(root *os.Root, name string) (bool, error) {
	info, err := root.Lstat(name)
	return err == nil && info.IsDir(), err
}

// Clean removes what was not placed.
func (t *Tree) Clean() error { return t.stage.Clean() }
