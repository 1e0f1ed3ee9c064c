package enginetest

import (
	"io"
	"os"
	"testing"

	"gotest.tools/v3/assert"
)

// Printed returns what a function prints on the program's stdout.
func Printed(t *testing.T, run func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	assert.NilError(t, err)
	defer r.Close()
	stdout := os.Stdout
	os.Stdout = w
	defer func() { os.Stdout = stdout }()
	done := make(chan string)
	go func() {
		text, _ := io.ReadAll(r)
		done <- string(text)
	}()
	func() {
		defer w.Close()
		run()
	}()
	return <-done
}
