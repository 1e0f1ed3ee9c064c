package random

import "crypto/rand"

// fill fills b.
func fill(b []byte) { rand.Read(b) }
