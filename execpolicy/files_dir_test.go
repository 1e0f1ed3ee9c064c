//go:build linux

package execpolicy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
)

// entryNames are awkward names, and some that look like what stat prints.
var entryNames = append([]string{"a\n81a4 3 1 .", "81a4 3 1 .", " .", "\n", "\xff", "a\xffb"}, awkwardNames...)

// list returns the names in a directory inside.
func (s session) list(dir string) []string {
	s.t.Helper()
	entries, err := s.ReadDir(s.t.Context(), dir)
	assert.NilError(s.t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

var dirCases = []conformanceCase{
	{name: "files are written with their parents", do: func(t *testing.T, s session) {
		ctx := t.Context()
		s.ok("umask 077; mkdir -p there/keeps; chmod 711 there/keeps; echo old >there/old; ln -s /etc there/link")
		files := map[string][]byte{
			"old": []byte("new"), "link": []byte("no link"), "keeps/a": nil, "new/deep/b": noise(3 << 20), "./dot": []byte("x"),
		}
		for i, name := range awkwardNames {
			files["names/"+name+"/"+name] = noise(i)
		}
		for range 2 {
			assert.NilError(t, s.WriteFiles(ctx, "there", files))
			assert.NilError(t, s.WriteFiles(ctx, "made/by/it/", files))
		}
		for name, want := range files {
			assert.Assert(t, bytes.Equal(s.read("there/"+name), want), name)
			e, err := s.Stat(ctx, "made/by/it/"+name)
			assert.NilError(t, err)
			assert.Equal(t, e.Mode, fs.FileMode(0o644), name)
			assert.Equal(t, e.Size, int64(len(want)), name)
		}
		for name, want := range map[string]fs.FileMode{"there/keeps": 0o711, "there/new/deep": 0o755, "made": 0o755,
			"made/by/it": 0o755} {
			e, err := s.Stat(ctx, name)
			assert.NilError(t, err)
			assert.Equal(t, e.Mode, fs.ModeDir|want, name)
		}
		assert.NilError(t, s.WriteFiles(ctx, "made/empty", nil))
		assert.Equal(t, len(s.list("made/empty")), 0)
		s.empty()
		s.ok("umask 022; rm -rf there made")
	}},
	{name: "files that can't all be written are not written", do: func(t *testing.T, s session) {
		ctx := t.Context()
		err := s.WriteFiles(ctx, "new", map[string][]byte{"good": nil, "../dots": nil, "/absolute": nil, "a": nil,
			"a/b": nil, "": nil, "x/": nil, "\xff": nil})
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.ErrorIs(t, err, execpolicy.ErrUnsafeName)
		assert.ErrorIs(t, err, execpolicy.ErrDuplicateName)
		for _, word := range []string{"../dots", "/absolute", "a/b", `""`, "x/", `\xff`} {
			assert.ErrorContains(t, err, word)
		}
		assert.ErrorIs(t, s.WriteFiles(ctx, "new", map[string][]byte{"x": nil, "./x": nil}), execpolicy.ErrDuplicateName)
		many := map[string][]byte{}
		for i := range 260 {
			many[fmt.Sprint(i)] = nil
		}
		assert.ErrorIs(t, s.WriteFiles(ctx, "new", many), execpolicy.ErrTooLarge)
		assert.ErrorIs(t, s.WriteFiles(ctx, "new", map[string][]byte{"x": noise(9 << 20)}), execpolicy.ErrTooLarge)
		assert.Equal(t, len(s.list(".")), 0)
		s.ok("mkdir -p dir/x; >file; ln -s dir link")
		for name, want := range map[string]error{"x": execpolicy.ErrNotRegular, "y": nil} {
			assert.ErrorIs(t, s.WriteFiles(ctx, "dir", map[string][]byte{"a": nil, name: nil}), want)
		}
		assert.ErrorIs(t, s.WriteFiles(ctx, ".", map[string][]byte{"a": nil, "file/x": nil}), execpolicy.ErrUnsafeType)
		assert.ErrorIs(t, s.WriteFiles(ctx, ".", map[string][]byte{"a": nil, "link/x": nil}), execpolicy.ErrUnsafeType)
		assert.ErrorIs(t, s.WriteFiles(ctx, "new/deep/file", map[string][]byte{strings.Repeat("n", 256): nil}),
			execpolicy.ErrUnsafeName)
		assert.DeepEqual(t, s.list("."), []string{"dir", "file", "link"})
		s.ok("rm -rf dir file link")
	}},
	{name: "directories are made with their parents", do: func(t *testing.T, s session) {
		ctx := t.Context()
		s.ok("umask 077")
		for _, c := range []struct {
			name string
			perm fs.FileMode
		}{{"a/b/c", 0o755}, {"d/e", 0o500}, {"f", 0}, {"g/./h//i/", 0o777}, {"a/../j/../k", 0o700}} {
			assert.NilError(t, s.MkdirAll(ctx, c.name, c.perm))
			e, err := s.Stat(ctx, c.name)
			assert.NilError(t, err)
			assert.Equal(t, e.Mode, fs.ModeDir|c.perm, c.name)
			// One that is there stays what it is.
			assert.NilError(t, s.MkdirAll(ctx, c.name, 0o711))
			e, err = s.Stat(ctx, c.name)
			assert.NilError(t, err)
			assert.Equal(t, e.Mode, fs.ModeDir|c.perm, c.name)
		}
		e, err := s.Stat(ctx, "d")
		assert.NilError(t, err)
		assert.Equal(t, e.Mode, fs.ModeDir|0o700)
		for _, name := range awkwardNames {
			assert.NilError(t, s.MkdirAll(ctx, "names/"+name+"/"+name, 0o755))
		}
		want := slices.Sorted(slices.Values(awkwardNames))
		assert.DeepEqual(t, s.list("names"), want)
		s.ok("umask 022; chmod -R u+rwx ./*; rm -rf ./*")

		// What was made before it failed goes again, and nothing else.
		s.ok("mkdir -p empty/too")
		long := "/" + strings.Repeat("n", 300)
		for _, name := range []string{"x/y" + long, "empty/x/y" + long, "empty/too" + long, "x/../empty" + long,
			"empty/./x//y" + long} {
			assert.Assert(t, s.MkdirAll(ctx, name, 0o755) != nil)
			assert.Assert(t, s.WriteFiles(ctx, name, nil) != nil)
			assert.DeepEqual(t, s.list("empty"), []string{"too"})
		}
		s.ok("rm -rf x; ln -s nowhere dangling")
		for _, name := range []string{"dangling", "dangling/x"} {
			assert.ErrorIs(t, s.MkdirAll(ctx, name, 0o755), fs.ErrExist, name)
		}
		assert.DeepEqual(t, s.list("."), []string{"dangling", "empty"})
		assert.ErrorIs(t, s.MkdirAll(ctx, "x", 0o755|fs.ModeSticky), execpolicy.ErrInvalid)
		s.ok("rm -rf dangling empty")
	}},
	{name: "a directory is read", do: func(t *testing.T, s session) {
		ctx := t.Context()
		s.ok("mkdir dir dir/sub; printf 12345 >dir/file; chmod 640 dir/file; ln -s file dir/link; ln -s nowhere " +
			"dir/dangling; ln -s sub dir/dirlink; mkfifo dir/fifo; " +
			"ln dir/file dir/hard; chmod 1751 dir/sub; touch -d '2023-11-14 22:13:20' dir/file")
		entries, err := s.ReadDir(ctx, "dir")
		assert.NilError(t, err)
		want := []execpolicy.TreeEntry{
			{Name: "dangling", Mode: fs.ModeSymlink | 0o777}, {Name: "dirlink", Mode: fs.ModeSymlink | 0o777},
			{Name: "fifo", Mode: fs.ModeNamedPipe | 0o644},
			{Name: "file", Mode: 0o640, Size: 5}, {Name: "hard", Mode: 0o640, Size: 5},
			{Name: "link", Mode: fs.ModeSymlink | 0o777}, {Name: "sub", Mode: fs.ModeDir | 0o751},
		}
		zone := s.ok("date -d '2023-11-14 22:13:20' +%s")
		for i, e := range entries {
			if e.Name == "file" {
				assert.Equal(t, fmt.Sprint(e.ModTime.Unix()), zone)
			}
			assert.Assert(t, e.ModTime.Year() > 2000, e.Name)
			entries[i].ModTime = time.Time{}
		}
		assert.DeepEqual(t, entries, want)
		assert.DeepEqual(t, s.list("dir/dirlink/"), s.list("dir/sub"))
		s.ok("rm -rf dir; mkdir dir")
		assert.Equal(t, len(s.list("dir")), 0)
		for _, name := range entryNames {
			s.ok(">" + shellquote.Quote("dir/"+name))
		}
		assert.DeepEqual(t, s.list("dir"), slices.Sorted(slices.Values(entryNames)))
		s.ok("rm -rf dir; mkdir dir; cd dir; i=0; while [ $i -lt 251 ]; do >$i; i=$((i + 1)); done; cd ..")
		_, err = s.ReadDir(ctx, "dir")
		assert.ErrorIs(t, err, execpolicy.ErrTooLarge)
		s.ok("rm dir/0")
		assert.Equal(t, len(s.list("dir")), 250)
		s.ok("rm -rf dir")
	}},
	{name: "what is there is described", do: func(t *testing.T, s session) {
		ctx := t.Context()
		s.ok("mkdir -p dir/sub; printf 12345 >dir/file; chmod 604 dir/file; ln -s file dir/link; ln -s nowhere " +
			"dir/dangling; mkfifo dir/fifo; ln -s dir dirlink")
		for name, want := range map[string]execpolicy.TreeEntry{
			"dir/file": {Name: "file", Mode: 0o604, Size: 5}, "dir/link": {Name: "link", Mode: 0o604, Size: 5},
			"dir":  {Name: "dir", Mode: fs.ModeDir | 0o755},
			"dir/": {Name: "dir", Mode: fs.ModeDir | 0o755}, "dir/.": {Name: ".", Mode: fs.ModeDir | 0o755},
			"dir/fifo":  {Name: "fifo", Mode: fs.ModeNamedPipe | 0o644},
			"dirlink":   {Name: "dirlink", Mode: fs.ModeDir | 0o755},
			"/dev/null": {Name: "null", Mode: fs.ModeDevice | fs.ModeCharDevice | 0o666},
		} {
			e, err := s.Stat(ctx, name)
			assert.NilError(t, err)
			assert.Assert(t, time.Since(e.ModTime) < 48*time.Hour || name == "/dev/null")
			e.ModTime = time.Time{}
			assert.DeepEqual(t, e, want)
		}
		_, err := s.Stat(ctx, "dir/dangling")
		assert.ErrorIs(t, err, fs.ErrNotExist)
		for _, name := range entryNames {
			s.ok(">" + shellquote.Quote("dir/"+name))
			e, err := s.Stat(ctx, "dir/"+name)
			assert.NilError(t, err)
			assert.Equal(t, e.Name, name)
		}
		s.ok("rm -rf dir dirlink")
	}},
	{name: "what is there is removed and not followed", do: func(t *testing.T, s session) {
		ctx := t.Context()
		s.ok("mkdir -p dir full/x; >file; ln -s file link; ln -s nowhere dangling; ln -s full dirlink; mkfifo " +
			"fifo; >protected; chmod 0 protected")
		for _, name := range []string{"link", "dangling", "dirlink/", "fifo", "dir/", "protected"} {
			assert.NilError(t, s.Remove(ctx, name))
			assert.ErrorIs(t, s.Remove(ctx, name), fs.ErrNotExist)
		}
		assert.ErrorIs(t, s.Remove(ctx, "full"), fs.ErrExist)
		assert.DeepEqual(t, s.list("."), []string{"file", "full"})
		for _, name := range entryNames {
			s.ok(">" + shellquote.Quote("full/"+name))
			assert.NilError(t, s.Remove(ctx, "full/"+name))
		}
		assert.DeepEqual(t, s.list("full"), []string{"x"})
		for _, name := range []string{"", ".", "..", "/", "//", "full/.", "full/.."} {
			assert.ErrorIs(t, s.Remove(ctx, name), execpolicy.ErrInvalid, "%q", name)
		}
		s.ok("rm -rf full file")
	}},
	{name: "names are taken from where the session began", do: func(t *testing.T, s session) {
		ctx := t.Context()
		s.ok("mkdir elsewhere; cd elsewhere")
		assert.NilError(t, s.MkdirAll(ctx, "a", 0o755))
		assert.NilError(t, s.WriteFiles(ctx, ".", map[string][]byte{"a/b": []byte("x")}))
		_, err := s.Stat(ctx, "a/b")
		assert.NilError(t, err)
		assert.DeepEqual(t, s.list("a"), []string{"b"})
		assert.NilError(t, s.Remove(ctx, "a/b"))
		assert.Equal(t, s.ok("ls -A; cd ..; rmdir a elsewhere"), "")
	}},
	{name: "a directory that is missing is named", do: func(t *testing.T, s session) {
		ctx := t.Context()
		s.ok("mkdir there; >file")
		here := s.ok("pwd")
		for name, want := range map[string]string{
			"no/such/dir/file": "no", "there/no/dir/file": "there/no", here + "/there/no/x/": here + "/there/no",
			"/no/such": "/no", "there/./no/x": "there/./no",
		} {
			for _, size := range []int{0, 3, 100000} {
				err := s.WriteFile(ctx, strings.TrimRight(name, "/"), noise(size), 0o644)
				assert.ErrorIs(t, err, fs.ErrNotExist)
				assert.ErrorContains(t, err, fmt.Sprintf("the directory %q is missing; MkdirAll makes it", want))
			}
			err := s.CopyFS(ctx, name, sample())
			assert.ErrorIs(t, err, fs.ErrNotExist)
			assert.ErrorContains(t, err, fmt.Sprintf("the directory %q is missing; MkdirAll makes it", want))
		}
		s.ok("rm -rf there file")
	}},
}

func TestDirectories(t *testing.T) {
	supervisors(t, func(t *testing.T, p place, policy placePolicy) {
		policy.Limits, policy.Tmpfs = treeLimits(policy.Limits), nil
		runCases(t, policy, p.spec(), dirCases)
	})
}

func TestHostDirectories(t *testing.T) {
	hostWorkers(t, func(t *testing.T, command []string) {
		bystander(t)
		runCases(t, execpolicy.HostPolicy{Limits: treeLimits(hostLimits)}, execpolicy.Spec{Command: command}, dirCases)
	})
}

// All or nothing, also where a disk is full.
func TestWriteFilesOnAFullDisk(t *testing.T) {
	supervisors(t, func(t *testing.T, p place, policy placePolicy) {
		s := open(t, policy, p.spec())
		s.ok("mkdir /full/there; echo old >/full/there/a")
		for _, size := range []int{100000, 3 << 20} {
			err := s.WriteFiles(t.Context(), "/full/there/new/dir", map[string][]byte{"a": nil, "b/c": noise(size)})
			assert.ErrorIs(t, err, errnos["ENOSPC"])
			assert.DeepEqual(t, s.list("/full/there"), []string{"a"})
		}
		s.empty()
		assert.Equal(t, s.ok("cat /full/there/a"), "old")
	})
}

// What is written is recorded as a transfer, and no record and no error has a secret of
// its name.
func TestDirectoriesAreRecorded(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		var mu sync.Mutex
		var told []string
		spec := p.approving(func(context.Context, execpolicy.Request) error { return errPolicy })
		spec.Secrets = []execpolicy.Secret{{Name: "TOKEN", Value: "hunter2hunter2"}}
		spec.Audit = func(e execpolicy.Event) error {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == execpolicy.EventTransfer {
				told = append(told, e.Op+" "+e.Path)
			}
			assert.Check(t, !strings.Contains(fmt.Sprint(e), "hunter2"))
			return nil
		}
		s := open(t, p.policy(), spec)
		ctx := t.Context()
		const dir = "hunter2hunter2"
		_, statErr := s.Stat(ctx, dir)
		writeErr := s.WriteFile(ctx, dir+"/x/y", nil, 0o644)
		for _, err := range []error{statErr, writeErr} {
			assert.ErrorIs(t, err, fs.ErrNotExist)
			assert.ErrorContains(t, err, "[secret TOKEN]")
			assert.Assert(t, !strings.Contains(err.Error(), dir))
		}
		assert.NilError(t, s.MkdirAll(ctx, dir, 0o755))
		assert.NilError(t, s.WriteFiles(ctx, dir, map[string][]byte{"a": nil}))
		assert.DeepEqual(t, s.list(dir), []string{"a"})
		assert.NilError(t, s.Remove(ctx, dir+"/a"))
		mu.Lock()
		defer mu.Unlock()
		const shown = "[secret TOKEN]"
		assert.DeepEqual(t, told, []string{"stat " + shown, "write " + shown + "/x/y", "mkdir " + shown,
			"write files " + shown, "readdir " + shown, "remove " + shown + "/a"})
	})
}

// machine makes PATH lead to this machine's programs, one shell of its under the name of
// sh, and those programs in place of some.
func machine(t *testing.T, shell string, without ...string) (bin string) {
	t.Helper()
	bin = filepath.Join(t.TempDir(), "bin")
	assert.NilError(t, os.Mkdir(bin, 0o755))
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		programs, _ := os.ReadDir(dir)
		for _, program := range programs {
			if name := program.Name(); name != "sh" && !slices.Contains(without, name) {
				os.Symlink(filepath.Join(dir, name), filepath.Join(bin, name))
			}
		}
	}
	path, err := exec.LookPath(shell)
	if err != nil {
		leftout.Skip(t, "%v", err)
	}
	assert.NilError(t, os.Symlink(path, filepath.Join(bin, "sh")))
	t.Setenv("PATH", bin)
	return bin
}

// A program that the image does not have is named, and one that lies is not believed.
func TestProgramsThatAreMissingOrLie(t *testing.T) {
	for _, shell := range []string{"dash", "bash"} {
		t.Run(shell, func(t *testing.T) {
			enginetest.Check(t)
			bin := machine(t, shell, "stat", "find", "tar")
			limits := treeLimits(hostLimits)
			s := open(t, execpolicy.HostPolicy{Limits: limits}, execpolicy.Spec{})
			ctx := t.Context()
			_, statErr := s.Stat(ctx, ".")
			_, readErr := s.ReadDir(ctx, ".")
			for program, err := range map[string]error{"stat": statErr, "find": readErr,
				"tar": s.WriteFiles(ctx, "new/dir", map[string][]byte{"a": nil})} {
				assert.ErrorIs(t, err, execpolicy.ErrTransfer)
				assert.ErrorContains(t, err, fmt.Sprintf("the image has no program %q", program))
			}
			lie := func(program, says string) {
				assert.NilError(t, os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\n"+says+"\n"), 0o755))
			}
			for _, says := range []string{"echo hello", "printf '81a4 1 1'", "echo '81a4 1 1 ./../x'",
				"echo '81a4 1 1 ./a'; echo '81a4 1 1 ./a'", "echo '81a4 -1 1 ./a'",
				`printf '81a4 1 1 ./a\0b\n'`, "echo '81a4 1 1 /etc/passwd'", "echo 81a4 1 1 $$ ./a"} {
				lie("find", says)
				lie("stat", says)
				_, err := s.ReadDir(ctx, ".")
				assert.ErrorIs(t, err, execpolicy.ErrTransfer, says)
				_, err = s.Stat(ctx, ".")
				assert.Assert(t, errors.Is(err, execpolicy.ErrTransfer) || says == "printf '81a4 1 1'", "%s: %v", says, err)
			}
			for _, says := range []string{"exec yes '81a4 1 1 ./a'", "exec yes", "exec cat /dev/zero"} {
				lie("find", says)
				_, err := s.ReadDir(ctx, ".")
				assert.ErrorIs(t, err, execpolicy.ErrTooLarge, says)
			}
			assert.Equal(t, s.ok("ls -A"), "")
		})
	}
}
