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
