//go:build linux

package workspace_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/workspace"
)

func wanted(patterns ...string) workspace.CollectOptions {
	return workspace.CollectOptions{Patterns: patterns}
}

// open opens a session of which only the files count.
func (p place) ephemeral(t *testing.T) session {
	t.Helper()
	s, err := execpolicy.Start(t.Context(), p.Policy, p.Spec)
	assert.NilError(t, err)
	t.Cleanup(func() { s.Close() })
	return session{&workspace.Session{Session: s}, t, ""}
}

func TestCollects(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		p.Policy.MaxTreeBytes = 5 << 20
		s := p.ephemeral(t)
		// What does not match may be of any kind and size.
		s.ok(`ln -s / root; ln -s nowhere x.png.link; mkfifo fifo; echo h >h; ln h hard; >"$(printf '\377')"; dd if=/dev/zero of=junk bs=65536 count=160
			mkdir -p out/a/b none; echo 1 >out/1.png; echo 2 >out/a/2.png; echo 3 >out/a/b/3.txt; echo 4 >4.png; >out/empty; chmod 750 out/empty
			echo x >"out/-two
lines ü.png"; touch -d '2023-11-14 22:13:20' 4.png`)
		all := []string{"4.png", "out/-two\nlines ü.png", "out/1.png", "out/a/2.png"}
		files, err := workspace.Collect(t.Context(), s.Session.Session, ".", wanted("**/*.png"))
		assert.NilError(t, err)
		assert.NilError(t, fstest.TestFS(files, all...))
		text, err := fs.ReadFile(files, "out/a/2.png")
		assert.NilError(t, err)
		assert.Equal(t, string(text), "2\n")
		info, err := fs.Stat(files, "4.png")
		assert.NilError(t, err)
		assert.Equal(t, info.ModTime().UTC().Format("2006-01-02"), "2023-11-14")

		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		assert.NilError(t, err)
		defer root.Close()
		names, err := workspace.CollectTo(t.Context(), s.Session.Session, ".", root, wanted("**/*.png", "4.*"))
		assert.NilError(t, err)
		slices.Sort(all)
		assert.DeepEqual(t, names, all)
		for _, name := range all {
			want, err := fs.ReadFile(files, name)
			assert.NilError(t, err)
			got, err := os.ReadFile(filepath.Join(dir, name))
			assert.NilError(t, err)
			assert.Assert(t, bytes.Equal(got, want))
		}

		for _, c := range []struct {
			dir  string
			o    workspace.CollectOptions
			want string
			err  error
		}{
			{".", wanted("*.png"), "4.png", nil},
			{"out", wanted("**"), "-two\nlines ü.png 1.png a/2.png a/b/3.txt empty", nil},
			{"/workspace/out", wanted("?.png", "a/*/*"), "1.png a/b/3.txt", nil},
			{".", wanted("out/**/3.*"), "out/a/b/3.txt", nil},
			{"none", wanted("**"), "", nil},
			{".", wanted("out", "none/*", "a"), "", nil},
			{"no/such", wanted("**"), "", fs.ErrNotExist},
			{".", wanted("root"), "", execpolicy.ErrUnsafeType},
			{".", wanted("*.link"), "", execpolicy.ErrUnsafeType},
			{".", wanted("fifo"), "", execpolicy.ErrUnsafeType},
			{".", wanted("h", "hard"), "", execpolicy.ErrUnsafeType},
			{".", wanted("?"), "", nil},
			{"out", workspace.CollectOptions{Patterns: []string{"**"}, MaxFiles: 4}, "", execpolicy.ErrTooLarge},
			{"out", workspace.CollectOptions{Patterns: []string{"**/*.*"}, MaxFiles: 4, MaxBytes: 8}, "-two\nlines ü.png 1.png a/2.png a/b/3.txt", nil},
			{"out", workspace.CollectOptions{Patterns: []string{"**/*.*"}, MaxBytes: 7}, "", execpolicy.ErrTooLarge},
			{".", wanted("junk"), "", execpolicy.ErrTooLarge},
			{".", wanted(), "", execpolicy.ErrInvalid},
			{".", wanted("["), "", execpolicy.ErrInvalid},
			{".", wanted("../x"), "", execpolicy.ErrInvalid},
			{".", workspace.CollectOptions{Patterns: []string{"*"}, MaxFiles: -1}, "", execpolicy.ErrInvalid},
			{".", workspace.CollectOptions{Patterns: []string{"*"}, MaxBytes: -1}, "", execpolicy.ErrInvalid},
		} {
			if slices.Equal(c.o.Patterns, []string{"?"}) {
				// One of them is the further name, or the one that is not UTF-8.
				_, err := workspace.Collect(t.Context(), s.Session.Session, c.dir, c.o)
				assert.Assert(t, err != nil)
				continue
			}
			dir := t.TempDir()
			to, err := os.OpenRoot(dir)
			assert.NilError(t, err)
			names, err := workspace.CollectTo(t.Context(), s.Session.Session, c.dir, to, c.o)
			to.Close()
			files, fsErr := workspace.Collect(t.Context(), s.Session.Session, c.dir, c.o)
			if c.err != nil {
				assert.ErrorIs(t, err, c.err, "%v", c.o)
				assert.ErrorIs(t, fsErr, c.err, "%v", c.o)
				assert.Equal(t, len(tree(t, dir, "")), 0)
				continue
			}
			assert.NilError(t, err, "%v", c.o)
			assert.NilError(t, fsErr, "%v", c.o)
			assert.Equal(t, strings.Join(names, " "), c.want)
			assert.NilError(t, fstest.TestFS(files, names...))
		}
		s.ok("rm -f \"$(printf '\\377')\" root x.png.link; >\"$(printf 'x\\377')\"")
		_, err = workspace.Collect(t.Context(), s.Session.Session, ".", wanted("x*"))
		assert.ErrorIs(t, err, execpolicy.ErrUnsafeName)
	})
}

// What was planted in the host's directory is not followed, and changes nothing.
func TestCollectToRefuses(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		s := p.ephemeral(t)
		s.ok("mkdir -p sub/deep; echo new >a; echo new >sub/deep/b")
		outside := t.TempDir()
		victim := filepath.Join(outside, "victim")
		for name, c := range map[string]struct {
			plant func(dir string) error
			ok    bool
		}{
			"a link in place of a file":        {func(dir string) error { return os.Symlink(victim, filepath.Join(dir, "a")) }, true},
			"a hard link in place of a file":   {func(dir string) error { return os.Link(victim, filepath.Join(dir, "a")) }, true},
			"a directory that is there":        {func(dir string) error { return os.Mkdir(filepath.Join(dir, "sub"), 0o755) }, true},
			"a link in place of a directory":   {func(dir string) error { return os.Symlink(outside, filepath.Join(dir, "sub")) }, false},
			"a link within, to a directory":    {func(dir string) error { return os.Symlink(".", filepath.Join(dir, "sub")) }, false},
			"a file in place of a directory":   {func(dir string) error { return os.WriteFile(filepath.Join(dir, "sub"), nil, 0o644) }, false},
			"a directory in place of a file":   {func(dir string) error { return os.Mkdir(filepath.Join(dir, "a"), 0o755) }, false},
			"a directory in place of the last": {func(dir string) error { return os.MkdirAll(filepath.Join(dir, "sub/deep/b"), 0o755) }, false},
		} {
			dir := t.TempDir()
			assert.NilError(t, os.WriteFile(victim, []byte("victim"), 0o600))
			assert.NilError(t, c.plant(dir))
			before := tree(t, dir, "")
			root, err := os.OpenRoot(dir)
			assert.NilError(t, err)
			_, err = workspace.CollectTo(t.Context(), s.Session.Session, ".", root, wanted("**"))
			root.Close()
			if c.ok {
				assert.NilError(t, err, name)
				text, err := os.ReadFile(filepath.Join(dir, "sub/deep/b"))
				assert.NilError(t, err)
				assert.Equal(t, string(text), "new\n")
			} else {
				assert.ErrorIs(t, err, execpolicy.ErrUnsafeType, name)
				assert.DeepEqual(t, tree(t, dir, ""), before)
			}
			text, err := os.ReadFile(victim)
			assert.NilError(t, err)
			assert.Equal(t, string(text), "victim", name)
			assert.Equal(t, len(tree(t, outside, "")), 1, name)
			left, _ := filepath.Glob(filepath.Join(dir, ".cofferdam-*"))
			assert.Equal(t, len(left), 0, name)
		}
	})
}
