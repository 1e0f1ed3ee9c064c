//go:build unix

package random

import (
	"io"
	"os"
	"sync"
)

// unused is what was read of the system's randomness and not handed out: to open its
// source takes a tenth of the time of a short command.
var unused struct {
	sync.Mutex
	all  [512]byte
	left []byte
}

// fill fills b, which must be shorter than what is read at a time. Package crypto/rand
// would add 160 KB to a binary. Like it, this does not go on without randomness.
func fill(b []byte) {
	unused.Lock()
	defer unused.Unlock()
	if len(unused.left) < len(b) {
		f, err := os.Open("/dev/urandom")
		if err == nil {
			defer f.Close()
			_, err = io.ReadFull(f, unused.all[:])
		}
		if err != nil {
			panic("cofferdam: the system has no source of randomness: " + err.Error())
		}
		unused.left = unused.all[:]
	}
	n := copy(b, unused.left)
	clear(unused.left[:n])
	unused.left = unused.left[n:]
}
