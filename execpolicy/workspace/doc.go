// Package workspace copies a directory of the host into a session and back, and collects
// the files that commands have made.
//
//	spec := execpolicy.Spec{Workspace: "/srv/project"}
//	s, err := workspace.Start(ctx, execpolicy.DockerPolicy{}, spec, workspace.Options{Mode: workspace.Copied})
//	r, err := s.Run(ctx, execpolicy.Command{Script: "make"})
//	changes, err := s.Save(ctx)
//
// [Start] is [execpolicy.Start] for a directory that may have to be copied. If the engine
// can mount the directory, Start does that. If it can't, because the engine may run on
// another machine or because the directory is root's, or if the caller asks for a copy,
// Start copies the directory into the session's own, /workspace, before the startup
// scripts run. [Session.Changes] lists what has changed in the copy, and [Session.Save]
// copies the changes to the host. Close saves once more, after the shutdown scripts. An
// ephemeral workspace needs none of this: start a session without a workspace.
//
// [Collect] reads the files that match patterns from any session, into a file system in
// memory. [CollectTo] writes them to a directory of the host.
//
// # What is safe
//
// The code inside can do to its tree what it likes, and the image's tar can print what it
// likes about it. The library uses the host's directory through an [os.Root]. So it reads
// and writes nothing outside of it. It makes no link, device or FIFO there, follows no
// link out of the directory, deletes no file, and replaces a file only if that is still
// as it was when it was copied in. A file gets its name when it is whole.
//
// The content of a file can still do harm later: a hook in .git, a Makefile, a script
// that somebody runs on the host. [Options.Exclude] keeps such names from being copied,
// in and out. What the code inside has deleted stays on the host: the library lists it,
// and the caller may delete it.
//
// A copy in memory counts against [execpolicy.DockerPolicy.MemoryBytes]. It can be as
// large as Tmpfs says for /workspace, which is 64 MiB by default. [execpolicy.Limits]
// bounds the entries and the bytes of a tree, and the time: the shorter of StartupTimeout
// and CommandTimeout for the copy in, CommandTimeout for a copy out. While a tree is read
// nothing else runs inside, so that all of it is of one moment.
package workspace
