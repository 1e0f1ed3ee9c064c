package execpolicy

import "io/fs"

// ownerOf does not know: the engine's virtual machine gives mounted files to whoever
// asks.
func ownerOf(fs.FileInfo) (owner account, ok bool) { return account{}, false }
