package private

// RemoveCgroups removes what is left of a daemon whose program was killed.
func RemoveCgroups(dir string) error { return removeCgroups(cgroupOf(dir)) }
