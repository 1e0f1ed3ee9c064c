// Package dockercli drives the docker and podman programs, and nerdctl.
//
// [Find] and [Lookup] look for an engine, and ask it what the other functions need to
// know. Each verb, such as run or pull, is a method of [Engine]. Typed arguments become
// an argument vector, and an engine's error message becomes one of the errors below. This
// package builds command lines and runs them. Package execpolicy decides what is safe.
//
//	engine, err := dockercli.Find(ctx)
//	if err != nil {
//		return err
//	}
//	fmt.Println(engine) // such as "docker 28.2.2 (/usr/bin/docker)"
//
// Every method that runs the client takes a context that bounds it. No bound comes on top
// of that, except in [Find], [Lookup] and [Engine.Probe]. A client whose context ends is
// asked to end, and killed half a second later.
//
// # Nerdctl
//
// [Find] takes nerdctl, containerd's client, only if COFFERDAM_ENGINE names it, or if it
// is installed under the name docker. The package was tried with nerdctl 1.7.7 on
// containerd 1.6, as root, without a network and with cgroup v1. It differs in this:
//
//   - A container can't be both detached and removed at its end, and a user namespace
//     can't be asked for: such a run is refused. A container that is detached has a log
//     on the engine's disk.
//   - If a client is killed, its container stays in the engine after its end.
//   - Past events are not kept. So [Engine.OOMKilled] and [Engine.ExitCode] fail with
//     [errors.ErrUnsupported]. [Engine.InspectSettings] does too, and [Engine.Inspect]
//     does not know whether the container has its own PID namespace.
//   - A capability that the engine does not know is left out with a warning.
//   - Nerdctl before 2 has no import. [Engine.Info] knows no runtimes.
//
// # Errors
//
// The error of a client that ran and failed is an [*Error]. It matches one of the
// sentinels, such as [ErrImageMissing], if the engine's message is known. These errors
// are not of that type:
//
//   - The error for an argument that this package refuses matches [ErrArgument]. The
//     client was not run, or was only asked a question.
//   - The error of a client program that is missing matches [ErrNoEngine]. The error for
//     what an engine can't tell matches [errors.ErrUnsupported].
//   - An answer that can't be read is an error with a text of its own.
//   - Errors of this package's own may match a sentinel too, as that of
//     [Engine.InspectVolume] for a name that is only the beginning of another's. So use
//     [errors.Is] for sentinels.
package dockercli
