//go:build !linux

package execpolicy

// ended returns false: nothing here tells one boot of a machine from another, so no
// process number proves anything.
func ended(int, uint64) bool { return false }
