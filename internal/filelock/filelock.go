// Package filelock locks open files against other programs. The kernel lets go of a lock
// when the program that holds it ends, however it ends.
//
// A lock belongs to an open file, so two that one program has opened exclude each other
// too. It is advisory: only those who ask for it are held up.
package filelock

import "os"

// Lock waits until nobody else has f locked, and locks it. The error matches
// [errors.ErrUnsupported] where the system or the file system has no such locks.
func Lock(f *os.File) error { return lock(f, exclusive) }

// RLock is Lock for one of many: it waits only for those that called Lock.
func RLock(f *os.File) error { return lock(f, shared) }

// TryLock is Lock, but fails at once if somebody else has f locked.
func TryLock(f *os.File) error { return lock(f, exclusiveNow) }

// Unlock lets go of the lock of f. Closing f does the same.
func Unlock(f *os.File) error { return unlock(f) }
