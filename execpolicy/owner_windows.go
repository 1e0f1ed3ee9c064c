package execpolicy

import "io/fs"

// ownerOf returns nobody: the engine's virtual machine gives mounted files to whoever asks.
func ownerOf(fs.FileInfo) string { return nobody }
