//go:build linux

package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/workspace"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
)

var limits = execpolicy.Limits{CommandTimeout: 30 * time.Second, MaxTreeEntries: 300, MaxTreeBytes: 24 << 20}

// A place opens sessions on one engine.
type place places.Place

func everywhere(t *testing.T, f func(t *testing.T, p place)) {
	places.Everywhere(t, limits, func(t *testing.T, p places.Place) { f(t, place(p)) })
}

// remote makes the engine one that may run on another machine.
func (p place) remote() place {
	e := *p.Policy.Engine
	e.Remote = true
	p.Policy.Engine = &e
	// Podman's service takes no filter of a client's.
	p.Policy.EngineSeccomp = e.Kind == dockercli.Podman
	return p
}

// A session is an open session, the test that it is for, and the host's directory.
type session struct {
	*workspace.Session
	t   *testing.T
	dir string
}

var copied = workspace.Options{Mode: workspace.Copied}

// open opens a session with a workspace that holds the sample.
func (p place) open(t *testing.T, o workspace.Options) session {
	t.Helper()
	return p.openDir(t, sample(t), o)
}

// openDir opens a session with a workspace.
func (p place) openDir(t *testing.T, dir string, o workspace.Options) session {
	t.Helper()
	p.Spec.Workspace = dir
	s, err := workspace.Start(t.Context(), p.Policy, p.Spec, o)
	assert.NilError(t, err)
	t.Cleanup(func() { s.Close() })
	return session{s, t, dir}
}

const awkward = "-rf two\nlines ünï 'q\""

// sample makes a workspace.
func sample(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "workspace")
	fill(t, dir)
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "large"), make([]byte, 3<<20), 0o600))
	return dir
}

// fill makes a directory with all that is in a sample but what is large.
func fill(t *testing.T, dir string) {
	t.Helper()
	for _, d := range []string{"", "sub", "sub/deep", "empty", awkward} {
		assert.NilError(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	for name, text := range map[string]string{"file": "old\n", "run": "#!/bin/sh\n", "sub/deep/file": "deep\n",
		"sub/none": "", awkward + "/" + awkward: "x"} {
		assert.NilError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
}

// ok runs a script that is expected to succeed and returns what it prints, without the
// newline at its end.
func (s session) ok(script string) string {
	s.t.Helper()
	return places.OK(s.t, s.Session.Session, script)
}

// list returns changes in words.
func list(changes []workspace.Change) []string {
	words := []string{}
	for _, c := range changes {
		words = append(words, fmt.Sprintf("%v %q %v %d", c.Kind, c.Name, c.Mode, c.Size))
	}
	return words
}

// changed fails the test unless those are the changes.
func (s session) changed(want ...string) {
	s.t.Helper()
	changes, err := s.Changes(s.t.Context())
	assert.NilError(s.t, err)
	assert.DeepEqual(s.t, list(changes), append([]string{}, want...))
}

// save fails the test unless saving has that error, nil if it has none, and returns what
// it saved in words.
func (s session) save(want error) []string {
	s.t.Helper()
	saved, err := s.Save(s.t.Context())
	if want == nil {
		assert.NilError(s.t, err)
	} else {
		assert.ErrorIs(s.t, err, want)
	}
	s.clean()
	return list(saved)
}

// clean fails the test if something unfinished is in the host's directory.
func (s session) clean() {
	s.t.Helper()
	left, err := filepath.Glob(filepath.Join(s.dir, ".cofferdam-*"))
	assert.NilError(s.t, err)
	assert.Equal(s.t, len(left), 0, "%q", left)
}

// host returns the content of one of the host's files.
func (s session) host(name string) string {
	s.t.Helper()
	info, err := os.Lstat(filepath.Join(s.dir, name))
	assert.NilError(s.t, err)
	assert.Assert(s.t, info.Mode().IsRegular(), "%s is %v", name, info.Mode())
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	assert.NilError(s.t, err)
	return string(text)
}

// A sessionCase is one with a copy of the sample for itself.
type sessionCase struct {
	name string
	do   func(t *testing.T, s session)
}

func runCases(t *testing.T, cases []sessionCase) {
	everywhere(t, func(t *testing.T, p place) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.do(t, p.open(t, copied))
			})
		}
	})
}

func TestCopies(t *testing.T) {
	runCases(t, []sessionCase{
		{"the copy is the host's, and the session's", func(t *testing.T, s session) {
			assert.Assert(t, s.Copied())
			assert.Equal(t, s.ok("pwd; cat file sub/deep/file; cat ./-rf*/-rf*; wc -c <large; ls -d empty"),
				"/workspace\nold\ndeep\nx3145728\nempty")
			s.changed()
			assert.DeepEqual(t, s.save(nil), []string{})
			s.ok("echo more >>file; mkdir mine; rm large; rmdir empty")
			assert.Equal(t, s.host("file"), "old\n")
		}},
		{"every kind of change", func(t *testing.T, s session) {
			s.ok(`
				echo changed >file; touch -d 2001-01-01 sub/none; chmod 750 run; chmod 700 sub/deep
				rm large; rmdir empty; mkdir -p new/er; echo 1 >new/er/file; echo 22 >"new/$(printf 'a b\nc')"; >"$(printf 'odd\377')"
				rm sub/deep/file; mkdir sub/deep/file; rm -r ./-rf*; echo file >"$(printf -- '-rf two\nlines ünï %sq"' "'")"
				ln -s /etc/passwd link; mkfifo fifo; ln run zz`)
			hard := `added "zz" ?rwxr-x--- 0`
			first := `changed "run" -rwxr-x--- 10`
			if strings.Contains(strings.Join(list(must(s.Changes(t.Context()))), "\n"), `changed "run" ?`) {
				// It is the other name of the two that tar came to first.
				hard, first = `added "zz" -rwxr-x--- 10`, `changed "run" ?rwxr-x--- 0`
			}
			s.changed(
				`changed "-rf two\nlines ünï 'q\"" -rw-r--r-- 5`,
				`deleted "-rf two\nlines ünï 'q\"/-rf two\nlines ünï 'q\"" -rw-r--r-- 0`,
				`deleted "empty" drwxr-xr-x 0`,
				`added "fifo" prw-r--r-- 0`,
				`changed "file" -rw-r--r-- 8`,
				`deleted "large" -rw------- 0`,
				`added "link" Lrwxrwxrwx 0`,
				`added "new" drwxr-xr-x 0`,
				`added "new/a b\nc" -rw-r--r-- 3`,
				`added "new/er" drwxr-xr-x 0`,
				`added "new/er/file" -rw-r--r-- 2`,
				`added "odd\xff" -rw-r--r-- 0`,
				first,
				`changed "sub/deep" drwx------ 0`,
				`changed "sub/deep/file" drwxr-xr-x 0`,
				hard,
			)
		}},
		{"a content is seen to change whatever its time", func(t *testing.T, s session) {
			s.ok("touch -r file t; echo OLD >file; touch -r t file; rm t; dd if=/dev/zero of=large bs=1 count=1 " +
				"seek=3145727 conv=notrunc; touch -d 2001-01-01 sub/none")
			s.changed(`changed "file" -rw-r--r-- 4`)
			s.ok("printf x | dd of=large bs=1 seek=3145727 conv=notrunc")
			s.changed(`changed "file" -rw-r--r-- 4`, `changed "large" -rw------- 3145728`)
		}},
		{"what is deleted on both sides can be made again", func(t *testing.T, s session) {
			s.ok("mv sub gone; rm file")
			s.ok("rm -r gone")
			want := []string{`deleted "file" -rw-r--r-- 0`, `deleted "sub" drwxr-xr-x 0`, `deleted "sub/deep" drwxr-xr-x 0`,
				`deleted "sub/deep/file" -rw-r--r-- 0`, `deleted "sub/none" -rw-r--r-- 0`}
			assert.DeepEqual(t, s.save(nil), want)
			s.changed(want...)
			assert.NilError(t, os.RemoveAll(filepath.Join(s.dir, "sub")))
			assert.NilError(t, os.Remove(filepath.Join(s.dir, "file")))
			s.changed()
			// With what it was, and with something else.
			s.ok("umask 22; echo old >file; mkdir sub; echo other >sub/none")
			assert.DeepEqual(t, s.save(nil), []string{`added "file" -rw-r--r-- 4`, `added "sub" drwxr-xr-x 0`, `added "sub/none" -rw-r--r-- 6`})
			assert.Equal(t, s.host("file")+s.host("sub/none"), "old\nother\n")
		}},
		{"what was made again inside is the host's to delete", func(t *testing.T, s session) {
			s.ok("cp -p file x; rm file")
			assert.DeepEqual(t, s.save(nil), []string{`deleted "file" -rw-r--r-- 0`, `added "x" -rw-r--r-- 4`})
			s.ok("cp -p x file")
			s.changed()
			assert.NilError(t, os.Remove(filepath.Join(s.dir, "file")))
			assert.Equal(t, len(s.save(nil)), 0)
			_, err := os.Lstat(filepath.Join(s.dir, "file"))
			assert.ErrorIs(t, err, fs.ErrNotExist)
			s.ok("echo new >file")
			assert.Equal(t, len(s.save(workspace.ErrConflict)), 0)
		}},
		{"what has become something else is saved when the host's is gone", func(t *testing.T, s session) {
			s.ok("umask 22; rm file; mkdir file; echo 1 >file/x; rm -r sub; echo 2 >sub")
			s.save(workspace.ErrConflict)
			assert.NilError(t, os.Remove(filepath.Join(s.dir, "file")))
			assert.NilError(t, os.RemoveAll(filepath.Join(s.dir, "sub")))
			assert.DeepEqual(t, s.save(nil), []string{`added "file" drwxr-xr-x 0`, `added "file/x" -rw-r--r-- 2`, `added "sub" -rw-r--r-- 2`})
			assert.Equal(t, s.host("file/x")+s.host("sub"), "1\n2\n")
		}},
		{"what was added and changed is saved, and nothing deleted", func(t *testing.T, s session) {
			s.ok(`umask 27; echo new >file; chmod 750 run; mkdir -p 'a/b c'; echo 1 >'a/b c/-x'; >a/none; mkdir a/empty; chmod 555 a; rm sub/none
				printf x | dd of=large bs=1 seek=3145727 conv=notrunc; dd if=/dev/zero of=huge bs=65536 count=40; chmod 700 sub`)
			want := []string{
				`added "a" dr-xr-xr-x 0`,
				`added "a/b c" drwxr-x--- 0`,
				`added "a/b c/-x" -rw-r----- 2`,
				`added "a/empty" drwxr-x--- 0`,
				`added "a/none" -rw-r----- 0`,
				`changed "file" -rw-r--r-- 4`,
				`added "huge" -rw-r----- 2621440`,
				`changed "large" -rw------- 3145728`,
				`changed "run" -rwxr-x--- 10`,
				`changed "sub" drwx------ 0`,
				`deleted "sub/none" -rw-r--r-- 0`,
			}
			s.changed(want...)
			assert.DeepEqual(t, s.save(nil), want)
			assert.Equal(t, s.host("file")+s.host("a/b c/-x")+s.host("a/none")+s.host("sub/none"), "new\n1\n")
			assert.Equal(t, len(s.host("huge")), 2621440)
			assert.Equal(t, s.host("large")[3145727:], "x")
			for name, mode := range map[string]fs.FileMode{"a": fs.ModeDir | 0o555, "a/empty": fs.ModeDir | 0o750,
				"a/b c/-x": 0o640, "run": 0o750, "sub": fs.ModeDir | 0o700} {
				info, err := os.Stat(filepath.Join(s.dir, name))
				assert.NilError(t, err)
				assert.Equal(t, info.Mode(), mode, name)
			}
			// What is saved is no change any more, and can be changed again.
			s.changed(`deleted "sub/none" -rw-r--r-- 0`)
			s.ok("echo newer >file")
			assert.DeepEqual(t, s.save(nil), []string{`changed "file" -rw-r--r-- 6`, `deleted "sub/none" -rw-r--r-- 0`})
			assert.Equal(t, s.host("file"), "newer\n")
			assert.NilError(t, os.Chmod(filepath.Join(s.dir, "a"), 0o755))
		}},
		{"Close saves", func(t *testing.T, s session) {
			s.ok("echo new >file; ln -s / link; rm large")
			err := s.Close()
			assert.ErrorIs(t, err, execpolicy.ErrUnsafeType)
			assert.ErrorContains(t, err, "link")
			assert.Equal(t, s.host("file"), "new\n")
			assert.Equal(t, len(s.host("large")), 3<<20)
			assert.Equal(t, s.Close(), err)
			_, err = s.Save(t.Context())
			assert.ErrorIs(t, err, execpolicy.ErrClosed)
			_, err = s.Changes(t.Context())
			assert.ErrorIs(t, err, execpolicy.ErrClosed)
			s.clean()
		}},
		{"Close ends what runs and saves what it has made", func(t *testing.T, s session) {
			done := make(chan error, 1)
			begun := make(chan struct{})
			go func() {
				_, err := s.Run(t.Context(), execpolicy.Command{Script: "echo half >file; echo begun; sleep 4795",
					Stdout: places.OnWrite(func() { close(begun) })})
				done <- err
			}()
			<-begun
			assert.NilError(t, s.Close())
			assert.ErrorIs(t, <-done, execpolicy.ErrClosed)
			assert.Equal(t, s.host("file"), "half\n")
		}},
		{"Restart copies in anew", func(t *testing.T, s session) {
			s.ok("echo lost >file; >lost")
			assert.NilError(t, os.WriteFile(filepath.Join(s.dir, "file"), []byte("meanwhile\n"), 0o644))
			assert.NilError(t, s.Restart(t.Context()))
			s.changed()
			assert.Equal(t, s.ok("cat file; ls lost 2>/dev/null; :"), "meanwhile")
			s.ok("echo new >file")
			assert.NilError(t, s.Close())
			assert.Equal(t, s.host("file"), "new\n")
		}},
		{"it is of one moment", func(t *testing.T, s session) {
			// Whichever end of the directory tar begins at, there is a large file between
			// the two.
			s.ok(`mkdir a; dd if=/dev/zero of=m bs=65536 count=128; mkdir z
				i=0; while :; do i=$((i + 1)); echo $i >a/new; mv a/new a/n; echo $i >z/new; mv z/new z/n; done & job=$!
				while [ ! -e z/n ]; do :; done`)
			for range 5 {
				s.save(nil)
				var a, z int
				fmt.Sscan(s.host("a/n"), &a)
				fmt.Sscan(s.host("z/n"), &z)
				assert.Assert(t, a > 0 && (a == z || a == z+1), "%d and %d", a, z)
			}
			s.ok("kill $job; wait; rm -f a/new z/new; :")
		}},
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Nothing is touched outside, and what can't be saved costs nothing but itself.
func TestSaveRefuses(t *testing.T) {
	on := func(dir, name string) string { return filepath.Join(dir, name) }
	cases := []struct {
		name     string
		inside   string // beside a change to "good"
		host     func(dir, outside string) error
		want     error
		mentions string
	}{
		{"a link", "ln -s /etc/passwd new", nil, execpolicy.ErrUnsafeType, "new"},
		{"a link in place of a file", "ln -sf /etc/passwd file", nil, execpolicy.ErrUnsafeType, "file"},
		{"a link in place of a directory", "rm -r sub; ln -s /etc sub", nil, execpolicy.ErrUnsafeType, "sub"},
		{"a hard link", "echo x >new; ln new newer", nil, execpolicy.ErrUnsafeType, "new"},
		{"a fifo", "mkfifo new", nil, execpolicy.ErrUnsafeType, "new"},
		{"a fifo in place of a file", "rm file; mkfifo file", nil, execpolicy.ErrUnsafeType, "file"},
		{"a name that is not UTF-8", `echo x >"$(printf 'n\377w')"`, nil, execpolicy.ErrUnsafeName, `n\xffw`},
		{"a directory in place of a file", "rm file; mkdir file; echo x >file/x", nil, workspace.ErrConflict, "file"},
		{"a file in place of a directory", "rm -r sub; echo x >sub", nil, workspace.ErrConflict, "sub"},
		{"a file in place of an empty directory", "rmdir empty; echo x >empty", nil, workspace.ErrConflict, "empty"},
		{"the host has changed a file", "echo mine >file", func(dir, _ string) error {
			return os.WriteFile(on(dir, "file"), []byte("own\n"), 0o644)
		}, workspace.ErrConflict, "file"},
		{"the host has made a file longer", "echo mine >file", func(dir, _ string) error {
			return os.WriteFile(on(dir, "file"), []byte("old\nown\n"), 0o644)
		}, workspace.ErrConflict, "file"},
		{"the host has deleted a file", "echo mine >file",
			func(dir, _ string) error { return os.Remove(on(dir, "file")) }, workspace.ErrConflict, "file"},
		{"the host has made a file", "echo mine >new", func(dir, _ string) error {
			return os.WriteFile(on(dir, "new"), []byte("own\n"), 0o644)
		}, workspace.ErrConflict, "new"},
		{"the host has made a directory of a file", "echo mine >file", func(dir, _ string) error {
			return errors.Join(os.Remove(on(dir, "file")), os.Mkdir(on(dir, "file"), 0o755))
		}, workspace.ErrConflict, "file"},
		{"both have made a directory of a file", "rm file; mkdir -m 777 file; echo x >file/x", func(dir, _ string) error {
			return errors.Join(os.Remove(on(dir, "file")), os.Mkdir(on(dir, "file"), 0o700))
		}, workspace.ErrConflict, "file"},
		{"the host has made a directory where a file is to be", "echo mine >new", func(dir, _ string) error {
			return os.Mkdir(on(dir, "new"), 0o755)
		}, workspace.ErrConflict, "new"},
		{"the host has made a file where a directory is to be", "mkdir new; echo x >new/x", func(dir, _ string) error {
			return os.WriteFile(on(dir, "new"), nil, 0o644)
		}, workspace.ErrConflict, "new"},
		{"the host has made a directory too", "mkdir new new/er; echo x >new/x; echo x >new/er/x", func(dir, _ string) error {
			return errors.Join(os.Mkdir(on(dir, "new"), 0o700), os.Mkdir(on(dir, "new/er"), 0o700))
		}, workspace.ErrConflict, "new"},
		{"the host has deleted a directory", "echo x >sub/new; chmod 700 sub",
			func(dir, _ string) error { return os.RemoveAll(on(dir, "sub")) }, workspace.ErrConflict, "sub"},
		{"a link was planted in place of a file", "echo mine >file", func(dir, outside string) error {
			return errors.Join(os.Remove(on(dir, "file")), os.Symlink(on(outside, "victim"), on(dir, "file")))
		}, workspace.ErrConflict, "file"},
		{"a link that looks the same was planted", "echo mine >file", func(dir, outside string) error {
			return errors.Join(os.Rename(on(dir, "file"), on(outside, "same")), os.Symlink(on(outside, "same"), on(dir, "file")))
		}, workspace.ErrConflict, "file"},
		{"a link was planted where a file is to be", "echo mine >new", func(dir, outside string) error {
			return os.Symlink(on(outside, "new"), on(dir, "new"))
		}, workspace.ErrConflict, "new"},
		{"a link was planted in place of a directory", "echo mine >sub/new", func(dir, outside string) error {
			return errors.Join(os.RemoveAll(on(dir, "sub")), os.Symlink(outside, on(dir, "sub")))
		}, workspace.ErrConflict, "sub"},
		{"a link was planted that leads within", "echo mine >sub/new; echo x >sub/deep/new", func(dir, _ string) error {
			return errors.Join(os.RemoveAll(on(dir, "sub")), os.Mkdir(on(dir, "other"), 0o755),
				os.Mkdir(on(dir, "other/deep"), 0o755), os.Symlink("other", on(dir, "sub")))
		}, workspace.ErrConflict, "sub"},
		{"a link was planted where a directory is to be", "mkdir new; echo x >new/x", func(dir, outside string) error {
			return os.Symlink(outside, on(dir, "new"))
		}, workspace.ErrConflict, "new"},
		{"a hard link was planted", "echo mine >file", func(dir, outside string) error {
			return errors.Join(os.Remove(on(dir, "file")), os.Link(on(outside, "victim"), on(dir, "file")))
		}, workspace.ErrConflict, "file"},
		{"a fifo was planted", "echo mine >file", func(dir, _ string) error {
			return errors.Join(os.Remove(on(dir, "file")), syscall.Mkfifo(on(dir, "file"), 0o644))
		}, workspace.ErrConflict, "file"},
	}
	everywhere(t, func(t *testing.T, p place) {
		// Each has a sample of its own, all in one workspace: a session for each would
		// take a minute.
		dir := filepath.Join(t.TempDir(), "workspace")
		assert.NilError(t, os.Mkdir(dir, 0o755))
		p.Policy.MaxTreeEntries = 1000
		p.Spec.Workspace = dir
		var script strings.Builder
		for i, c := range cases {
			fill(t, on(dir, fmt.Sprint(i)))
			fmt.Fprintf(&script, "(cd %d || exit; echo good >good; %s) || exit\n", i, c.inside)
		}
		started, err := workspace.Start(t.Context(), p.Policy, p.Spec, copied)
		assert.NilError(t, err)
		defer started.Close()
		s := session{started, t, dir}
		s.ok(script.String())
		before, beside, outside := make([]map[string]string, len(cases)), make([]map[string]string, len(cases)),
			make([]string, len(cases))
		for i, c := range cases {
			outside[i] = filepath.Join(t.TempDir(), "outside")
			assert.NilError(t, os.Mkdir(outside[i], 0o755))
			assert.NilError(t, os.WriteFile(filepath.Join(outside[i], "victim"), []byte("victim"), 0o600))
			dir := on(dir, fmt.Sprint(i))
			if c.host != nil {
				assert.NilError(t, c.host(dir, outside[i]))
			}
			before[i], beside[i] = tree(t, dir, "good"), tree(t, outside[i], "")
		}
		saved, err := s.Save(t.Context())
		var refused interface{ Unwrap() []error }
		assert.Assert(t, errors.As(err, &refused), "%v", err)
		s.clean()
		changes, err := s.Changes(t.Context())
		assert.NilError(t, err)
		for i, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				var own []error
				for _, err := range refused.Unwrap() {
					if strings.HasPrefix(err.Error(), fmt.Sprintf(`"%d/`, i)) {
						own = append(own, err)
					}
				}
				assert.ErrorIs(t, errors.Join(own...), c.want)
				assert.ErrorContains(t, errors.Join(own...), c.mentions)
				assert.DeepEqual(t, tree(t, outside[i], ""), beside[i])
				// What is refused is as it was, and the rest is saved.
				assert.Assert(t, slices.ContainsFunc(saved,
					func(c workspace.Change) bool { return c.Name == fmt.Sprintf("%d/good", i) }))
				assert.Equal(t, s.host(fmt.Sprintf("%d/good", i)), "good\n")
				after := tree(t, on(dir, fmt.Sprint(i)), "good")
				if c.name == "a hard link" {
					// One of the two names.
					delete(after, "new")
					delete(after, "newer")
				}
				assert.DeepEqual(t, after, before[i])
				// It is still a change.
				assert.Assert(t, slices.ContainsFunc(list(changes), func(line string) bool {
					return strings.Contains(line, fmt.Sprintf(`"%d/`, i)) && strings.Contains(line, c.mentions)
				}), "%q", list(changes))
			})
		}
	})
	runCases(t, []sessionCase{{"very many links", func(t *testing.T, s session) {
		s.ok("echo good >good; i=0; while [ $i -lt 150 ]; do ln -s / l$i; i=$((i + 1)); done")
		before := tree(t, s.dir, "good")
		saved, err := s.Save(t.Context())
		assert.ErrorIs(t, err, execpolicy.ErrUnsafeType)
		assert.ErrorContains(t, err, "and 50 more")
		assert.DeepEqual(t, list(saved), []string{`added "good" -rw-r--r-- 5`})
		s.clean()
		assert.Equal(t, s.host("good"), "good\n")
		assert.DeepEqual(t, tree(t, s.dir, "good"), before)
		changes, err := s.Changes(t.Context())
		assert.NilError(t, err)
		assert.Equal(t, len(changes), 150)
	}}})
}

// tree describes all that is in a directory but one name.
func tree(t *testing.T, dir, without string) map[string]string {
	t.Helper()
	all := map[string]string{}
	assert.NilError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		if rel == without || rel == "." {
			return nil
		}
		all[rel] = fmt.Sprint(info.Mode(), info.Sys().(*syscall.Stat_t).Ino)
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(name)
			all[rel] += string(data)
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(name)
			all[rel] += target
			return err
		}
		return nil
	}))
	return all
}

func TestModes(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		t.Run("mounted where the engine can", func(t *testing.T) {
			t.Parallel()
			dir := sample(t)
			enginetest.GiveAway(t, dir)
			s := p.openDir(t, dir, workspace.Options{})
			assert.Assert(t, !s.Copied())
			_, err := s.Changes(t.Context())
			assert.ErrorIs(t, err, execpolicy.ErrInvalid)
			_, err = s.Save(t.Context())
			assert.ErrorIs(t, err, execpolicy.ErrInvalid)
			assert.Equal(t, s.ok("cat file; touch mine"), "old")
			assert.NilError(t, s.Restart(t.Context()))
			assert.NilError(t, s.Close())
			assert.Equal(t, s.host("mine"), "")
		})
		t.Run("copied where it can't", func(t *testing.T) {
			t.Parallel()
			s := p.remote().open(t, workspace.Options{})
			assert.Assert(t, s.Copied())
			s.ok("echo new >file")
			assert.NilError(t, s.Close())
			assert.Equal(t, s.host("file"), "new\n")
		})
		t.Run("a mount that can't be had", func(t *testing.T) {
			t.Parallel()
			p := p.remote()
			p.Spec.Workspace = sample(t)
			_, err := workspace.Start(t.Context(), p.Policy, p.Spec, workspace.Options{Mode: workspace.Mounted})
			assert.ErrorIs(t, err, execpolicy.ErrNoMount)
			assert.ErrorContains(t, err, "another machine")
		})
		t.Run("a start that fails for another reason is not tried as a copy", func(t *testing.T) {
			t.Parallel()
			p := p
			p.Spec.Workspace = sample(t)
			enginetest.GiveAway(t, p.Spec.Workspace)
			calls := 0
			p.Spec.Prepare = func(context.Context, *execpolicy.Session) error { calls++; return errHook }
			_, err := workspace.Start(t.Context(), p.Policy, p.Spec, workspace.Options{})
			assert.ErrorIs(t, err, errHook)
			assert.Equal(t, calls, 1)
		})
		t.Run("excluded and discarded", func(t *testing.T) {
			t.Parallel()
			s := p.open(t, workspace.Options{Exclude: []string{"sub", "**/*.tmp"}, Discard: true})
			assert.Assert(t, s.Copied())
			s.ok("[ ! -e sub ]; mkdir sub SUB; echo hook >SUB/hook; echo x >sub/none; echo x >empty/x.TMP; echo 1 >file")
			s.changed(`changed "file" -rw-r--r-- 2`)
			assert.DeepEqual(t, s.save(nil), []string{`changed "file" -rw-r--r-- 2`})
			s.ok("echo 2 >file")
			assert.NilError(t, s.Close())
			assert.Equal(t, s.host("file")+s.host("sub/none"), "1\n")
		})
		t.Run("read-only", func(t *testing.T) {
			t.Parallel()
			p := p.remote()
			p.Policy.WorkspaceReadOnly = true
			p.Spec.Workspace = sample(t)
			for _, policy := range []execpolicy.Policy{p.Policy, &p.Policy} {
				started, err := workspace.Start(t.Context(), policy, p.Spec, workspace.Options{})
				assert.NilError(t, err)
				s := session{started, t, p.Spec.Workspace}
				s.ok("echo new >file")
				s.changed(`changed "file" -rw-r--r-- 4`)
				_, err = s.Save(t.Context())
				assert.ErrorIs(t, err, execpolicy.ErrInvalid)
				assert.NilError(t, s.Close())
				assert.Equal(t, s.host("file"), "old\n")
			}
		})
		t.Run("hooks and scripts of the caller's", func(t *testing.T) {
			t.Parallel()
			p := p
			p.Spec.Prepare = func(ctx context.Context, s *execpolicy.Session) error {
				text, err := s.ReadFile(ctx, "file", 0)
				return errors.Join(err, s.WriteFile(ctx, "prepared", text, 0o644))
			}
			p.Spec.Startup = []string{"cat prepared file >started"}
			p.Spec.Shutdown = []string{"cp started shut"}
			p.Spec.Finish = func(ctx context.Context, s *execpolicy.Session) error {
				text, err := s.ReadFile(ctx, "shut", 0)
				return errors.Join(err, s.WriteFile(ctx, "finished", text, 0o644), errHook)
			}
			s := p.open(t, copied)
			assert.ErrorIs(t, s.Close(), errHook)
			assert.Equal(t, s.host("finished"), "old\nold\n")
		})
		t.Run("the owner of the workspace gets what is saved", func(t *testing.T) {
			t.Parallel()
			p := p
			if os.Geteuid() != 0 {
				leftout.Skip(t, "only root gives files to others")
			}
			p.Spec.Workspace = sample(t)
			assert.NilError(t, os.Chown(p.Spec.Workspace, 4711, 4712))
			started, err := workspace.Start(t.Context(), p.Policy, p.Spec, copied)
			assert.NilError(t, err)
			s := session{started, t, p.Spec.Workspace}
			s.ok("mkdir new; echo x >new/x; echo y >file")
			assert.NilError(t, s.Close())
			for _, name := range []string{"new", "new/x", "file"} {
				info, err := os.Lstat(filepath.Join(s.dir, name))
				assert.NilError(t, err)
				st := info.Sys().(*syscall.Stat_t)
				assert.Assert(t, st.Uid == 4711 && st.Gid == 4712, name)
			}
		})
		t.Run("a container that has ended", func(t *testing.T) {
			t.Parallel()
			s := p.open(t, copied)
			assert.NilError(t, p.Policy.Engine.Remove(t.Context(), s.Name()))
			<-s.Done()
			assert.ErrorIs(t, s.Close(), execpolicy.ErrEnded)
		})
	})
}

var errHook = errors.New("the caller's own")

func TestStartRefuses(t *testing.T) {
	nowhere := execpolicy.DockerPolicy{Engine: &dockercli.Engine{Path: "true"}}
	dir := t.TempDir()
	for _, c := range []struct {
		dir  string
		o    workspace.Options
		want string
	}{
		{"", copied, "no workspace"},
		{"", workspace.Options{}, "no workspace"},
		{dir + "/none", copied, "can't be used"},
		{dir, workspace.Options{Mode: 9}, "mode 9"},
		{dir, workspace.Options{Mode: -1}, "mode -1"},
		{dir, workspace.Options{Mode: workspace.Mounted, Discard: true}, "Discard"},
		{dir, workspace.Options{Mode: workspace.Mounted, Exclude: []string{"a"}}, "Exclude"},
		{dir, workspace.Options{Exclude: []string{"a", "[", "../x", "/x", "x/", "", "a**"}}, "**"},
	} {
		_, err := workspace.Start(t.Context(), nowhere, execpolicy.Spec{Workspace: c.dir}, c.o)
		assert.ErrorIs(t, err, execpolicy.ErrInvalid, c.want)
		assert.ErrorContains(t, err, c.want)
	}
	// A failed start leaves nothing, and says what can't be copied.
	everywhere(t, func(t *testing.T, p place) {
		p.Spec.Workspace = sample(t)
		assert.NilError(t, os.Symlink("file", filepath.Join(p.Spec.Workspace, "link")))
		_, err := workspace.Start(t.Context(), p.Policy, p.Spec, copied)
		assert.ErrorIs(t, err, execpolicy.ErrStart)
		assert.ErrorIs(t, err, execpolicy.ErrUnsafeType)
		assert.ErrorContains(t, err, `"link"`)
		s, err := workspace.Start(t.Context(), p.Policy, p.Spec, workspace.Options{Exclude: []string{"link"}})
		assert.NilError(t, err)
		assert.NilError(t, s.Close())
		p.Policy.MaxTreeBytes = 1 << 20
		_, err = workspace.Start(t.Context(), p.Policy, p.Spec, workspace.Options{Exclude: []string{"link"}})
		assert.ErrorIs(t, err, execpolicy.ErrTooLarge)
	})
}

// Everything at once neither hangs nor races, and what is saved is whole.
// What is not to be mounted is not copied either.
func TestCopiesNothingThatGivesTheHostAway(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		p = p.remote()
		home, err := filepath.EvalSymlinks(t.TempDir())
		assert.NilError(t, err)
		ssh, kept := filepath.Join(home, ".ssh"), filepath.Join(home, "kept")
		for _, dir := range []string{ssh, kept} {
			assert.NilError(t, os.Mkdir(dir, 0o755))
		}
		t.Setenv("HOME", home)
		p.Policy.ProtectedPaths = []string{kept}
		for _, o := range []workspace.Options{{}, copied, {Discard: true}, {Exclude: []string{"x"}}} {
			for _, dir := range []string{home, ssh, kept} {
				p.Spec.Workspace = dir
				for _, policy := range []execpolicy.Policy{p.Policy, &p.Policy} {
					_, err := workspace.Start(t.Context(), policy, p.Spec, o)
					assert.ErrorIs(t, err, execpolicy.ErrInvalid, "%v %s", o, dir)
					assert.ErrorContains(t, err, "would show "+dir)
				}
			}
		}
		p.Policy.AllowUnsafeMounts = []string{ssh}
		p.Spec.Workspace = ssh
		started, err := workspace.Start(t.Context(), p.Policy, p.Spec, copied)
		assert.NilError(t, err)
		s := session{started, t, ssh}
		s.ok("echo new >file")
		assert.NilError(t, s.Close())
		got, err := os.ReadFile(filepath.Join(ssh, "file"))
		assert.NilError(t, err)
		assert.Equal(t, string(got), "new\n")
	})
}

func TestAtTheSameTime(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		s := p.open(t, copied)
		known := func(err error) {
			if err != nil && !errors.Is(err, execpolicy.ErrClosed) && !errors.Is(err, workspace.ErrConflict) &&
				// A Restart that Close cuts off has ended the container already.
				!errors.Is(err, execpolicy.ErrEnded) {
				t.Error(err)
			}
		}
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				_, err := s.Run(t.Context(),
					execpolicy.Command{Script: "head -c 100000 /dev/zero >half && mv half file; mkdir -p new; echo x >new/x"})
				known(err)
			})
			all.Go(func() { _, err := s.Changes(t.Context()); known(err) })
			all.Go(func() { _, err := s.Save(t.Context()); known(err) })
			all.Go(func() { known(s.Restart(t.Context())) })
			all.Go(func() {
				_, err := workspace.Collect(t.Context(), s.Session.Session, ".", wanted("sub/**"))
				known(err)
			})
		}
		all.Go(func() { known(s.Close()) })
		all.Wait()
		text := s.host("file")
		assert.Assert(t, text == "old\n" || len(text) == 100000)
		s.clean()
	})
}

// A tree that can't be read as a whole is not saved at all.
func TestBombs(t *testing.T) {
	runCases(t, []sessionCase{
		{"too many", func(t *testing.T, s session) {
			s.ok("echo new >file; mkdir z; i=0; while [ $i -lt 300 ]; do >z/$i; i=$((i + 1)); done")
			s.save(execpolicy.ErrTooLarge)
			assert.Equal(t, s.host("file"), "old\n")
		}},
		{"too large", func(t *testing.T, s session) {
			s.ok("echo new >file; dd if=/dev/zero of=z bs=65536 count=400")
			s.save(execpolicy.ErrTooLarge)
			assert.Equal(t, s.host("file"), "old\n")
			_, err := s.Changes(t.Context())
			assert.ErrorIs(t, err, execpolicy.ErrTooLarge)
			// The error of Close says so, and it is closed all the same.
			assert.ErrorIs(t, s.Close(), execpolicy.ErrTooLarge)
			<-s.Done()
			s.clean()
		}},
		{"with holes", func(t *testing.T, s session) {
			s.ok("dd if=/dev/zero of=z bs=65536 seek=100000 count=1")
			s.save(execpolicy.ErrTooLarge)
		}},
		{"what can't be read", func(t *testing.T, s session) {
			s.ok("echo new >file; >z; chmod 0 z")
			s.save(fs.ErrPermission)
			assert.Equal(t, s.host("file"), "old\n")
		}},
		{"cut off", func(t *testing.T, s session) {
			// It may be all there before the cancel is. TestTarThatLies has one that
			// comes in time.
			places.Eventually(t, func() string {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				before := s.host("file")
				s.ok("echo more >>file; dd if=/dev/urandom of=z bs=65536 count=200")
				go func() {
					for ctx.Err() == nil {
						if found, _ := filepath.Glob(filepath.Join(s.dir, ".cofferdam-*")); len(found) > 0 {
							cancel()
						}
					}
				}()
				_, err := s.Save(ctx)
				s.clean()
				if err == nil {
					return "it was saved"
				}
				assert.ErrorIs(t, err, context.Canceled)
				assert.Equal(t, s.host("file"), before)
				assert.Equal(t, s.ok("echo on"), "on")
				return ""
			})
		}},
	})
}

// Each example prints what it says, on each engine.
func TestExamples(t *testing.T) {
	places.Examples(t, &sandbox, func(t *testing.T) {
		t.Chdir(t.TempDir())
		for name, text := range map[string]string{
			"format.py":   "open('main.py', 'a').write('# formatted')",
			"main.py":     "",
			"sign.key":    "",
			".git/config": "",
		} {
			assert.NilError(t, os.MkdirAll(filepath.Dir(filepath.Join("project", name)), 0o755))
			assert.NilError(t, os.WriteFile(filepath.Join("project", name), []byte(text), 0o644))
		}
	}, []places.Example{
		{Name: "Example", Run: Example, Want: "changed main.py\n<nil>\n"},
		{Name: "Collect", Run: ExampleCollect, Want: "<nil>\n"},
		{Name: "CollectOptions", Run: ExampleCollectOptions, Want: "3 false\n2 true\n"},
		{Name: "CollectOptions, Skip", Run: ExampleCollectOptions_skip,
			Want: "left out: neither a regular file nor a directory: \"b.csv\" is a symbolic link\n1\n<nil>\n"},
		{Name: "Session", Run: ExampleSession, Want: "added notes.md\n<nil>\n"},
		{Name: "Options", Run: ExampleOptions, Want: "format.py\nmain.py\nscratch\n"},
	})
}

// A directory that is read-only on the host can be written to inside. That is no change,
// and the host's stays what it is.
func TestReadOnlyDirectories(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		dir := sample(t)
		for name, mode := range map[string]fs.FileMode{"sub": 0o555, "empty": 0o500} {
			assert.NilError(t, os.Chmod(filepath.Join(dir, name), mode))
		}
		p.Spec.Workspace = dir
		started, err := workspace.Start(t.Context(), p.Policy, p.Spec, copied)
		assert.NilError(t, err)
		defer started.Close()
		s := session{started, t, dir}
		s.changed()
		before := tree(t, dir, "")
		assert.Equal(t, len(s.save(nil)), 0)
		assert.DeepEqual(t, tree(t, dir, ""), before)

		s.ok("echo new >sub/deep/new; rm sub/none; chmod 750 empty; echo x >empty/new")
		want := []string{`changed "empty" drwxr-x--- 0`, `added "empty/new" -rw-r--r-- 2`,
			`added "sub/deep/new" -rw-r--r-- 4`, `deleted "sub/none" -rw-r--r-- 0`}
		s.changed(want...)
		assert.DeepEqual(t, s.save(nil), want)
		for name, mode := range map[string]fs.FileMode{"sub": 0o555, "empty": 0o750} {
			info, err := os.Stat(filepath.Join(dir, name))
			assert.NilError(t, err)
			assert.Equal(t, info.Mode().Perm(), mode, name)
		}
		assert.Equal(t, s.host("sub/deep/new"), "new\n")
		s.changed(want[3])
		assert.NilError(t, os.Chmod(filepath.Join(dir, "sub"), 0o755))
	})
}
