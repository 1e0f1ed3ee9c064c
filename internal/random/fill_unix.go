//go:build unix

package random

import (
	"io"
	"math/rand/v2"
	"os"
	"sync"
)

// source is the system's randomness.
var source = "/dev/urandom"

// unused is what was read of the source and not handed out: to open it takes a tenth of
// the time of a short command.
var unused struct {
	sync.Mutex
	all  [512]byte
	left []byte
	seed [32]byte // what was read with it, and is never handed out
}

// renew makes the next bytes be read of the source.
func renew() {
	unused.Lock()
	defer unused.Unlock()
	unused.left = nil
}

// fill fills b, which must be shorter than what is read at a time. Package crypto/rand
// would add 160 KB to a binary.
func fill(b []byte) {
	unused.Lock()
	defer unused.Unlock()
	if len(unused.left) < len(b) {
		if err := read(unused.all[:]); err != nil {
			// A program may have no descriptor left to open it with. Go's runtime has
			// drawn a seed of its own when the program began.
			for i := range unused.seed {
				unused.seed[i] ^= byte(rand.Uint32())
			}
			rand.NewChaCha8(unused.seed).Read(unused.all[:])
		}
		n := copy(unused.seed[:], unused.all[:])
		unused.left = unused.all[n:]
	}
	n := copy(b, unused.left)
	clear(unused.left[:n])
	unused.left = unused.left[n:]
}

func read(b []byte) error {
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.ReadFull(f, b)
	return err
}
