//go:build linux

package workspace_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/workspace"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
)

func archiveOf(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		h.ModTime, h.Format = time.Unix(1700000000, 0), tar.FormatGNU
		assert.NilError(t, w.WriteHeader(&h))
		if h.Size < 1<<30 {
			_, err := w.Write(bytes.Repeat([]byte("x"), int(h.Size)))
			assert.NilError(t, err)
		}
	}
	w.Close() // of what is never whole
	return b.Bytes()
}

// The image's tar may lie. The one of the tests' image is a part of its sh, so here one
// on the host does.
func TestTarThatLies(t *testing.T) {
	enginetest.Check(t)
	real, err := exec.LookPath("tar")
	assert.NilError(t, err)
	bin := t.TempDir()
	evil, endless := filepath.Join(bin, "evil"), filepath.Join(bin, "endless")
	assert.NilError(t, os.WriteFile(filepath.Join(bin, "tar"), fmt.Appendf(nil, `#!/bin/sh
case $1 in
-cf | -hcf) cat %[1]s; [ ! -e %[2]s ] || exec $(cat %[2]s) ;;
*) exec %[3]s "$@" ;;
esac
`, evil, endless, real), 0o755))
	dir := sample(t)
	spec := execpolicy.Spec{Workspace: dir, Env: map[string]string{"PATH": bin + ":" + os.Getenv("PATH")}}
	started, err := workspace.Start(t.Context(), execpolicy.HostPolicy{Limits: limits}, spec,
		workspace.Options{Mode: workspace.Copied, Discard: true})
	assert.NilError(t, err)
	defer started.Close()
	s := session{started, t, dir}
	file := func(name string, size int64) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644}
	}
	link := func(kind byte, name string) tar.Header {
		return tar.Header{Typeflag: kind, Name: name, Linkname: "file", Mode: 0o644}
	}
	many := make([]tar.Header, 301)
	for i := range many {
		many[i] = file(string(rune('a'+i/20))+string(rune('a'+i%20)), 0)
	}
	good := archiveOf(t, file("new", 3))
	outside := filepath.Join(filepath.Dir(s.dir), "outside")
	for name, c := range map[string]struct {
		data []byte
		want error
		some bool // the rest is saved
	}{
		"dots": {archiveOf(t, file("new", 3), file("../outside", 3)), execpolicy.ErrUnsafeName, false},
		"dots in a directory": {archiveOf(t, file("new", 3), file("sub/../../outside", 3)),
			execpolicy.ErrUnsafeName, false},
		"absolute": {archiveOf(t, file("new", 3), file(outside, 3)), execpolicy.ErrUnsafeName, false},
		"a link with dots": {archiveOf(t, file("new", 3), link(tar.TypeSymlink, "../outside")),
			execpolicy.ErrUnsafeName, false},
		"twice": {archiveOf(t, file("new", 3), file("./new", 3)), execpolicy.ErrDuplicateName, false},
		"a link and a file": {archiveOf(t, file("new", 3), link(tar.TypeSymlink, "twice"), file("twice", 3)),
			execpolicy.ErrDuplicateName, false},
		"in a link": {archiveOf(t, file("new", 3), link(tar.TypeSymlink, "link"),
			file("link/outside", 3)), execpolicy.ErrDuplicateName, false},
		"in a file":  {archiveOf(t, file("new", 3), file("new/file", 3)), execpolicy.ErrDuplicateName, false},
		"too many":   {archiveOf(t, many...), execpolicy.ErrTooLarge, false},
		"too large":  {archiveOf(t, file("new", 3), file("large", 25<<20)), execpolicy.ErrTooLarge, false},
		"cut off":    {good[:512+2], execpolicy.ErrArchive, false},
		"no archive": {[]byte("hello"), execpolicy.ErrArchive, false},
		"nothing":    {nil, execpolicy.ErrArchive, false},
		"a device": {archiveOf(t, file("new", 3), link(tar.TypeChar, "dev"),
			link(tar.TypeBlock, "blk")), execpolicy.ErrUnsafeType, true},
		"a hard link": {archiveOf(t, file("new", 3), link(tar.TypeLink, "hard")),
			execpolicy.ErrUnsafeType, true},
		"in another's directory": {archiveOf(t, file("new", 3), file("others/file", 3)), workspace.ErrConflict, true},
		"in another's that it names": {archiveOf(t, file("new", 3),
			tar.Header{Typeflag: tar.TypeDir, Name: "others/", Mode: 0o755}, file("others/file", 3)),
			workspace.ErrConflict, true},
		"no directory of it":    {archiveOf(t, file("new", 3), file("nowhere/file", 3)), workspace.ErrConflict, true},
		"a stage of somebody's": {archiveOf(t, file("new", 3), file(".cofferdam-x", 3)), nil, true},
	} {
		os.Remove(filepath.Join(s.dir, "new"))
		os.Remove(filepath.Join(s.dir, ".cofferdam-x"))
		assert.NilError(t, os.WriteFile(evil, c.data, 0o644))
		// It was not there when the workspace was copied in.
		assert.NilError(t, os.Mkdir(filepath.Join(s.dir, "others"), 0o755))
		before := tree(t, s.dir, "new")
		for range 2 {
			// The second is of one that was saved, or refused, before.
			saved, err := s.Save(t.Context())
			if c.want != nil {
				assert.ErrorIs(t, err, c.want, name)
			} else {
				assert.NilError(t, err, name)
				os.Remove(filepath.Join(s.dir, ".cofferdam-x"))
			}
			if !c.some {
				assert.Equal(t, len(saved), 0, name)
			}
			s.clean()
		}
		after := tree(t, s.dir, "new")
		assert.DeepEqual(t, after, before)
		_, err := os.Lstat(filepath.Join(s.dir, "new"))
		assert.Equal(t, err == nil, c.some, name)
		_, err = os.Lstat(outside)
		assert.ErrorIs(t, err, os.ErrNotExist, name)
		// Artifacts of it are refused too, and so it is with the rest if that matches.
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		assert.NilError(t, err)
		_, err = workspace.CollectTo(t.Context(), s.Session.Session, ".", root, wanted("**"))
		root.Close()
		if c.want != nil && c.want != workspace.ErrConflict {
			assert.Assert(t, errors.Is(err, c.want) || errors.Is(err, execpolicy.ErrUnsafeType), "%s: %v", name, err)
			assert.Equal(t, len(tree(t, dir, "")), 0, name)
		} else {
			assert.NilError(t, err, name)
		}
		os.Remove(filepath.Join(s.dir, "new"))
		assert.NilError(t, os.Remove(filepath.Join(s.dir, "others")))
		assert.NilError(t, s.Restart(t.Context()))
	}
	// In place of one file no other is taken.
	assert.NilError(t, os.WriteFile(evil, good, 0o644))
	var archive bytes.Buffer
	assert.ErrorIs(t, s.CopyOut(t.Context(), "file", &archive), execpolicy.ErrTransfer)
	assert.Equal(t, archive.Len(), 0)
	// One without an end is bounded by the limits, and in time. Here it has a quarter of
	// a second to end before the session does.
	assert.NilError(t, os.WriteFile(endless, []byte("cat /dev/zero"), 0o644))
	places.Eventually(t, func() string {
		assert.NilError(t, s.Restart(t.Context()))
		assert.NilError(t, os.WriteFile(evil, archiveOf(t, file("endless", 1<<20))[:512], 0o644))
		_, collectErr := workspace.Collect(t.Context(), s.Session.Session, ".",
			workspace.CollectOptions{Patterns: []string{"**"}, MaxBytes: 1 << 10})
		assert.NilError(t, os.WriteFile(evil, archiveOf(t, file("endless", 1<<40))[:512], 0o644))
		_, saveErr := s.Save(t.Context())
		s.clean()
		if err := errors.Join(collectErr, saveErr); errors.Is(err, execpolicy.ErrEnded) {
			return err.Error()
		}
		assert.ErrorIs(t, collectErr, execpolicy.ErrTooLarge)
		assert.ErrorIs(t, saveErr, execpolicy.ErrTooLarge)
		assert.Equal(t, s.ok("echo on"), "on")
		return ""
	})

	// A cancel in the midst of a file leaves nothing of it.
	assert.NilError(t, os.WriteFile(endless, []byte("sleep 4797"), 0o644))
	assert.NilError(t, os.WriteFile(evil, archiveOf(t, file("new", 4<<20))[:2<<20], 0o644))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if found, _ := filepath.Glob(filepath.Join(s.dir, ".cofferdam-*")); len(found) > 0 {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	saved, err := s.Save(ctx)
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, len(saved), 0)
	s.clean()
	_, err = os.Lstat(filepath.Join(s.dir, "new"))
	assert.ErrorIs(t, err, os.ErrNotExist)

	// One that does not come to an end keeps no Close from it.
	assert.NilError(t, os.WriteFile(endless, []byte("sleep 4796"), 0o644))
	l := limits
	l.CommandTimeout = time.Second
	var slow *workspace.Session
	places.Eventually(t, func() string {
		slow, err = workspace.Start(t.Context(), execpolicy.HostPolicy{Limits: l}, spec, copied)
		if errors.Is(err, execpolicy.ErrTimeout) {
			// The copy has that time too.
			return err.Error()
		}
		assert.NilError(t, err)
		return ""
	})
	assert.ErrorIs(t, slow.Close(), context.DeadlineExceeded)
	<-slow.Done()
	s.clean()
}

// What can't be saved or collected is named without the secrets in its name.
func TestSecretInTheNameOfAFile(t *testing.T) {
	enginetest.Check(t)
	const secret = "secret-name-3917"
	spec := execpolicy.Spec{Workspace: t.TempDir(), Secrets: []execpolicy.Secret{{Name: "TOKEN", Value: secret}}}
	s, err := workspace.Start(t.Context(), execpolicy.HostPolicy{Limits: limits}, spec,
		workspace.Options{Mode: workspace.Copied, Discard: true})
	assert.NilError(t, err)
	defer s.Close()
	_, err = s.Run(t.Context(), execpolicy.Command{Script: `ln -s x "$TOKEN"`})
	assert.NilError(t, err)
	_, saveErr := s.Save(t.Context())
	_, collectErr := workspace.Collect(t.Context(), s.Session, ".", workspace.CollectOptions{Patterns: []string{"*"}})
	root, err := os.OpenRoot(t.TempDir())
	assert.NilError(t, err)
	defer root.Close()
	assert.NilError(t, root.Mkdir(secret, 0o700))
	_, err = s.Run(t.Context(), execpolicy.Command{Script: `rm "$TOKEN"; >"$TOKEN"`})
	assert.NilError(t, err)
	_, toErr := workspace.CollectTo(t.Context(), s.Session, ".", root, workspace.CollectOptions{Patterns: []string{"*"}})
	for _, err := range []error{saveErr, collectErr, toErr} {
		assert.ErrorIs(t, err, execpolicy.ErrUnsafeType)
		assert.Assert(t, strings.Contains(err.Error(), "[secret TOKEN]") && !strings.Contains(err.Error(), "3917"), "%v", err)
	}
}
