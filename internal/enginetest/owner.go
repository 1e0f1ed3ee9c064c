package enginetest

import (
	"os"
	"testing"
)

// The user and the group that root's tests give directories to: nobody's in particular.
const (
	UID = 4711
	GID = 4712
)

// OrdinaryDir returns a temporary directory that belongs to an ordinary user: this one
// or, if this is root, another.
func OrdinaryDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	GiveAway(t, dir)
	return dir
}

// GiveAway gives a file or a directory of root's to an ordinary user, if this is root.
func GiveAway(t testing.TB, name string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chown(name, UID, GID); err != nil {
		t.Fatal(err)
	}
}
