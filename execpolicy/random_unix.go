//go:build unix

package execpolicy

import (
	"io"
	"os"
)

// random fills b. Package crypto/rand would add 160 KB to a binary. Like it, this does not go on without randomness.
func random(b []byte) {
	f, err := os.Open("/dev/urandom")
	if err == nil {
		defer f.Close()
		_, err = io.ReadFull(f, b)
	}
	if err != nil {
		panic("cofferdam: the system has no source of randomness: " + err.Error())
	}
}
