//go:build unix

package main

import (
	"fmt"
	"os"
	"syscall"
)

// owner returns the user and group of a file, or why they can't be told.
func owner(path string) string {
	info, err := os.Lstat(path)
	if err != nil {
		return err.Error()
	}
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d:%d", st.Uid, st.Gid)
}
