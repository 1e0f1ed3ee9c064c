//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "a cluster takes Linux")
	os.Exit(1)
}
