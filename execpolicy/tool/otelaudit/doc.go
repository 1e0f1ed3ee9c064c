// Package otelaudit makes spans and metrics of OpenTelemetry out of what happens in
// sessions.
//
//	telemetry, err := otelaudit.New(tracerProvider, meterProvider)
//	...
//	spec := execpolicy.Spec{Audit: telemetry.Auditor(ctx)}
//	s, err := execpolicy.Start(ctx, policy, spec)
//
// # Spans
//
// A session is a span, from its spawn to its end, within the span of the context that
// Auditor was given. What is done in it are spans within that one: "command", "job",
// "startup" and "shutdown" for scripts, and the operations of [execpolicy.Event] for
// transfers. Each step by which something but a job is ended by force is an event "kill"
// in its span. A connection through [execpolicy.DockerPolicy.Egress] is an event "egress"
// in the session's span, unless its record comes after the session's end. A start that
// fails with nothing spawned is a span "session" without a length.
//
// A span has the status Error if a command did not exit with 0, if the call had an error,
// or if it is not known that nothing is left of a session. Every span is ended by the
// record that ends what it stands for, however that came about, at the time of that
// record. The span of a session that nobody has closed is not ended when the program
// exits.
//
// These attributes have the names of OpenTelemetry's semantic conventions:
//
//	attribute                  of                what
//	container.name             session           the container's name
//	container.image.id         session           the image's ID, from the engine
//	process.command_args       session, command  the engine's, or the program's
//	process.command_line       command, scripts  a script as it was given
//	process.working_directory  command           the directory, if one was given
//	process.exit.code          command           the exit code, if it exited
//	file.path                  transfer          the path as it was given
//	error.type                 all               what went wrong
//
// The arguments of a session are the engine's command line, without values of variables.
// error.type is the outcome of a command that did not exit, did with another code than 0,
// or whose call had an error; "session_left"; or "_OTHER".
//
// The others are the library's own. What is said of a command holds for a job too:
//
//	attribute              of                what
//	cofferdam.transport    session           what carries the streams: attach or fifo
//	cofferdam.target       egress            the host and port that a program asked for
//	cofferdam.addr         egress            the address that was connected to
//	cofferdam.refused      egress            why there was no connection
//	cofferdam.outcome      command           as execpolicy.Outcome says it
//	cofferdam.signal       command           the number of the signal, if one ended it
//	cofferdam.env          session, command  the names of the variables that are set
//	cofferdam.secrets      session, command  the names of the secrets that are given
//	cofferdam.escalation   command, kill     the step, as execpolicy.Escalation says it
//	cofferdam.cause        all, kill         why it was ended, or was not begun
//	cofferdam.gone         command, session  nothing is left of what was ended
//	cofferdam.bytes_in     all but session   of stdin, or of content
//	cofferdam.bytes_out    all but session   of output, or of content
//	cofferdam.oom_kills    command           processes killed for memory, if any
//	cofferdam.cpu_seconds  command           if it was asked for and is known
//	cofferdam.peak_memory  command           of the container in bytes, likewise
//
// # Metrics
//
//	metric                            unit       attributes
//	cofferdam.sessions                {session}
//	cofferdam.session.start.duration  s
//	cofferdam.session.duration        s          cofferdam.gone
//	cofferdam.session.start.failures  {start}
//	cofferdam.operation.duration      s          cofferdam.operation, error.type
//	cofferdam.operation.io            By         cofferdam.operation, cofferdam.direction
//	cofferdam.kills                   {kill}     cofferdam.escalation
//
// The first is an up-down counter of the sessions that are there now. Those in seconds
// are histograms: from the spawn to the first answer; of the life of sessions that have
// ended; and of commands, jobs, scripts and transfers. The others are counters: of tries
// to start that failed, of which a start that has to pull its image has one; of bytes,
// whose direction is "in" or "out"; and of steps of escalations.
//
// cofferdam.operation is the name of the span. No metric has an attribute whose values a
// caller or code inside could make many.
//
// # What is not shown
//
// Texts are kept up to [MaxText] bytes, and the words of a list together; bytes that are
// not UTF-8 become question marks. Values of [execpolicy.Secret] and of variables are
// shown nowhere, nor is stdin, the output or a file, but for the code of a block, a call
// or a snippet, and for what an error quotes of a script's stderr or of the engine's: see
// [execpolicy.Event]. A script and a program's arguments are shown. If traces must not
// have them, remove them on the way, as the Collector can.
package otelaudit
