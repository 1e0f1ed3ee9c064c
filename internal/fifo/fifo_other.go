//go:build !linux

package fifo

import (
	"errors"
	"io"
	"os"
)

// Ends are this program's ends of three FIFOs. There are none here: the kernel of a
// container is another one.
type Ends struct {
	Stdin          *os.File
	Stdout, Stderr io.ReadCloser
	Client         *os.File
	Janitor        *os.File
}

// New returns an error that wraps [errors.ErrUnsupported].
func New(string) (*Ends, error) { return nil, errors.ErrUnsupported }

// Met returns nil.
func (*Ends) Met() <-chan struct{} { return nil }

// Over returns nil.
func (*Ends) Over() <-chan struct{} { return nil }

// Part does nothing.
func (*Ends) Part() {}

// Close does nothing.
func (*Ends) Close() {}
