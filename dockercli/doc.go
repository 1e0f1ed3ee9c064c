// Package dockercli drives the docker and podman programs, and nerdctl.
//
// [Find] and [Lookup] look for an engine, and ask it for what the rest needs to know.
// Each verb, such as run or pull, has a file of its own, with a pure function that turns
// typed arguments into an argument vector, and a method that runs it. The differences
// between the engines are one table, in dialect.go. What their error messages mean is
// another, in errors.go. The package knows flags. It does not know which container is
// safe: that is for package execpolicy.
//
// Every method that runs the client takes a context that bounds it. None adds a bound of
// its own, but for [Find], [Lookup] and [Engine.Probe]. A client whose context ends is
// asked to end, and killed half a second later.
//
// # Nerdctl
//
// [Find] takes nerdctl, containerd's client, only by its name, or where it is installed
// under the name docker. The package was tried with nerdctl 1.7.7 on containerd 1.6, as
// root, without a network and with control groups of version 1. These do not hold there:
//
//   - A container can't be both detached and removed at its end, and a user namespace can't
//     be asked for: such a run is refused. A container that is detached has a log on the
//     engine's disk.
//   - A client that is killed leaves its container in the engine, when that has ended.
//   - There are no events of the past, so that [Engine.OOMKilled] and [Engine.ExitCode]
//     fail with [errors.ErrUnsupported]. [Engine.InspectSettings] does too, and
//     [Engine.Inspect] does not know whether the container has its own process namespace.
//   - A capability that the engine does not know is left out with a warning.
//   - Nerdctl before 2 has no import. [Engine.Info] knows no runtimes.
//
// # Errors
//
// The error of a client that ran and failed is an [*Error]. It matches one of the
// sentinels, such as [ErrImageMissing], if the engine's message is known. These errors
// are not of that type:
//
//   - Arguments that this package refuses match [ErrArgument]. The client was not run.
//   - A client program that is not there matches [ErrNoEngine].
//   - Answers that can't be read, and what [Engine.OOMKilled] says of an engine that
//     can't tell, are errors with a text of their own.
package dockercli
