// Package workspace copies a directory of the host into a session and back, and collects
// what its commands have made.
//
// [Start] is [execpolicy.Start] for a directory that may have to be copied: where the
// engine can mount it that is what is done, and where it can't, because it may run on
// another machine or because the directory is root's, or where a copy is asked for, it is
// copied into the session's own directory, /workspace, before the startup scripts.
// [Session.Changes] lists what is another there since, [Session.Save] copies it out, and
// Close saves once more, behind the shutdown scripts. An ephemeral workspace needs none
// of this: it is an [execpolicy.Spec] without one.
//
// [Collect] takes the files that match patterns out of any session, as a file system, and
// [CollectTo] into a directory.
//
// # What is safe
//
// The code inside can make of its tree what it likes, and the image's tar can tell of it
// what it likes. On the host only an [os.Root] is read and written, so nothing outside of
// the directory is. No link, device or fifo is ever made, none is followed out of the
// directory, no file is deleted, and none is replaced that is not as it was when it was
// copied in. A file gets its name when it is whole.
//
// What is in a file can do harm later all the same: a hook in .git, a Makefile, a script
// that is run on the host. Options.Exclude keeps such names out of both ways. And what
// the code inside has deleted stays on the host: it is listed, and for the caller to
// delete.
//
// A copy in memory counts against [execpolicy.DockerPolicy.MemoryBytes], and has the size
// that Tmpfs has for /workspace, 64 MiB by default. [execpolicy.Limits] bounds a tree, in
// its entries and its bytes, and the time: StartupTimeout for the copy in, CommandTimeout
// for one out. While a tree is read nothing else runs inside, so that all of it is of one
// moment.
package workspace
