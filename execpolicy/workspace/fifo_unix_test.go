//go:build unix

package workspace

import (
	"crypto/sha256"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
)

// Whoever can change the host's directory can put a fifo in the place of what was seen
// there. Nothing waits for somebody to write to it.
func TestFifoInThePlaceOfAFile(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	assert.NilError(t, err)
	defer root.Close()
	assert.NilError(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))

	p := placing{copied: &copied{root: root}}
	same, err := p.same("fifo", 0, state{})
	assert.NilError(t, err)
	assert.Assert(t, !same)

	s := &source{root: root, base: map[string]state{"file": {}, "fifo": {}}}
	f, err := s.Open("fifo")
	assert.NilError(t, err)
	info, err := f.Stat()
	assert.NilError(t, err)
	assert.Equal(t, info.Mode().Type(), fs.ModeNamedPipe)
	assert.NilError(t, f.Close())
	_, err = s.ReadDir("fifo")
	assert.ErrorIs(t, err, syscall.ENOTDIR)
}

func TestSource(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	assert.NilError(t, err)
	defer root.Close()
	for _, name := range []string{"b", "a", "dir/c", "dir/d/e", "left/out"} {
		assert.NilError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700))
		assert.NilError(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	exclude, errs := parse([]string{"left"}, true)
	assert.Equal(t, len(errs), 0)
	s := &source{root: root, exclude: exclude, base: map[string]state{}}
	var names []string
	assert.NilError(t, fs.WalkDir(s, ".", func(name string, d fs.DirEntry, err error) error {
		assert.NilError(t, err)
		if names = append(names, name); !d.IsDir() {
			data, err := fs.ReadFile(s, name)
			assert.NilError(t, err)
			assert.Equal(t, string(data), name)
		}
		return nil
	}))
	assert.DeepEqual(t, names, []string{".", "a", "b", "dir", "dir/c", "dir/d", "dir/d/e"})
	_, err = s.Open("../x")
	assert.ErrorIs(t, err, fs.ErrInvalid)
	_, err = s.ReadDir("no")
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

// What is noted of a file that grows while it is copied is what goes in.
func TestFileThatGrows(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	assert.NilError(t, err)
	defer root.Close()
	name := filepath.Join(dir, "file")
	assert.NilError(t, os.WriteFile(name, []byte("old"), 0o600))
	s := &source{root: root, base: map[string]state{}}
	f, err := s.Open("file")
	assert.NilError(t, err)
	_, err = f.Stat()
	assert.NilError(t, err)
	assert.NilError(t, os.WriteFile(name, []byte("older"), 0o600))
	data, err := io.ReadAll(f)
	assert.NilError(t, err)
	assert.Equal(t, string(data), "older")
	assert.NilError(t, f.Close())
	assert.Equal(t, s.base["file"], state{size: 3, sum: sha256.Sum256([]byte("old"))})
}
