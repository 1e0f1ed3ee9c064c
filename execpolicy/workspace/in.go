package workspace

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"path"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// A state is all that counts of a file or a directory.
type state struct {
	mode fs.FileMode
	size int64             // of a regular file
	sum  [sha256.Size]byte // of its content
}

// in copies the workspace in, and notes what went in.
func (c *copied) in(ctx context.Context, s *execpolicy.Session) error {
	from := &source{fsys: c.root.FS(), exclude: c.exclude, base: map[string]state{}}
	err := s.CopyFS(ctx, ".", from)
	if errors.Is(err, execpolicy.ErrUnsafeType) {
		err = fmt.Errorf("%w; what can't be copied can be excluded", err)
	}
	if err != nil {
		return fmt.Errorf("copying the workspace in: %w", err)
	}
	c.base = from.base
	return nil
}

// A source is a file system without what is excluded, that notes the state of what is read from it.
type source struct {
	fsys    fs.FS
	exclude patterns
	base    map[string]state
}

func (s *source) ReadDir(dir string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(s.fsys, dir)
	kept := all[:0]
	for _, d := range all {
		name := path.Join(dir, d.Name())
		if s.exclude.match(name) {
			continue
		}
		info, err := d.Info()
		if err != nil {
			return nil, err
		}
		s.base[name] = state{mode: info.Mode() & (fs.ModeDir | fs.ModePerm)}
		kept = append(kept, d)
	}
	return kept, err
}

func (s *source) Open(name string) (fs.File, error) {
	f, err := s.fsys.Open(name)
	if err != nil || s.base[name].mode.IsDir() || name == "." {
		return f, err
	}
	return &noted{File: f, source: s, name: name, hash: sha256.New()}, nil
}

// A noted file is one that is read once.
type noted struct {
	fs.File
	source *source
	name   string
	size   int64
	hash   hash.Hash
}

func (f *noted) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	f.hash.Write(b[:n])
	f.size += int64(n)
	return n, err
}

func (f *noted) Close() error {
	now := f.source.base[f.name]
	now.size = f.size
	f.hash.Sum(now.sum[:0])
	f.source.base[f.name] = now
	return f.File.Close()
}
