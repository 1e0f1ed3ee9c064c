// Package attest shows which protections of a container are in force.
//
// What a policy asks for is not always what a container has: engines drop limits that
// they can't set, with a warning at most, and an extra flag can switch a protection off.
// [Start] opens a session only if everything that is required is in force, and looks
// before any command has run that nobody trusts. [Check] looks at a session that runs.
// Both give a [Report], a table that marshals to JSON and can be kept.
//
// # The evidence
//
// Each protection is looked at from both sides.
//
// From inside, over the session's own pipes and mostly with builtins of its shell: the
// capabilities, the flag against new privileges, the filter of system calls, the user,
// the mounts and their flags, what can be written to, the network's links and routes, the
// limits of the control group in either version, the processes, the devices, what is
// hidden in /proc, and whether process 1 can be opened. Where the shell is bash, or
// Python is there, it also tries to send a datagram to 192.0.2.1, an address that is
// nobody's.
//
// The filter of system calls is tried with what the image has: chmod makes a file of its
// own set-uid, unshare a user namespace, renice or nice lowers a priority, Python begins
// with io_uring. Each is refused, allowed or not tried. Of these the library's own filter
// allows none; if one is allowed, it is not in force. What the engine's filter or a
// caller's allows is told, and not judged.
//
// From outside, by the engine's inspect: what it says it has applied. Docker tells the
// text of a filter that it was given, which is compared with what was sent. Podman tells
// only where its client has read it.
//
// A protection is in force if it is seen from inside and the engine does not say
// otherwise. What can't be seen from inside is unknown, and is not enough where it is
// required.
//
// Whatever only AllowUnsafeArgs has let in is a weakness. The report names each such
// flag, without its value, in the row "no unsafe arguments", which is then not in force:
// not every effect of a flag can be seen, and nobody knows those of flags to come. So
// [Start] fails unless [Options] requires the other protections by name. Of their effects
// the report also tells, in that row or in another's: core dumps, a memory limit that
// kills nothing, the host's users, a switched off AppArmor or SELinux, root's group, IPC
// that other containers may join, another filter of system calls. That row goes by the
// policy: a [Check] by another than the session's sees the effects alone. A harmless
// flag, such as --hostname, is not named. A control group namespace of the host's is the
// engines' own choice on version 1 of control groups, and no weakness there unless it is
// asked for.
//
// What is asked for follows from the policy's fields. So what an extra argument of the
// engine weakens is missed, and so are the parts of the zero policy that
// [execpolicy.Compat] does without. Paths of the host that are there unasked are named
// too, also those that the engine or the image brings: an image's volumes, the
// /run/secrets of some hosts, the libraries of a GPU.
//
// # What it does not show
//
// What is seen from inside is what the image's shell says, through the kernel's files. An
// image whose shell lies can fake all of it, and so can what ran in the session before a
// [Check]: only [Start] looks while nothing but the image's shell has run. What the
// engine says is its word. An attestation that holds against an image that nobody trusts
// takes a look from the host, which an engine on another machine does not allow. And
// nothing here looks for bugs in the kernel.
//
// gVisor keeps process 1 neither unreadable nor from being stopped, shows no limits, and
// reads no filter of system calls: there the lifeline, the limits and a filter that is
// not the engine's are not seen to be in force, the report names the guard process on the
// host as the second line, and who uses it names in [Options] what is required. That is
// how gVisor is known to be: attest itself has not been tried on it, nor with control
// groups of version 2.
//
// # Weak engines
//
// A report names published ways out of a container, by the versions that the engine
// reports of its parts; see [Weaknesses]. Distributions fix them without another number,
// so that is a warning unless [Options.RefuseWeakEngine] is set.
package attest
