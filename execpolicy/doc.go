// Package execpolicy runs commands that nobody trusts.
//
// A [Policy] spawns a command in isolation: [DockerPolicy] in a locked-down container of docker or podman, [HostPolicy] on the host
// with no isolation at all. [Start] opens a [Session] on it, a persistent shell whose commands have deadlines, bounded output and
// honest outcomes; [Run] runs a single command.
//
// # What is promised
//
// Under a policy that isolates, and while the engine answers: nothing that was started survives Close, a deadline, a cancel, a panic or
// a SIGKILL of this program. Every call returns by its deadline plus [Limits.TerminationTimeout]. Memory is bounded by the limits,
// whatever is printed. Streams are exact and apart. What ended a command is told from evidence and never from an exit code or a text.
//
// # What is not
//
// A container shares the host's kernel: it is no boundary against a bug in that. Code inside can lie about itself: it can print what it
// likes and fake its own exit status. One session is one level of trust: whatever ran in it can read, delay and fake what runs in it
// later, secrets included. Work whose status or secrets matter gets a session of its own.
//
// # Secrets
//
// A [Secret] goes to the session's shell through its stdin, and from there into the environment of its programs, or into a file that they
// read. It is in no argument list, neither in what the engine knows of the container, nor in its log, nor on its disk, unless a program
// writes it there. In what commands print, and in results and errors, "[secret NAME]" takes its place, wherever the output was cut in
// pieces, and before a [Spec.Filter], a caller's writer or a result has any of it. That holds for as long as the session is used, Restart
// included, for the secrets of its commands too.
//
// What is found is the value as it is, less the white space around it, and as shells, Go, JSON, Python and JavaScript quote it; and of a
// value of more than one line also each line of at least 8 bytes. A program that encodes it, reverses it or prints a part of it shows it. So
// this is for what is printed in good faith, and no guard against a program that means to get a value out: that must have no way out, or no
// secret.
//
// A secret that is given to a command is given to its session: what ran before may wait for it, in a background job or in a shell function,
// it stands in /proc/PID/environ, and what a command leaves in files stays there. What is in files that are read, and what they and those
// in an archive are named, is not redacted: it is the caller's, who has [Session.Conceal]. So are the errors of the caller's functions.
// What packages codeblock and python return as a value is redacted.
//
// # Files
//
// Files are sent and fetched through the session's own pipes, so whatever its commands see is seen: tmpfs, a read-only root, another
// machine's engine. The methods that do it take their turn as commands do. All of them:
//
//   - run as the session's user, beside its shell: neither its variables, functions, aliases nor limits matter;
//   - end at the latest [Limits.TerminationTimeout] after [Limits.CommandTimeout], counted from when the turn has come, or after ctx ends;
//   - take a name that is not absolute from the directory where the session began, wherever its shell is now;
//   - stop everything else inside while they work there, so that what they read or replace is of one moment, but not under a [HostPolicy],
//     where what background jobs print meanwhile makes a ReadFile fail;
//   - leave no half file under its final name, and nothing else behind, if they fail or are cut off while the container lives. If the
//     container itself ends meanwhile, what was begun in a mounted directory stays there, under a name that begins with ".cofferdam-".
package execpolicy
