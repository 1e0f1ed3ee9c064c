// Package dockercli drives the docker and podman programs.
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
