//go:build unix

package execpolicy

import (
	"io"
	"os"
	"sync"
)

// drawn is what was read of the system's randomness and not used: to open its source
// takes a tenth of the time of a short command.
var drawn struct {
	sync.Mutex
	all  [512]byte
	left []byte
}

// random fills b, which must be shorter than what is drawn at a time. Package crypto/rand
// would add 160 KB to a binary. Like it, this does not go on without randomness.
func random(b []byte) {
	drawn.Lock()
	defer drawn.Unlock()
	if len(drawn.left) < len(b) {
		f, err := os.Open("/dev/urandom")
		if err == nil {
			defer f.Close()
			_, err = io.ReadFull(f, drawn.all[:])
		}
		if err != nil {
			panic("cofferdam: the system has no source of randomness: " + err.Error())
		}
		drawn.left = drawn.all[:]
	}
	n := copy(b, drawn.left)
	clear(drawn.left[:n])
	drawn.left = drawn.left[n:]
}
