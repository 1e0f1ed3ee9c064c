//go:build !linux

package fifo

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Ends are this program's ends of the FIFOs. There are none here: the kernel of a
// container is another one.
type Ends struct {
	Stdin, Ops     *os.File
	Stdout, Stderr io.ReadCloser
	Client         *os.File
	Janitor        *os.File
}

// New returns an error that wraps [ErrNotMade] and [errors.ErrUnsupported].
func New(string) (*Ends, error) {
	return nil, fmt.Errorf("%w: %w", ErrNotMade, errors.ErrUnsupported)
}

// Met returns nil.
func (*Ends) Met() <-chan struct{} { return nil }

// Over returns nil.
func (*Ends) Over() <-chan struct{} { return nil }

// Settle does nothing.
func (*Ends) Settle() {}

// More returns an error that wraps [ErrNotMade] and [errors.ErrUnsupported].
func (*Ends) More() (*Ends, error) { return New("") }

// Command returns nil.
func (*Ends) Command([]string) []string { return nil }

// Part does nothing.
func (*Ends) Part() {}

// Close does nothing.
func (*Ends) Close() {}
