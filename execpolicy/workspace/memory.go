package workspace

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// A memory is a file system in memory. It does not change once it is sorted.
type memory map[string]*node

// A node is a file or a directory, and what is known of it.
type node struct {
	name    string
	mode    fs.FileMode
	modTime time.Time
	data    []byte
	entries []fs.DirEntry
}

func newMemory() memory { return memory{".": {name: ".", mode: fs.ModeDir | 0o555}} }

// add adds a file, and the directories that it is in.
func (m memory) add(e execpolicy.TreeEntry, data []byte) {
	m.insert(e.Name, &node{name: path.Base(e.Name), mode: e.Mode, modTime: e.ModTime, data: data})
}

func (m memory) insert(name string, n *node) {
	m[name] = n
	dir := path.Dir(name)
	if m[dir] == nil {
		m.insert(dir, &node{name: path.Base(dir), mode: fs.ModeDir | 0o555})
	}
	m[dir].entries = append(m[dir].entries, fs.FileInfoToDirEntry(n))
}

func (m memory) sort() {
	for _, n := range m {
		slices.SortFunc(n.entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	}
}

func (m memory) find(op, name string) (*node, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	n := m[name]
	if n == nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return n, nil
}

// Open implements [fs.FS].
func (m memory) Open(name string) (fs.File, error) {
	n, err := m.find("open", name)
	if err != nil {
		return nil, err
	}
	if n.IsDir() {
		return &openDir{n: n}, nil
	}
	return &openFile{n, bytes.NewReader(n.data)}, nil
}

// Stat implements [fs.StatFS].
func (m memory) Stat(name string) (fs.FileInfo, error) {
	n, err := m.find("stat", name)
	if err != nil {
		return nil, err
	}
	return n, nil
}

// ReadFile implements [fs.ReadFileFS].
func (m memory) ReadFile(name string) ([]byte, error) {
	n, err := m.find("read", name)
	if err != nil {
		return nil, err
	}
	if n.IsDir() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrInvalid}
	}
	return slices.Clone(n.data), nil
}

// ReadDir implements [fs.ReadDirFS].
func (m memory) ReadDir(name string) ([]fs.DirEntry, error) {
	n, err := m.find("readdir", name)
	if err != nil {
		return nil, err
	}
	if !n.IsDir() {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrInvalid}
	}
	return slices.Clone(n.entries), nil
}

// A node is a [fs.FileInfo].
func (n *node) Name() string       { return n.name }
func (n *node) Size() int64        { return int64(len(n.data)) }
func (n *node) Mode() fs.FileMode  { return n.mode }
func (n *node) ModTime() time.Time { return n.modTime }
func (n *node) IsDir() bool        { return n.mode.IsDir() }
func (n *node) Sys() any           { return nil }

// An openFile is a [fs.File] that can also seek.
type openFile struct {
	n *node
	*bytes.Reader
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.n, nil }
func (f *openFile) Close() error               { return nil }

// An openDir is a [fs.ReadDirFile].
type openDir struct {
	n    *node
	next int
}

func (d *openDir) Stat() (fs.FileInfo, error) { return d.n, nil }
func (d *openDir) Close() error               { return nil }
func (d *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.n.name, Err: fs.ErrInvalid}
}

func (d *openDir) ReadDir(count int) ([]fs.DirEntry, error) {
	rest := d.n.entries[d.next:]
	if count > 0 {
		if len(rest) == 0 {
			return nil, io.EOF
		}
		rest = rest[:min(count, len(rest))]
	}
	d.next += len(rest)
	return slices.Clone(rest), nil
}
