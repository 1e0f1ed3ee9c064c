//go:build linux

package execpolicy_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

var then = time.Unix(1700000000, 0)

// sample is a tree of all that is allowed.
func sample() fstest.MapFS {
	tree := fstest.MapFS{
		"empty":            {Mode: 0o644, ModTime: then},
		"run":              {Mode: 0o755, Data: []byte("#!/bin/sh\n"), ModTime: then.Add(time.Hour)},
		"sub":              {Mode: fs.ModeDir | 0o750, ModTime: then.Add(2 * time.Hour)},
		"sub/deep/er/file": {Mode: 0o600, Data: noise(70000), ModTime: then},
		"sub/large":        {Mode: 0o440, Data: noise(3<<20 + 7), ModTime: then.Add(3 * time.Hour)},
		"sub/private":      {Mode: fs.ModeDir | 0o700, ModTime: then},
		".hidden":          {Mode: 0o644, Data: []byte{0, 0xff}, ModTime: then},
		"..x":              {Mode: 0o644, ModTime: then},
		strings.Repeat("é", 60) + "/" + strings.Repeat("n", 200): {Mode: 0o644, Data: []byte("long"), ModTime: then},
	}
	for i, name := range awkwardNames {
		tree["names/"+name] = &fstest.MapFile{Mode: 0o644, Data: noise(i), ModTime: then}
	}
	for i := range 150 {
		tree[fmt.Sprintf("many/%d", i)] = &fstest.MapFile{Mode: 0o644, Data: noise(10 * i), ModTime: then}
	}
	return tree
}

// describe describes a tree to its last byte.
func describe(t *testing.T, fsys fs.FS) map[string]string {
	t.Helper()
	all := map[string]string{}
	assert.NilError(t, fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		all[name] = fmt.Sprintf("%v %v", info.Mode(), info.ModTime().UTC())
		if d.IsDir() {
			if info.ModTime().Year() != 2023 {
				// One without an entry of its own.
				all[name] = "directory"
			}
			return nil
		}
		data, err := fs.ReadFile(fsys, name)
		all[name] += fmt.Sprintf(" %x", data)
		return err
	}))
	return all
}

// fromTar returns the tree in an archive as a file system.
func fromTar(t *testing.T, data []byte) fs.FS {
	t.Helper()
	tree := fstest.MapFS{}
	r := tar.NewReader(bytes.NewReader(data))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return tree
		}
		assert.NilError(t, err)
		content, err := io.ReadAll(r)
		assert.NilError(t, err)
		if name := strings.TrimSuffix(h.Name, "/"); name != "." {
			tree[name] = &fstest.MapFile{Mode: h.FileInfo().Mode(), ModTime: h.ModTime, Data: content}
		}
	}
}

func openRoot(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	assert.NilError(t, err)
	t.Cleanup(func() { root.Close() })
	return root
}

var treeCases = []conformanceCase{
	{name: "a tree goes in and comes out as it was", do: func(t *testing.T, s session) {
		want := describe(t, sample())
		assert.NilError(t, s.CopyFS(t.Context(), "tree", sample()))
		s.empty()
		assert.Equal(t, s.ok("ls -A tree | grep cofferdam; :"), "")

		var archive bytes.Buffer
		assert.NilError(t, s.CopyOut(t.Context(), "tree", &archive))
		assert.DeepEqual(t, describe(t, fromTar(t, archive.Bytes())), want)

		dir := t.TempDir()
		assert.NilError(t, s.CopyOutTo(t.Context(), "tree", openRoot(t, dir)))
		assert.DeepEqual(t, describe(t, os.DirFS(dir)), want)

		assert.NilError(t, s.CopyIn(t.Context(), "again", &archive))
		archive.Reset()
		assert.NilError(t, s.CopyOut(t.Context(), "again", &archive))
		assert.DeepEqual(t, describe(t, fromTar(t, archive.Bytes())), want)
		s.ok("rm -rf tree again")
	}},
	{name: "what is there is merged and replaced", do: func(t *testing.T, s session) {
		s.ok("mkdir -p tree/a/b other; echo old >tree/a/f; echo stays >tree/a/stays; ln -s ../../other " +
			"tree/a/link; mkfifo tree/a/fifo; ln -s ../../other/x tree/a/dangling")
		file := func(text string) *fstest.MapFile {
			return &fstest.MapFile{Data: []byte(text), Mode: 0o644, ModTime: then}
		}
		tree := fstest.MapFS{"a/f": file("new"), "a/b/c/d": file("d"), "a/link": file("link"),
			"a/fifo": file("fifo"), "a/dangling": file("dangling"), "z": file("z")}
		assert.NilError(t, s.CopyFS(t.Context(), "tree", tree))
		assert.Equal(t, s.ok("cd tree; for f in a/f a/stays a/b/c/d a/link a/fifo a/dangling z; do [ -L $f ] || "+
			"printf '%s ' $(cat $f); done; ls -A ../other; cd .."), "new stays d link fifo dangling z ")
		for _, c := range []struct {
			there, comes string
			want         error
		}{
			{"mkdir tree/dir", "dir", execpolicy.ErrNotRegular},
			{"ln -s ../other tree/linked", "linked/x", execpolicy.ErrUnsafeType},
			{">tree/plain", "plain/x", execpolicy.ErrUnsafeType},
		} {
			s.ok(c.there)
			was := s.ok("ls -AR tree other")
			err := s.CopyFS(t.Context(), "tree", fstest.MapFS{"a/f": file("newer"), c.comes: file("x")})
			assert.ErrorIs(t, err, c.want, c.comes)
			assert.Equal(t, s.ok("ls -AR tree other"), was)
			assert.Equal(t, s.ok("cat tree/a/f"), "new")
		}
		s.ok("rm -rf tree other")
	}},
	{name: "a name as long as a system call takes is replaced", do: func(t *testing.T, s session) {
		for _, length := range []int{4058, 4095} {
			whole := s.ok("pwd") + "/tree/"
			dir := strings.Repeat(strings.Repeat("d", 199)+"/", 21)[:length-len(whole)-len("/f")]
			// It must not end with a slash.
			name := dir[:len(dir)-1] + "d/f"
			for _, text := range []string{"old", "new"} {
				assert.NilError(t, s.CopyFS(t.Context(), "tree", fstest.MapFS{name: {Data: []byte(text), Mode: 0o644}}))
				assert.Equal(t, s.ok("cat "+whole+name+"; ls -A tree | grep cofferdam; :"), text)
			}
		}
		s.ok("rm -rf tree")
	}},
	{name: "directories of a file system can be written to and removed", do: func(t *testing.T, s session) {
		// Those that show only in names have the mode 0555 here, as all of an embed.FS
		// have.
		tree := fstest.MapFS{"a/b/file": {Data: []byte("x"), Mode: 0o444}, "closed": {Mode: fs.ModeDir},
			"closed/file": {Mode: 0o600}, "group": {Mode: fs.ModeDir | 0o070}}
		for range 2 {
			assert.NilError(t, s.CopyFS(t.Context(), "tree", tree))
			assert.Equal(t, s.ok(`echo more >tree/a/b/more && mv tree/a/b/more tree/closed/x && rm tree/a/b/file && `+
				`ls -l tree | cut -c1-10 | grep d`), "drwxr-xr-x\ndrwx------\ndrwxrwx---")
		}
		s.ok("rm -rf tree")
	}},
	{name: "directories of an archive are what it says", do: func(t *testing.T, s session) {
		archive := archiveOf(t, tar.Header{Typeflag: tar.TypeDir, Name: "ro/", Mode: 0o555, ModTime: then},
			tar.Header{Typeflag: tar.TypeReg, Name: "ro/file", Mode: 0o644, ModTime: then})
		assert.NilError(t, s.CopyIn(t.Context(), "tree", bytes.NewReader(archive)))
		e, err := s.Stat(t.Context(), "tree/ro")
		assert.NilError(t, err)
		assert.Equal(t, e.Mode, fs.ModeDir|0o555)
		// What is closed may be in what is closed.
		closed := archiveOf(t, tar.Header{Typeflag: tar.TypeDir, Name: "closed/", Mode: 0o040, ModTime: then},
			tar.Header{Typeflag: tar.TypeDir, Name: "closed/sub/", Mode: 0o050, ModTime: then})
		assert.NilError(t, s.CopyIn(t.Context(), "tree", bytes.NewReader(closed)))
		assert.Equal(t, s.ok("chmod u+rx tree/closed; ls -ld tree/closed tree/closed/sub | cut -c1-10"), "dr-xr-----\nd---r-x---")
		s.ok("chmod 700 tree/closed tree/closed/sub; rm -rf tree/closed")
		if s.ok("id -u") != "0" {
			err := s.CopyIn(t.Context(), "tree", bytes.NewReader(archive))
			assert.ErrorIs(t, err, fs.ErrPermission)
			assert.ErrorContains(t, err, "file")
			assert.ErrorIs(t, s.Remove(t.Context(), "tree/ro/file"), fs.ErrPermission)
			s.empty()
		}
		s.ok("chmod 755 tree/ro; rm -rf tree")
	}},
	{name: "one file comes out", do: func(t *testing.T, s session) {
		// Some tars take what is behind a backslash for an escape.
		s.ok("mkdir files; cd files; printf other >'C:\new.txt'; printf other >x; mkdir .git; printf other >.git/x; cd ..")
		for _, name := range append(awkwardNames, "-one file", `C:\new.txt`, `.git\057x`, `\170`, `C:\\new.txt`) {
			s.write("files/"+name, []byte(name), 0o640)
			var archive bytes.Buffer
			assert.NilError(t, s.CopyOut(t.Context(), "files/"+name, &archive))
			h, err := tar.NewReader(bytes.NewReader(archive.Bytes())).Next()
			assert.NilError(t, err)
			assert.Equal(t, h.Name, name)
			data, err := fs.ReadFile(fromTar(t, archive.Bytes()), name)
			assert.NilError(t, err)
			assert.Equal(t, string(data), name)
		}
		s.ok("rm -r files")
	}},
	{name: "an empty tree", do: func(t *testing.T, s session) {
		assert.NilError(t, s.CopyFS(t.Context(), "tree", fstest.MapFS{}))
		assert.NilError(t, s.CopyFS(t.Context(), "tree", fstest.MapFS{}))
		dir := t.TempDir()
		assert.NilError(t, s.CopyOutTo(t.Context(), "tree", openRoot(t, dir)))
		assert.Equal(t, len(describe(t, os.DirFS(dir))), 0)
		s.ok("rmdir tree")
	}},
	{name: "what can't be copied", do: func(t *testing.T, s session) {
		s.ok("mkfifo fifo; mkdir closed; >closed/x; chmod 0 closed/x; chmod 500 closed")
		for name, want := range map[string]error{"nothing": fs.ErrNotExist, "fifo": execpolicy.ErrNotRegular,
			"/dev/zero": execpolicy.ErrNotRegular} {
			assert.ErrorIs(t, s.CopyOut(t.Context(), name, io.Discard), want, name)
		}
		assert.ErrorIs(t, s.CopyFS(t.Context(), "no/such", sample()), fs.ErrNotExist)
		if s.ok("id -u") != "0" {
			var archive bytes.Buffer
			assert.ErrorIs(t, s.CopyOut(t.Context(), "closed", &archive), fs.ErrPermission)
			assert.Assert(t, !bytes.HasSuffix(archive.Bytes(), make([]byte, 1024)))
			assert.ErrorIs(t, s.CopyFS(t.Context(), "closed", fstest.MapFS{"y": {}}), fs.ErrPermission)
		}
		s.ok("chmod 700 closed; rm -rf closed fifo")
	}},
	{name: "a walk sees everything, and reads what it wants", do: func(t *testing.T, s session) {
		s.ok("mkdir -p tree/sub; echo 12 >tree/sub/file; ln tree/sub/file tree/sub/hard; ln -s / tree/link; " +
			"mkfifo tree/fifo; dd if=/dev/zero of=tree/large bs=65536 count=160; " +
			`>"$(printf 'tree/\377')"; chmod 640 tree/sub/file`)
		seen := map[string]fs.FileMode{}
		names := 0
		err := s.Walk(t.Context(), "tree", func(e execpolicy.TreeEntry, content io.Reader) error {
			seen[e.Name] = e.Mode
			data := ""
			if e.Name != "large" {
				// That is larger than the limit of what is read.
				data = readAll(t, content)
				assert.Equal(t, int64(len(data)), e.Size, e.Name)
			}
			if e.Name == "sub/file" || e.Name == "sub/hard" {
				names += int(e.Size)
				seen[e.Name] &^= fs.ModeIrregular
			}
			return nil
		})
		assert.NilError(t, err)
		assert.Equal(t, names, 3)
		for name, want := range map[string]fs.FileMode{"sub/file": 0o640, "sub/hard": 0o640, "link": fs.ModeSymlink | 0o777} {
			assert.Equal(t, seen[name], want, name)
		}
		for name, want := range map[string]fs.FileMode{"sub": fs.ModeDir, "fifo": fs.ModeNamedPipe, "large": 0, "\xff": 0} {
			mode, there := seen[name]
			assert.Assert(t, there && mode.Type() == want, name)
		}
		assert.Equal(t, len(seen), 7)

		enough := errors.New("enough")
		calls := 0
		err = s.Walk(t.Context(), "tree", func(execpolicy.TreeEntry, io.Reader) error { calls++; return enough })
		assert.ErrorIs(t, err, enough)
		assert.Equal(t, calls, 1)
		err = s.Walk(t.Context(), "tree", func(_ execpolicy.TreeEntry, content io.Reader) error {
			_, err := io.Copy(io.Discard, content)
			return err
		})
		assert.ErrorIs(t, err, execpolicy.ErrTooLarge)
		one := execpolicy.TreeEntry{}
		assert.NilError(t, s.Walk(t.Context(), "tree/sub/file",
			func(e execpolicy.TreeEntry, _ io.Reader) error { one = e; return nil }))
		assert.Equal(t, one.Name, "file")
		assert.ErrorIs(t, s.Walk(t.Context(), "tree/none", nil), fs.ErrNotExist)

		// Whoever waits is told when the time is over.
		ctx, cancel := context.WithCancel(t.Context())
		err = s.Walk(ctx, "tree", func(e execpolicy.TreeEntry, content io.Reader) error {
			cancel()
			_, err := io.Copy(io.Discard, content)
			return err
		})
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, s.ok("echo on"), "on")
		s.ok("rm -rf tree")
	}},
	{name: "an archive that is not in order changes nothing", do: func(t *testing.T, s session) {
		s.ok("mkdir tree; echo old >tree/good; ln -s / tree/root; echo x >outside")
		good := tar.Header{Typeflag: tar.TypeReg, Name: "good", Mode: 0o644, ModTime: then}
		for name, c := range map[string]struct {
			want error
			bad  tar.Header
		}{
			"dots":      {execpolicy.ErrUnsafeName, tar.Header{Typeflag: tar.TypeReg, Name: "../outside"}},
			"absolute":  {execpolicy.ErrUnsafeName, tar.Header{Typeflag: tar.TypeReg, Name: "/tmp/outside"}},
			"symlink":   {execpolicy.ErrUnsafeType, tar.Header{Typeflag: tar.TypeSymlink, Name: "x", Linkname: "/"}},
			"hard link": {execpolicy.ErrUnsafeType, tar.Header{Typeflag: tar.TypeLink, Name: "x", Linkname: "good"}},
			"device":    {execpolicy.ErrUnsafeType, tar.Header{Typeflag: tar.TypeChar, Name: "x"}},
			"fifo":      {execpolicy.ErrUnsafeType, tar.Header{Typeflag: tar.TypeFifo, Name: "x"}},
			"twice":     {execpolicy.ErrDuplicateName, tar.Header{Typeflag: tar.TypeReg, Name: "./good"}},
			"in a file": {execpolicy.ErrDuplicateName, tar.Header{Typeflag: tar.TypeReg, Name: "good/x"}},
			"in a link": {execpolicy.ErrUnsafeType, tar.Header{Typeflag: tar.TypeReg, Name: "root/tmp/outside"}},
		} {
			archive := archiveOf(t, good, c.bad)
			assert.ErrorIs(t, s.CopyIn(t.Context(), "tree", bytes.NewReader(archive)), c.want, name)
			assert.Equal(t, s.ok("ls -A tree; cat tree/good outside; ls /tmp/outside 2>/dev/null; :"),
				"good\nroot\nold\nx", name)
		}
		for _, archive := range [][]byte{nil, []byte("no archive"), archiveOf(t, good)[:512]} {
			assert.ErrorIs(t, s.CopyIn(t.Context(), "tree", bytes.NewReader(archive)), execpolicy.ErrArchive)
		}
		broken := errors.New("broken")
		assert.ErrorIs(t, s.CopyIn(t.Context(), "tree",
			io.MultiReader(bytes.NewReader(archiveOf(t, good)[:512]), failing{broken})), broken)
		assert.Equal(t, s.ok("ls -A tree; cat tree/good"), "good\nroot\nold")
		s.ok("rm -rf tree outside")
	}},
	{name: "a tree inside that is not in order changes nothing on the host", do: func(t *testing.T, s session) {
		for name, c := range map[string]struct {
			want   error
			script string
		}{
			"symlink":        {execpolicy.ErrUnsafeType, "ln -s /etc/passwd tree/z"},
			"symlink to dir": {execpolicy.ErrUnsafeType, "ln -s / tree/z"},
			"hard link":      {execpolicy.ErrUnsafeType, "ln tree/good tree/z"},
			"fifo":           {execpolicy.ErrUnsafeType, "mkfifo tree/z"},
			"no UTF-8":       {execpolicy.ErrUnsafeName, `>"$(printf 'tree/\377')"`},
			"too many": {execpolicy.ErrTooLarge,
				"mkdir tree/z; i=0; while [ $i -lt 300 ]; do >tree/z/$i; i=$((i + 1)); done"},
			"too large":  {execpolicy.ErrTooLarge, "dd if=/dev/zero of=tree/z bs=65536 count=200"},
			"with holes": {execpolicy.ErrTooLarge, "dd if=/dev/zero of=tree/z bs=65536 seek=100000 count=1"},
			"far too deep": {execpolicy.ErrTooLarge,
				"cd tree; i=0; while [ $i -lt 400 ]; do mkdir d && cd d || exit 1; i=$((i + 1)); done; cd " +
					`"$OLDPWD"; cd /workspace 2>/dev/null || :`},
		} {
			s.ok("home=$PWD; mkdir tree; echo new >tree/good; echo more >tree/more")
			s.ok(c.script + "; cd \"$home\"")
			dir := t.TempDir()
			assert.NilError(t, os.WriteFile(filepath.Join(dir, "good"), []byte("old"), 0o644))
			assert.ErrorIs(t, s.CopyOutTo(t.Context(), "tree", openRoot(t, dir)), c.want, name)
			entries, err := os.ReadDir(dir)
			assert.NilError(t, err)
			assert.Equal(t, len(entries), 1, "%s: %v", name, entries)
			text, err := os.ReadFile(filepath.Join(dir, "good"))
			assert.NilError(t, err)
			assert.Equal(t, string(text), "old")
			assert.ErrorIs(t, s.CopyOut(t.Context(), "tree", io.Discard), c.want, name)
			s.ok("rm -rf tree")
		}
	}},
	{name: "what was planted in the host's directory is not followed", do: func(t *testing.T, s session) {
		s.ok("mkdir -p tree/sub; echo new >tree/file; echo new >tree/sub/file")
		outside := filepath.Join(t.TempDir(), "outside")
		assert.NilError(t, os.Mkdir(outside, 0o755))
		victim := filepath.Join(outside, "file")
		for name, c := range map[string]struct {
			plant func(dir string) error
			want  error // nil if it is replaced
		}{
			"a link in place of a file":      {func(dir string) error { return os.Symlink(victim, filepath.Join(dir, "file")) }, nil},
			"a hard link in place of a file": {func(dir string) error { return os.Link(victim, filepath.Join(dir, "file")) }, nil},
			"a fifo in place of a file":      {func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "file"), 0o644) }, nil},
			"a link in place of a directory": {func(dir string) error { return os.Symlink(outside, filepath.Join(dir, "sub")) }, execpolicy.ErrUnsafeType},
			"a file in place of a directory": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "sub"), nil, 0o644) }, execpolicy.ErrUnsafeType},
			"a directory in place of a file": {func(dir string) error { return os.Mkdir(filepath.Join(dir, "file"), 0o755) }, execpolicy.ErrUnsafeType},
			"a link within, to a directory": {func(dir string) error {
				return errors.Join(os.Mkdir(filepath.Join(dir, "x"), 0o755), os.Symlink("x", filepath.Join(dir, "sub")))
			}, execpolicy.ErrUnsafeType},
			"a directory that is there": {func(dir string) error { return os.Mkdir(filepath.Join(dir, "sub"), 0o755) }, nil},
		} {
			dir := t.TempDir()
			assert.NilError(t, os.WriteFile(victim, []byte("victim"), 0o600))
			assert.NilError(t, c.plant(dir))
			err := s.CopyOutTo(t.Context(), "tree", openRoot(t, dir))
			if c.want != nil {
				assert.ErrorIs(t, err, c.want, name)
			} else {
				assert.NilError(t, err, name)
				for _, file := range []string{"file", "sub/file"} {
					info, err := os.Lstat(filepath.Join(dir, file))
					assert.NilError(t, err)
					assert.Assert(t, info.Mode().IsRegular(), name)
				}
			}
			text, err := os.ReadFile(victim)
			assert.NilError(t, err)
			assert.Equal(t, string(text), "victim", name)
			entries, err := os.ReadDir(outside)
			assert.NilError(t, err)
			assert.Equal(t, len(entries), 1, name)
			left, _ := filepath.Glob(filepath.Join(dir, ".cofferdam-*"))
			assert.Equal(t, len(left), 0, name)
		}
		s.ok("rm -rf tree")
	}},
	{name: "a file system of the host with more than files", do: func(t *testing.T, s session) {
		dir := t.TempDir()
		assert.NilError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
		assert.ErrorIs(t, s.CopyFS(t.Context(), "tree", openRoot(t, dir).FS()), execpolicy.ErrUnsafeType)
		assert.Equal(t, s.ok("ls tree 2>/dev/null; :"), "")
	}},
}

// An opening file system tells of what is opened.
type opening struct {
	fstest.MapFS
	on func(name string)
}

func (o opening) Open(name string) (fs.File, error) {
	o.on(name)
	return o.MapFS.Open(name)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func archiveOf(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		assert.NilError(t, w.WriteHeader(&h))
	}
	assert.NilError(t, w.Close())
	return b.Bytes()
}

func treeLimits(l execpolicy.Limits) execpolicy.Limits {
	l.CommandTimeout, l.MaxTreeEntries, l.MaxTreeBytes = 4*patience, 250, 8<<20
	return l
}

func TestTrees(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		policy := p.policy()
		policy.Limits = treeLimits(policy.Limits)
		runCases(t, policy, p.spec(), treeCases)
	})
}

func TestHostTrees(t *testing.T) {
	enginetest.Check(t)
	bystander(t)
	runCases(t, execpolicy.HostPolicy{Limits: treeLimits(hostLimits)}, execpolicy.Spec{}, treeCases)
}

// Who is not root can remove what comes out of a tree with read-only directories, and
// nothing is left of one that is refused.
func TestReadOnlyTrees(t *testing.T) {
	enginetest.Check(t)
	if os.Getuid() == 0 && os.Getenv("COFFERDAM_TEST_UNPRIVILEGED") == "" {
		setpriv, err := exec.LookPath("setpriv")
		if err != nil {
			leftout.Skip(t, "root may write everywhere: %v", err)
		}
		cmd := exec.Command(setpriv, "--bounding-set=-all", "--inh-caps=-all", os.Args[0],
			"-test.run=^TestReadOnlyTrees$", "-test.v")
		cmd.Env = append(os.Environ(), "COFFERDAM_TEST_UNPRIVILEGED=1")
		out, err := cmd.CombinedOutput()
		assert.NilError(t, err, string(out))
		assert.Assert(t, bytes.Contains(out, []byte("--- PASS: TestReadOnlyTrees")), string(out))
		return
	}
	s := open(t, execpolicy.HostPolicy{Limits: hostLimits}, execpolicy.Spec{})
	dir := t.TempDir()
	root := openRoot(t, dir)
	assert.NilError(t, s.CopyFS(t.Context(), "in", fstest.MapFS{"a/b": {}}))
	s.ok("mkdir -p tree/ro/deep; >tree/ro/file; >tree/ro/deep/file; chmod 500 tree/ro/deep; chmod 555 tree/ro; " +
		"touch in/a/new; rm -rf in")
	for range 2 {
		assert.NilError(t, s.CopyOutTo(t.Context(), "tree", root))
		assert.Equal(t, len(describe(t, os.DirFS(dir))), 4)
	}
	assert.NilError(t, root.RemoveAll("ro"))
	s.ok("ln -s / tree/z")
	assert.ErrorIs(t, s.CopyOutTo(t.Context(), "tree", root), execpolicy.ErrUnsafeType)
	assert.ErrorIs(t, s.CopyOutTo(t.Context(), "tree/ro/../..", root), execpolicy.ErrUnsafeType)
	assert.Equal(t, len(describe(t, os.DirFS(dir))), 0)
	s.ok("chmod -R u+w tree; rm -rf tree")
}

// Whatever cuts a copy off, nothing is left of it.
func TestTreesCutOff(t *testing.T) {
	large := fstest.MapFS{"a": {Data: noise(10 << 20), Mode: 0o644}, "b": {Data: noise(10 << 20), Mode: 0o644}}
	everywhere(t, func(t *testing.T, p place) {
		if p.engine.Remote {
			leftout.Skip(t, mountsNothing)
		}
		spec := p.spec()
		spec.Workspace = newWorkspace(t, "workspace")
		policy := p.policy()
		policy.CommandTimeout = time.Minute
		s := open(t, policy, spec)
		// leaves cuts a copy off, of which so much is to be in the directory.
		leaves := func(t *testing.T, dir string, want int, cut func(ctx context.Context, cancel context.CancelFunc)) {
			t.Helper()
			var names []string
			if want == 0 && dir == spec.Workspace {
				names = []string{filepath.Join(dir, "tree")}
			}
			session{s.Session, t}.cutOff(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				cut(ctx, cancel)
			}, func() {
				entries, err := os.ReadDir(dir)
				assert.NilError(t, err)
				assert.Equal(t, len(entries), want, "%v", entries)
			}, names...)
		}
		t.Run("in", func(t *testing.T) {
			leaves(t, spec.Workspace, 0, func(ctx context.Context, cancel context.CancelFunc) {
				// When the second file is opened, the first is inside but for its last
				// piece.
				second := opening{large, func(name string) {
					if name == "b" {
						found, _ := filepath.Glob(filepath.Join(spec.Workspace, "tree/.cofferdam-*/a"))
						assert.Check(t, len(found) > 0)
						cancel()
					}
				}}
				assert.ErrorIs(t, s.CopyFS(ctx, "tree", second), context.Canceled)
			})
		})
		t.Run("in, at any moment", func(t *testing.T) {
			for i := range 20 {
				leaves(t, spec.Workspace, 0, func(ctx context.Context, _ context.CancelFunc) {
					ctx, cancel := context.WithTimeout(ctx, time.Duration(i)*time.Millisecond)
					defer cancel()
					assert.ErrorIs(t, s.CopyFS(ctx, "tree", large), context.DeadlineExceeded)
				})
				leaves(t, spec.Workspace, 0, func(ctx context.Context, _ context.CancelFunc) {
					ctx, cancel := context.WithTimeout(ctx, time.Duration(i)*time.Millisecond)
					defer cancel()
					assert.ErrorIs(t, s.WriteFiles(ctx, "tree/in/side",
						map[string][]byte{"a": large["a"].Data, "b/c": large["b"].Data}), context.DeadlineExceeded)
				})
			}
		})
		t.Run("a reader that is stuck", func(t *testing.T) {
			leaves(t, spec.Workspace, 0, func(ctx context.Context, cancel context.CancelFunc) {
				free := make(stuck)
				defer close(free)
				r := readerFunc(func([]byte) (int, error) {
					cancel()
					<-free
					return 0, io.EOF
				})
				assert.ErrorIs(t, s.CopyIn(ctx, "tree", r), context.Canceled)
			})
		})
		assert.NilError(t, s.CopyFS(t.Context(), "tree", large))
		t.Run("out", func(t *testing.T) {
			dir := t.TempDir()
			root := openRoot(t, dir)
			leaves(t, dir, 0, func(ctx context.Context, _ context.CancelFunc) {
				for try := 1; ; try++ {
					done := make(chan error, 1)
					once, end := context.WithCancel(ctx)
					go func() { done <- s.CopyOutTo(once, "tree", root) }()
					wait(t, func() bool {
						found, _ := filepath.Glob(filepath.Join(dir, ".cofferdam-*/*"))
						return len(found) > 0 || len(done) > 0
					}, "the copy does not begin")
					end()
					err := <-done
					if err == nil && try < tries {
						// It was over before it was ended.
						assert.NilError(t, errors.Join(root.Remove("a"), root.Remove("b")))
						continue
					}
					assert.ErrorIs(t, err, context.Canceled)
					break
				}
			})
		})
		t.Run("a writer that is stuck", func(t *testing.T) {
			leaves(t, spec.Workspace, 1, func(ctx context.Context, _ context.CancelFunc) {
				free := make(stuck)
				defer close(free)
				ctx, cancel := context.WithTimeout(ctx, short)
				defer cancel()
				enginetest.Within(t, patience, "a copy", func() {
					assert.ErrorIs(t, s.CopyOut(ctx, "tree", free), context.DeadlineExceeded)
				})
			})
		})
		t.Run("a writer that fails", func(t *testing.T) {
			leaves(t, spec.Workspace, 1, func(ctx context.Context, _ context.CancelFunc) {
				r, w := io.Pipe()
				r.CloseWithError(io.ErrClosedPipe)
				assert.ErrorIs(t, s.CopyOut(ctx, "tree", w), io.ErrClosedPipe)
			})
		})
	})
}

// An untrue file system has a file that says of itself that it has so many bytes more,
// and that ends with an error, if that is not nil.
type untrue struct {
	fstest.MapFS
	more int64
	end  error
}

type untrueFile struct {
	fs.File
	untrue
}

type untrueInfo struct {
	fs.FileInfo
	more int64
}

func (u untrue) Open(name string) (fs.File, error) {
	f, err := u.MapFS.Open(name)
	if err == nil && name == "file" {
		f = untrueFile{f, u}
	}
	return f, err
}

func (f untrueFile) Stat() (fs.FileInfo, error) {
	info, err := f.File.Stat()
	return untrueInfo{info, f.more}, err
}

func (f untrueFile) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	if err == io.EOF && f.end != nil {
		err = f.end
	}
	return n, err
}

func (i untrueInfo) Size() int64 { return i.FileInfo.Size() + i.more }

// Whoever takes a tree slowly has the time of the whole copy, also when all of it has
// come. That is longer than TerminationTimeout, which an end has.
func TestSlowWalk(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		policy := p.policy()
		policy.TerminationTimeout = 2 * time.Second
		s := open(t, policy, p.spec())
		s.ok("mkdir tree; for i in 1 2 3 4 5 6 7 8 9; do head -c 3000 /dev/zero >tree/$i; done")
		seen := 0
		assert.NilError(t, s.Walk(t.Context(), "tree", func(e execpolicy.TreeEntry, content io.Reader) error {
			if seen++; seen == 1 {
				time.Sleep(policy.TerminationTimeout * 3 / 2)
			}
			_, err := io.Copy(io.Discard, content)
			return err
		}))
		assert.Equal(t, seen, 9)
	})
}

func TestCopyFSOfAFileThatIsNotWhatItSays(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		broken := errors.New("broken")
		for _, size := range []int{3, 5 << 20} {
			tree := untrue{MapFS: fstest.MapFS{"file": {Data: noise(size), Mode: 0o644}}}
			for _, c := range []struct {
				more      int64
				end, want error
			}{
				{1, nil, io.ErrUnexpectedEOF},
				{-1 - int64(size), nil, execpolicy.ErrArchive},
				{0, broken, broken},
				{1, broken, broken},
			} {
				tree.more, tree.end = c.more, c.end
				assert.ErrorIs(t, s.CopyFS(t.Context(), "tree", tree), c.want)
				assert.Equal(t, s.ok("ls -A"), "")
			}
			// Of one that has grown that goes in which was told.
			tree.more, tree.end = -1, nil
			assert.NilError(t, s.CopyFS(t.Context(), "tree", tree))
			assert.Assert(t, bytes.Equal(s.read("tree/file"), noise(size)[:size-1]))
			s.ok("rm -r tree")
		}
	})
}
