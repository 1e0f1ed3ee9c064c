//go:build !linux

package main

import "runtime"

// watchMemory returns a function that says how many more bytes the runtime has got from
// the system since. It gives none back, so that this is the peak.
func watchMemory() (growth func() int64) {
	sys := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.Sys)
	}
	before := sys()
	return func() int64 { return sys() - before }
}
