package account

import "io/fs"

// OwnerOf does not know: the engine's virtual machine gives mounted files to whoever
// asks.
func OwnerOf(fs.FileInfo) (owner Account, ok bool) { return Account{}, false }
