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
package execpolicy
