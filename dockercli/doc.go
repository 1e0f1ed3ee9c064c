// Package dockercli drives the docker and podman programs.
//
// [Find] and [Lookup] look for an engine and learn what must be known of it. Each verb
// has a file of its own: a pure function that turns typed arguments into an argument
// vector, and a method that runs it. What differs between the engines is one table, what
// their error messages mean is another. The package knows flags and holds no policy:
// which container is safe is not its concern.
//
// Every method that runs the client takes a context that bounds it; none adds a bound of
// its own, but for [Find] and [Lookup]. A client whose context ends is asked to end, and
// killed half a second later. Errors are of type [*Error] and match one of the sentinels,
// such as [ErrImageMissing], where the engine's words allow to tell.
package dockercli
