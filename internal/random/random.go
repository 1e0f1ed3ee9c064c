// Package random draws names that nobody can guess.
package random

// Fresh is [Token] of what the system has drawn now. What is drawn in a copy of the
// machine, as of one snapshot that is started twice, is something else.
func Fresh() string {
	renew()
	return Token()
}

// Token returns 26 letters and digits that nobody can guess: 130 bits.
func Token() string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	var b [26]byte
	fill(b[:])
	for i := range b {
		b[i] = alphabet[b[i]%32]
	}
	return string(b[:])
}
