// Package doctor looks at the container engines of a machine: what each is, whether the
// library works with it, what is missing, and which command fixes that.
//
//	report, err := doctor.Examine(ctx, doctor.Options{})
//	if err == nil && !report.Works() {
//		fmt.Fprint(os.Stderr, report)
//	}
//
// [Examine] looks at each client that the machine has: what COFFERDAM_ENGINE names,
// docker, each context of docker's client, podman, each connection of podman's client,
// and nerdctl, which is used only if it is named. It asks each about itself, and then
// tries what a session needs: it starts one with the zero policy, or with EngineSeccomp
// for podman's service, runs a command, lets another run into its deadline, closes the
// session, and looks whether the container is gone. It pulls nothing. Where there is no
// image, it says so and starts nothing.
//
// [Options.Timeout] bounds the examination of each engine. What was started is removed.
// If that fails, the report names what may be left.
//
// What an engine says of itself is not always what a container has: package attest looks
// inside.
package doctor
