//go:build !linux

package hostproc

import "os"

// removeAll removes a directory with all that is in it. It does not look for mounts:
// nothing is spawned on the host here.
func removeAll(name string) error { return os.RemoveAll(name) }
