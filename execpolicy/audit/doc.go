// Package audit writes down all that happens in sessions, as structured records of
// log/slog.
//
//	log, err := audit.File("audit.jsonl")
//	...
//	defer log.Close()
//	who := []slog.Attr{slog.String("user", "ada"), slog.String("agent", "reviewer")}
//	record := audit.To(slog.NewJSONHandler(log, nil).WithAttrs(who))
//	s, err := execpolicy.Start(ctx, policy, execpolicy.Spec{Audit: record})
//
// The message of a record is the kind of its event, its level is Info, and its time is
// when it happened. An attribute is left out if it is empty, is a count of no bytes, or
// is not known. The names below will not change:
//
//	attribute     type     in                   what
//	host          text     all                  the machine
//	uid, pid      integer  all                  the user, -1 on Windows, and the process of
//	                                            this program
//	session       text     all                  the container's name, anew for each spawn
//	seq           integer  all                  counts a session's records from 1, the
//	                                            spawn or the taking; a gap is a loss. Those
//	                                            of egress are counted apart, and may come
//	                                            later than others
//	of            integer  result, transferred  the seq of the record to which it belongs
//	policy        text     spawn                the digest of what isolates: see below
//	argv          texts    spawn, command       the engine's command line without values of
//	                                            variables; a program
//	image         text     start                the image's ID, from the engine
//	transport     text     start                what carries the streams: attach or fifo
//	op            text     command, transfer    startup, shutdown or job; the operation:
//	                                            see execpolicy.Event
//	script, dir   text     command              as they were given; the code of a block, a
//	                                            call or a snippet
//	path          text     transfer             as it was given
//	target        text     egress               the host and port that a program asked for
//	addr          text     egress               the address that was connected to
//	env           texts    start, command       the names of the variables that are set
//	secrets       texts    start, command       the names of the secrets that are given
//	seconds       number   start, result,       how long it took; at the end, how long the
//	                       transferred,         session lived
//	                       egress, end
//	bytes_in,     integer  result,              of stdin and of output, of content, or of a
//	bytes_out              transferred, egress  tunnel
//	outcome       text     result               exited, signaled, timed out, canceled, out
//	                                            of memory, output limit, session lost,
//	                                            refused
//	exit          integer  result               the exit code, if the outcome is exited
//	signal        integer  result               its number, if the outcome is signaled
//	escalation    text     result, kill         SIGTERM, SIGKILL, shell, container, removal
//	oom_before,   integer  result               how many processes the kernel had killed
//	oom_after                                   for memory
//	cpu_seconds   number   result               the processor time, if it was asked for
//	peak_before,  integer  result               the container's peak of memory in bytes, if
//	peak_after                                  it was asked for
//	gone          boolean  result, end          nothing is left of what was ended
//	cause         text     result, kill, end    why the library ended it, or did not begin
//	                                            it
//	error         text     all                  that of the call
//
// The policy's digest is the first half of the SHA-256, in hexadecimal digits, of the
// command line, with a NUL byte after each word. What differs from one container to the
// next is left out: its name, and the library's labels of who started it and when. So two
// starts of one policy by one engine have the same digest. Every other word counts: to
// mount another directory of the host changes the digest. The values of variables do not,
// as the command line is recorded without them. Nor does what only the library knows,
// such as its time limits. The digest of a pod is that of the command line with the pod's
// manifest, without the pod's name, those labels, and a user ID of those that are drawn,
// which are 1879048192 and more. The digest of a HostPolicy is that of its shell's
// command line, which has its limits.
//
// A text, and the words of a list together, are kept up to [MaxText] bytes. If there are
// more, an attribute of that name with "_bytes" after it has their number. An engine's
// command line is always whole. No record holds a value of a variable, or anything of
// stdin, of the output or of a file, except the code of a block, a call or a snippet, and
// what an error quotes of a script's stderr or of the engine's. Values of
// [execpolicy.Secret] are shown nowhere. A secret that the library was not told of is
// recorded with the script or the argument that has it.
//
// A command or a transfer without a result was under way when the program ended. There is
// no record of its kill and its end either: the container ends by itself.
package audit
