package execpolicy

import "crypto/rand"

// random fills b.
func random(b []byte) { rand.Read(b) }
