// Package random draws names that nobody can guess.
package random

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
