//go:build !linux

package container

import (
	"errors"
	"os"
)

var errNoNamespaces = errors.New("this system has no network namespaces of containers")

// MayListen returns why this program could not listen inside of containers.
func MayListen() error { return errNoNamespaces }

// Listen fails.
func (c *Container) Listen(int) (*os.File, error) { return nil, errNoNamespaces }
