//go:build linux

package main

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/filelock"
)

// What a program left that was killed is removed, and what a running one has is not.
func TestReserve(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	cache := t.TempDir()
	left := filepath.Join(cache, "clusters", "left")
	used := filepath.Join(cache, "clusters", "used")
	for _, dir := range []string{left, used} {
		assert.NilError(t, os.MkdirAll(filepath.Join(dir, "pki"), 0o700))
	}
	lock, err := os.Create(filepath.Join(used, "lock"))
	assert.NilError(t, err)
	defer lock.Close()
	assert.NilError(t, filelock.Lock(lock))

	first, err := reserve(cache)
	assert.NilError(t, err)
	_, err = os.Stat(left)
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = os.Stat(filepath.Join(used, "pki"))
	assert.NilError(t, err)
	second, err := reserve(cache)
	assert.NilError(t, err)
	assert.Assert(t, first.dir != second.dir)
	_, err = os.Stat(first.dir)
	assert.NilError(t, err)

	assert.NilError(t, first.down())
	_, err = os.Stat(first.dir)
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = os.Stat(second.dir)
	assert.NilError(t, err)
	assert.NilError(t, second.down())
}
