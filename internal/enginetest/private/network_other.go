//go:build !linux

package private

import "errors"

func (d *Daemon) inNetwork(func() error) error { return errors.ErrUnsupported }

func loopback() error { return errors.ErrUnsupported }
