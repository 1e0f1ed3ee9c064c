// Package otel makes spans and metrics of OpenTelemetry out of what happens in sessions.
//
//	telemetry, err := otel.New(tracerProvider, meterProvider)
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
// in its span. A start that fails with nothing spawned is a span "session" without a
// length.
//
// A span has the status Error if a command did not exit with 0, if the call had an error,
// or if it is not known that nothing is left of a session. Every span is ended by the
// record that ends what it stands for, however that came about, at the time of that record.
// The span of a session that nobody has closed is not ended when the program exits.
//
// These attributes have the names of OpenTelemetry's semantic conventions:
//
//	attribute                  of                 what
//	container.name             session            the container's name
//	container.image.id         session            the image's ID, from the engine
//	process.command_args       session, command   the engine's command line without values of variables; a program
//	process.command_line       command, scripts   a script as it was given
//	process.working_directory  command            the directory, if one was given
//	process.exit.code          command            the exit code, if it exited
//	file.path                  transfer           the path as it was given
//	error.type                 all                the outcome of a command that did not exit, or did with another code than 0; "session_left", or "_OTHER"
//
// The others are the library's own:
//
//	attribute                        of                 what
//	cofferdam.outcome                command            as execpolicy.Outcome says it
//	cofferdam.signal                 command            the number of the signal, if one ended it
//	cofferdam.env                    session, command   the names of the variables that are set
//	cofferdam.secrets                session, command   the names of the secrets that are given
//	cofferdam.escalation             command, kill      the step: SIGTERM, SIGKILL, shell, container, removal
//	cofferdam.cause                  all, kill          why the library ended it, or did not begin it
//	cofferdam.gone                   command, session   nothing is left of what was ended
//	cofferdam.bytes_in, .bytes_out   all but session    of stdin and of output, or of content
//	cofferdam.oom_kills              command            how many processes the kernel killed for memory meanwhile, if any
//	cofferdam.cpu_seconds            command            the processor time, if it was asked for and is known
//	cofferdam.peak_memory            command            the container's peak of memory in bytes, likewise
//
// # Metrics
//
//	metric                            unit         attributes                           what
//	cofferdam.sessions                {session}                                         sessions that are there now (up-down counter)
//	cofferdam.session.start.duration  s                                                 from the spawn to the first answer (histogram)
//	cofferdam.session.duration        s            cofferdam.gone                       of sessions that have ended (histogram)
//	cofferdam.session.start.failures  {start}                                           starts that failed (counter)
//	cofferdam.operation.duration      s            cofferdam.operation, error.type      of commands, scripts and transfers (histogram)
//	cofferdam.operation.io            By           cofferdam.operation, .direction      bytes "in" and "out" (counter)
//	cofferdam.kills                   {kill}       cofferdam.escalation                 steps of escalations (counter)
//
// cofferdam.operation is the name of the span. No metric has an attribute whose values a
// caller or code inside could make many.
//
// # What is not shown
//
// Texts are kept up to [MaxText] bytes, and the words of a list together; bytes that are
// not UTF-8 become question marks. Values of [execpolicy.Secret] and of variables are shown nowhere,
// nor is stdin, the output or a file, but for what an error quotes of a script's stderr or
// of the engine's: see [execpolicy.Event]. A script and a program's arguments are shown. A
// caller whose traces may not have them removes them on their way: the Collector can.
package otel
