//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "fault: what a program leaves behind is seen on Linux only")
	os.Exit(1)
}
