package workspace

import "io/fs"

// dontWait is of Unix.
const dontWait = 0

// ownerOf says that files belong to who makes them.
func ownerOf(fs.FileInfo) (uid, gid int, ok bool) { return 0, 0, false }
