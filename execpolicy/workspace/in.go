package workspace

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/stage"
)

// A state is all that counts of a file or a directory.
type state struct {
	mode fs.FileMode
	size int64             // of a regular file
	sum  [sha256.Size]byte // of its content
}

// in copies the workspace in, and notes what went in.
func (c *copied) in(ctx context.Context, s *execpolicy.Session) error {
	from := &source{root: c.root, exclude: c.exclude, base: map[string]state{}}
	err := s.CopyFS(ctx, ".", from)
	if errors.Is(err, execpolicy.ErrUnsafeType) {
		err = fmt.Errorf("%w; what can't be copied can be excluded", err)
	}
	if err != nil {
		return fmt.Errorf("copying the workspace in: %w", err)
	}
	c.base, c.deleted = from.base, map[string]bool{}
	return nil
}

// A source is a root's file system without what is excluded, that notes the state of what
// is read from it.
type source struct {
	root    *os.Root
	exclude patterns
	base    map[string]state
}

func (s *source) ReadDir(dir string) ([]fs.DirEntry, error) {
	f, err := s.open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := f.ReadDir(-1)
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	kept := all[:0]
	for _, d := range all {
		name := path.Join(dir, d.Name())
		if s.exclude.match(name) || stage.Is(name) {
			continue
		}
		info, err := d.Info()
		if err != nil {
			return nil, err
		}
		s.base[name] = state{mode: insideMode(info.Mode())}
		kept = append(kept, d)
	}
	return kept, err
}

// open opens a file or a directory. What is something else by now is opened too, and has
// its type.
func (s *source) open(name string) (*os.File, error) {
	local, err := filepath.Localize(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	f, _, err := open(s.root, local)
	return f, err
}

func (s *source) Open(name string) (fs.File, error) {
	f, err := s.open(name)
	if err != nil {
		return nil, err
	}
	if s.base[name].mode.IsDir() || name == "." {
		return f, nil
	}
	return &noted{File: f, source: s, name: name, hash: sha256.New()}, nil
}

// insideMode is the mode that [execpolicy.Session.CopyFS] gives what has this one. So a
// directory that is read-only on the host does not count as changed.
func insideMode(mode fs.FileMode) fs.FileMode {
	mode &= fs.ModeDir | fs.ModePerm
	if mode.IsDir() {
		mode |= 0o700
	}
	return mode
}

// A noted file is one that is read once.
type noted struct {
	fs.File
	source *source
	name   string
	told   int64 // by Stat: no more goes in, even of a file that has grown
	size   int64
	hash   hash.Hash
}

func (f *noted) Stat() (fs.FileInfo, error) {
	info, err := f.File.Stat()
	if err == nil {
		f.told = info.Size()
	}
	return info, err
}

func (f *noted) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	in := min(int64(n), f.told-f.size)
	f.hash.Write(b[:in])
	f.size += in
	return n, err
}

func (f *noted) Close() error {
	now := f.source.base[f.name]
	now.size = f.size
	f.hash.Sum(now.sum[:0])
	f.source.base[f.name] = now
	return f.File.Close()
}
