//go:build linux

package workspace_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/workspace"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
)

func wanted(patterns ...string) workspace.CollectOptions {
	return workspace.CollectOptions{Patterns: patterns}
}

// open opens a session of which only the files count.
func (p place) ephemeral(t *testing.T) session {
	t.Helper()
	return session{&workspace.Session{Session: places.Open(t, p.Policy, p.Spec)}, t, ""}
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
			{"out", workspace.CollectOptions{Patterns: []string{"**/*.*"}, MaxFiles: 4, MaxBytes: 8},
				"-two\nlines ü.png 1.png a/2.png a/b/3.txt", nil},
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

// What can't be collected is told, and the rest is.
func TestCollectSkips(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		p.Policy.MaxTreeBytes = 5 << 20
		s := p.ephemeral(t)
		s.ok(`mkdir out; echo 1 >out/1; echo 2 >out/2; ln -s /etc/passwd out/link; mkfifo out/fifo; >"$(printf ` +
			`'out/\377')"; dd if=/dev/zero of=out/large bs=65536 count=64; ln -s 1 unmatched`)
		for _, to := range []bool{false, true} {
			for _, c := range []struct {
				o     workspace.CollectOptions
				files int // 1 and 2, and large
				why   map[string]error
			}{
				{workspace.CollectOptions{MaxBytes: 1 << 20}, 2, map[string]error{"large": execpolicy.ErrTooLarge}},
				{workspace.CollectOptions{}, 3, nil},
				{workspace.CollectOptions{MaxFiles: 3}, 3, nil},
			} {
				skipped := map[string]error{}
				c.o.Patterns = []string{"out/*"}
				c.o.Skip = func(e execpolicy.TreeEntry, reason error) error {
					assert.Check(t, skipped[e.Name] == nil, e.Name)
					skipped[strings.TrimPrefix(e.Name, "out/")] = reason
					return nil
				}
				want := map[string]error{"link": execpolicy.ErrUnsafeType, "fifo": execpolicy.ErrUnsafeType,
					"\xff": execpolicy.ErrUnsafeName}
				maps.Copy(want, c.why)
				files, names := s.collect(to, c.o)
				assert.Equal(t, len(names), c.files, "%v", names)
				for _, name := range []string{"1", "2"} {
					text, err := fs.ReadFile(files, "out/"+name)
					assert.NilError(t, err)
					assert.Equal(t, string(text), name+"\n")
				}
				assert.Equal(t, len(skipped), len(want), "%v", skipped)
				for name, reason := range want {
					assert.ErrorIs(t, skipped[name], reason, "%q", name)
				}
			}
			// So many are left out, whichever these are.
			skipped := 0
			_, names := s.collect(to, workspace.CollectOptions{Patterns: []string{"out/*"}, MaxFiles: 1,
				Skip: func(execpolicy.TreeEntry, error) error { skipped++; return nil }})
			assert.Equal(t, len(names), 1)
			assert.Equal(t, skipped, 5)
		}
		enough := errors.New("enough")
		_, err := workspace.Collect(t.Context(), s.Session.Session, ".",
			workspace.CollectOptions{Patterns: []string{"**"}, Skip: func(execpolicy.TreeEntry, error) error { return enough }})
		assert.ErrorIs(t, err, enough)
		// The session's limits are those of the whole.
		s.ok("dd if=/dev/zero of=out/larger bs=65536 count=64")
		for _, to := range []bool{false, true} {
			skipped := map[string]error{}
			_, names := s.collect(to,
				workspace.CollectOptions{Patterns: []string{"out/*"},
					Skip: func(e execpolicy.TreeEntry, reason error) error { skipped[e.Name] = reason; return nil }})
			assert.Assert(t, len(names) >= 1 && len(names)+len(skipped) == 7, "%v %v", names, skipped)
		}
		s.ok("i=0; while [ $i -lt 300 ]; do >out/x$i; i=$((i + 1)); done")
		_, err = workspace.Collect(t.Context(), s.Session.Session, ".",
			workspace.CollectOptions{Patterns: []string{"**"}, Skip: func(execpolicy.TreeEntry, error) error { return nil }})
		assert.ErrorIs(t, err, execpolicy.ErrTooLarge)
	})
}

// A sparse file costs the one who makes it nothing. It costs no other file, matched or
// not.
func TestCollectBesideSparseFiles(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		p.Policy.MaxTreeBytes = 5 << 20
		s := p.ephemeral(t)
		s.ok("mkdir -p a/b; echo 1 >1; echo 2 >a/b/2; ln -s 1 link; for f in sparse a/sparse; do dd if=/dev/zero " +
			"of=$f bs=1 count=1 seek=1000000000000 2>/dev/null; done")
		for _, to := range []bool{false, true} {
			for _, patterns := range [][]string{{"1", "a/**/2", "link"}, {"**"}} {
				skipped := map[string]bool{}
				_, names := s.collect(to,
					workspace.CollectOptions{Patterns: patterns, Skip: func(e execpolicy.TreeEntry, reason error) error {
						assert.Check(t, !skipped[e.Name], e.Name)
						skipped[e.Name] = true
						want := execpolicy.ErrTooLarge
						if e.Name == "link" {
							want = execpolicy.ErrUnsafeType
						}
						assert.Check(t, errors.Is(reason, want), "%v", reason)
						return nil
					}})
				slices.Sort(names)
				assert.DeepEqual(t, names, []string{"1", "a/b/2"})
				assert.Equal(t, len(skipped), map[bool]int{false: 1, true: 3}[patterns[0] == "**"], "%v", skipped)
			}
		}
		_, err := workspace.Collect(t.Context(), s.Session.Session, ".",
			workspace.CollectOptions{Patterns: []string{"sparse"}})
		assert.ErrorIs(t, err, execpolicy.ErrTooLarge)
		// Nothing on the host is made as large as a file says to be.
		_, err = workspace.Collect(t.Context(), s.Session.Session, ".",
			workspace.CollectOptions{Patterns: []string{"sparse"}, MaxBytes: math.MaxInt64})
		assert.ErrorIs(t, err, execpolicy.ErrTooLarge)
		files, err := workspace.Collect(t.Context(), s.Session.Session, "sparse", workspace.CollectOptions{
			Patterns: []string{"**"}, Skip: func(execpolicy.TreeEntry, error) error { return nil },
		})
		assert.NilError(t, err)
		_, err = fs.Stat(files, "sparse")
		assert.ErrorIs(t, err, fs.ErrNotExist)
		files, err = workspace.Collect(t.Context(), s.Session.Session, "a",
			workspace.CollectOptions{Patterns: []string{"b/2"}})
		assert.NilError(t, err)
		text, err := fs.ReadFile(files, "b/2")
		assert.NilError(t, err)
		assert.Equal(t, string(text), "2\n")
		s.ok("mkdir many; cd many; i=0; while [ $i -lt 1001 ]; do mkdir $i; i=$((i + 1)); done")
		_, err = workspace.Collect(t.Context(), s.Session.Session, ".", workspace.CollectOptions{Patterns: []string{"**/2"}})
		assert.ErrorIs(t, err, execpolicy.ErrTooLarge)
	})
}

// A file that can't be read costs no other one, and none where it does not match. Root
// may not read it either: it has no capabilities.
func TestCollectWhatCannotBeRead(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		for _, p.Policy.User = range []string{"", "0:0"} {
			s := p.ephemeral(t)
			s.ok("mkdir -p out/shut out/blind/deep out/open/deep; echo 1 >out/1; echo 2 >out/open/deep/2; " +
				">out/closed; >out/shut/x; >out/blind/x; >out/open/deep/closed; ln -s 1 out/link; " +
				"chmod 0 out/closed out/open/deep/closed out/shut; chmod 333 out/blind")
			defer s.ok("chmod -R u+rwx out")
			for _, to := range []bool{false, true} {
				for _, c := range []struct {
					patterns, files, skipped []string
				}{
					{[]string{"out/*"}, []string{"out/1"}, []string{"out/closed", "out/link"}},
					{[]string{"out/1", "nothing/**"}, []string{"out/1"}, nil},
					{[]string{"out/open/**"}, []string{"out/open/deep/2"}, []string{"out/open/deep/closed"}},
					{[]string{"out/shut/y"}, nil, []string{"out/shut"}},
					{[]string{"**"}, []string{"out/1", "out/open/deep/2"},
						[]string{"out/blind", "out/closed", "out/link", "out/open/deep/closed", "out/shut"}},
				} {
					var skipped []string
					_, files := s.collect(to,
						workspace.CollectOptions{Patterns: c.patterns, Skip: func(e execpolicy.TreeEntry, reason error) error {
							skipped = append(skipped, e.Name)
							want := fs.ErrPermission
							if e.Name == "out/link" {
								want = execpolicy.ErrUnsafeType
							}
							assert.Check(t, errors.Is(reason, want), "%s: %v", e.Name, reason)
							return nil
						}})
					slices.Sort(skipped)
					slices.Sort(files)
					assert.DeepEqual(t, skipped, c.skipped)
					assert.DeepEqual(t, files, c.files)
				}
			}
			for patterns, want := range map[string]error{"out/c*": fs.ErrPermission, "out/1": nil,
				"out/shut/*": fs.ErrPermission, "missing": nil} {
				_, err := workspace.Collect(t.Context(), s.Session.Session, ".",
					workspace.CollectOptions{Patterns: []string{patterns}})
				assert.Assert(t, errors.Is(err, want), "%s: %v", patterns, err)
			}
			enough := errors.New("enough")
			_, err := workspace.Collect(t.Context(), s.Session.Session, "out", workspace.CollectOptions{
				Patterns: []string{"closed", "shut/x"}, Skip: func(execpolicy.TreeEntry, error) error { return enough },
			})
			assert.ErrorIs(t, err, enough)
			for _, dir := range []string{"out/shut", "out/closed"} {
				_, err = workspace.Collect(t.Context(), s.Session.Session, dir, workspace.CollectOptions{
					Patterns: []string{"**"}, Skip: func(execpolicy.TreeEntry, error) error { return nil },
				})
				assert.ErrorIs(t, err, fs.ErrPermission)
			}
		}
	})
}

// Beside a file that can't be read, what has too long a name costs no other one.
func TestCollectBesideLongNames(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		s := p.ephemeral(t)
		dir, file := strings.Repeat("d", 199), strings.Repeat("f", 200)
		s.ok("home=$PWD; echo 1 >1; i=0; while [ $i -lt 20 ]; do mkdir " + dir + " && cd " + dir +
			" || exit 1; i=$((i + 1)); done; >../" + file + "; chmod 0 ../" + file + "; cd \"$home\"")
		within := strings.Repeat(dir+"/", 19)
		for _, to := range []bool{false, true} {
			skipped := map[string]error{}
			_, names := s.collect(to, workspace.CollectOptions{Patterns: []string{"**"},
				Skip: func(e execpolicy.TreeEntry, reason error) error { skipped[e.Name] = reason; return nil }})
			assert.DeepEqual(t, names, []string{"1"})
			assert.Equal(t, len(skipped), 2, "%v", skipped)
			assert.ErrorIs(t, skipped[within+dir], execpolicy.ErrUnsafeName)
			assert.ErrorIs(t, skipped[within+file], execpolicy.ErrUnsafeName)
		}
	})
}

// collect collects, into a directory of the host or not.
func (s session) collect(to bool, o workspace.CollectOptions) (files fs.FS, names []string) {
	s.t.Helper()
	if !to {
		files, err := workspace.Collect(s.t.Context(), s.Session.Session, ".", o)
		assert.NilError(s.t, err)
		assert.NilError(s.t, fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				names = append(names, name)
			}
			return err
		}))
		return files, names
	}
	dir := s.t.TempDir()
	root, err := os.OpenRoot(dir)
	assert.NilError(s.t, err)
	defer root.Close()
	names, err = workspace.CollectTo(s.t.Context(), s.Session.Session, ".", root, o)
	assert.NilError(s.t, err)
	left, _ := filepath.Glob(filepath.Join(dir, ".cofferdam-*"))
	assert.Equal(s.t, len(left), 0)
	return os.DirFS(dir), names
}

// What is deep costs no more than its bound, on the host too.
func TestCollectWhatIsDeep(t *testing.T) {
	enginetest.Check(t)
	limits := limits
	limits.MaxTreeEntries = 2000
	s, err := execpolicy.Start(t.Context(), execpolicy.HostPolicy{Limits: limits}, execpolicy.Spec{})
	assert.NilError(t, err)
	defer s.Close()
	r, err := s.Run(t.Context(),
		execpolicy.Command{Script: `deep=$(printf 'd/%.0s' $(seq 950)); mkdir -p $deep && for i in $(seq 40); do ` +
			`echo $i >$deep$i || exit 1; done`})
	assert.NilError(t, err)
	assert.Equal(t, r.ExitCode, 0, r.Text())
	root, err := os.OpenRoot(t.TempDir())
	assert.NilError(t, err)
	defer root.Close()
	const bound = 10 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	begin := time.Now()
	names, err := workspace.CollectTo(ctx, s, ".", root, workspace.CollectOptions{Patterns: []string{"**"}})
	// When all is looked at, nothing interrupts what gives the files their places.
	assert.Assert(t, time.Since(begin) < 2*bound, "%v", time.Since(begin))
	if !errors.Is(err, context.DeadlineExceeded) {
		assert.NilError(t, err)
		assert.Equal(t, len(names), 40)
	}
}
