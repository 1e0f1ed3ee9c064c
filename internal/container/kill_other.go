//go:build !linux

package container

import "context"

// kill and favor do nothing: no process 1 is ever found here.
func (FirstProcess) kill(context.Context) {}
func (FirstProcess) favor()               {}
