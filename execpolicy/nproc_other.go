//go:build !linux

package execpolicy

// maxProcesses returns a limit that every machine which runs containers allows.
func maxProcesses() uint64 { return minProcesses }
