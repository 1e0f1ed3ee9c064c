//go:build !linux && (!darwin || ios)

package procgroup

// awaitExit returns false: here a child's end can't be awaited without reaping it.
func awaitExit(int) bool { return false }
