//go:build !linux

package container

// kill does nothing: no process 1 is ever found here.
func (FirstProcess) kill() {}
