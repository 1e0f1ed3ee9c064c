package workspace

import "io/fs"

// ownerOf says that files belong to who makes them.
func ownerOf(fs.FileInfo) (uid, gid int, ok bool) { return 0, 0, false }
