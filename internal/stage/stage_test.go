package stage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/tarball"
)

// newRoot returns a new directory.
func newRoot(t *testing.T) (*os.Root, string) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	assert.NilError(t, err)
	t.Cleanup(func() { root.Close() })
	return root, dir
}

var treeFiles = []string{"file", "in/dir/file"}

// newTree returns a tree of treeFiles in its stage.
func newTree(t *testing.T) (tree *Tree, dir string) {
	root, dir := newRoot(t)
	tree = NewTree(root)
	for _, name := range treeFiles {
		assert.NilError(t, tree.Add(tarball.Header{Name: name, Perm: 0o640}, strings.NewReader(name)))
	}
	return tree, dir
}

// fill makes treeFiles in a directory.
func fill(t *testing.T, dir string) {
	for _, name := range treeFiles {
		assert.NilError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		assert.NilError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
}

func assertNames(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	assert.NilError(t, err)
	got := []string{}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	assert.DeepEqual(t, got, append([]string{}, names...))
}

// Whoever may write to the directory can put another one of it in the place of a stage,
// or a link, whose files may be none of theirs. They stay.
func TestStageInWhosePlaceAnotherIs(t *testing.T) {
	for name, put := range map[string]func(stage string) error{
		"a directory": func(stage string) error { return os.Mkdir(stage, 0o755) },
		"a link":      func(stage string) error { return os.Symlink(".", stage) },
	} {
		t.Run(name, func(t *testing.T) {
			tree, dir := newTree(t)
			stage, away := filepath.Join(dir, tree.stage.name), filepath.Join(dir, "away")
			assert.NilError(t, os.Rename(stage, away))
			assert.NilError(t, put(stage))
			fill(t, stage)
			assert.NilError(t, tree.Add(tarball.Header{Name: "more"}, strings.NewReader("")))
			assert.ErrorIs(t, tree.Clean(), ErrReplaced)
			for _, name := range treeFiles {
				_, err := os.Lstat(filepath.Join(stage, name))
				assert.NilError(t, err)
			}
			_, err := os.Lstat(filepath.Join(stage, "more"))
			assert.ErrorIs(t, err, os.ErrNotExist)
			assertNames(t, away)
		})
	}
}

// Nothing is moved out of what stands in the place of the stage.
func TestPlaceOutOfAnotherStage(t *testing.T) {
	tree, dir := newTree(t)
	stage := filepath.Join(dir, tree.stage.name)
	assert.NilError(t, os.Rename(stage, filepath.Join(dir, "away")))
	fill(t, stage)
	assert.ErrorIs(t, tree.Place(t.Context()), tarball.ErrType)
	_, err := os.Lstat(filepath.Join(dir, "file"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorIs(t, tree.Clean(), ErrReplaced)
}

// A link in the place of a directory is not followed.
func TestDirInWhosePlaceALinkIs(t *testing.T) {
	root, dir := newRoot(t)
	assert.NilError(t, root.Mkdir("made", 0o700))
	info, err := root.Lstat("made")
	assert.NilError(t, err)
	open := func(dir *os.Root) error { return dir.Chmod(".", 0o777) }
	assert.NilError(t, WithDir(root, "made", info, open))
	now, err := root.Stat("made")
	assert.NilError(t, err)
	assert.Equal(t, now.Mode().Perm(), os.FileMode(0o777))
	assert.NilError(t, root.Rename("made", "away"))
	assert.NilError(t, root.Mkdir("theirs", 0o700))
	assert.NilError(t, os.Symlink("theirs", filepath.Join(dir, "made")))
	assert.ErrorIs(t, WithDir(root, "made", info, open), ErrReplaced)
	now, err = root.Stat("theirs")
	assert.NilError(t, err)
	assert.Equal(t, now.Mode().Perm(), os.FileMode(0o700))
}

func TestStageGoes(t *testing.T) {
	root, dir := newRoot(t)
	s := New(root)
	assert.Assert(t, Is(s.name) && !Is(s.name+"x") && !Is(Prefix) && Is("sub/"+s.name))
	assert.NilError(t, s.Check())
	assert.NilError(t, s.Clean())
	owned := false
	assert.NilError(t, s.Put("1", strings.NewReader("one"), 0o644, func(*os.File) error { owned = true; return nil }))
	assert.Assert(t, owned)
	assert.NilError(t, s.Put("2", strings.NewReader("two"), 0o644, nil))
	assert.ErrorIs(t, s.Put("2", strings.NewReader("two"), 0o644, nil), os.ErrExist)
	assert.NilError(t, s.Put("3", strings.NewReader("three"), 0o644, nil))
	assert.NilError(t, s.Drop("2"))
	assert.NilError(t, s.Rename("3", "named"))
	assert.NilError(t, s.Clean())
	assertNames(t, dir, "named")
}

// A file that can't be made whole is left out, with the directories that nothing else is
// in.
func TestTreeWithoutWhatFails(t *testing.T) {
	tree, dir := newTree(t)
	broken, w, err := os.Pipe()
	assert.NilError(t, err)
	assert.NilError(t, w.Close())
	assert.NilError(t, broken.Close())
	assert.ErrorIs(t, tree.Add(tarball.Header{Name: "in/other/file"}, broken), os.ErrClosed)
	when := time.Unix(1e9, 0)
	assert.NilError(t, tree.Add(tarball.Header{Name: "empty", Dir: true, Perm: 0o500, ModTime: when}, nil))
	// Somebody else may place the same directories.
	assert.NilError(t, tree.stage.root.Mkdir("in", 0o711))
	assert.NilError(t, tree.Place(t.Context()))
	assert.NilError(t, tree.Clean())
	assertNames(t, dir, "empty", "file", "in")
	assertNames(t, filepath.Join(dir, "in"), "dir")
	for name, want := range map[string]os.FileMode{"file": 0o640, "in": os.ModeDir | 0o711, "empty": os.ModeDir | 0o700} {
		info, err := os.Stat(filepath.Join(dir, name))
		assert.NilError(t, err)
		assert.Equal(t, info.Mode(), want)
		assert.Assert(t, name != "empty" || info.ModTime().Equal(when))
	}
}

// Nothing is placed if something is in the way.
func TestTreeInWhoseWaySomethingIs(t *testing.T) {
	for name, inWay := range map[string]func(dir string) error{
		"a file of a directory": func(dir string) error { return os.WriteFile(filepath.Join(dir, "in"), nil, 0o600) },
		"a link of a directory": func(dir string) error { return os.Symlink(".", filepath.Join(dir, "in")) },
		"a directory of a file": func(dir string) error { return os.Mkdir(filepath.Join(dir, "file"), 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			tree, dir := newTree(t)
			assert.NilError(t, inWay(dir))
			assert.ErrorIs(t, tree.Place(t.Context()), tarball.ErrType)
			assert.NilError(t, tree.Clean())
			entries, err := os.ReadDir(dir)
			assert.NilError(t, err)
			assert.Equal(t, len(entries), 1)
		})
	}
}
