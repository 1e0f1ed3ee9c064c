//go:build linux

package main

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
)

func TestScratchModule(t *testing.T) {
	theirs := golden.Get(t, "go.mod.theirs")
	golden.Assert(t, string(scratchModule(theirs)), "go.mod.scratch")
}

func TestArchive(t *testing.T) {
	dir := t.TempDir()
	layer, to := filepath.Join(dir, "layer"), filepath.Join(dir, "image")
	assert.NilError(t, os.WriteFile(layer, []byte("not really a layer"), 0o600))
	config := imageConfig{Entrypoint: []string{"/pause"}}
	assert.NilError(t, archive(to, layer, "localhost/pause:1", config))
	file, err := os.Open(to)
	assert.NilError(t, err)
	defer file.Close()
	got := map[string]string{}
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if err == io.EOF {
			break
		}
		assert.NilError(t, err)
		content, err := io.ReadAll(r)
		assert.NilError(t, err)
		got[header.Name] = string(content)
	}
	assert.Equal(t, got["layer.tar"], "not really a layer")
	golden.Assert(t, got["manifest.json"]+"\n", "manifest.json")
	described := strings.ReplaceAll(got["config.json"], runtime.GOARCH, "ARCH")
	golden.Assert(t, described+"\n", "config.json")
}

// What is not made to its end is not there, and what an earlier run left does not matter.
func TestKeep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "thing")
	assert.NilError(t, os.Mkdir(path+".new", 0o700))
	halfway := errors.New("halfway")
	err := keep(t.Context(), path, func(_ context.Context, to string) error {
		assert.NilError(t, os.WriteFile(to, nil, 0o600))
		return halfway
	})
	assert.ErrorIs(t, err, halfway)
	entries, err := os.ReadDir(filepath.Dir(path))
	assert.NilError(t, err)
	assert.Equal(t, len(entries), 0)
	assert.NilError(t, keep(t.Context(), path, func(_ context.Context, to string) error {
		return os.WriteFile(to, []byte("whole"), 0o600)
	}))
	content, err := os.ReadFile(path)
	assert.NilError(t, err)
	assert.Equal(t, string(content), "whole")
}

func TestCacheDir(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir, err := cacheDir()
	assert.NilError(t, err)
	info, err := os.Stat(dir)
	assert.NilError(t, err)
	assert.Equal(t, info.Mode().Perm(), os.FileMode(0o700))
	t.Setenv("XDG_CACHE_HOME", "/var/lib/somewhere")
	_, err = cacheDir()
	assert.ErrorContains(t, err, "set XDG_CACHE_HOME")
}
