package execpolicy

import (
	"cmp"
	"context"
	"io"
	"os"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/limits"
	"github.com/seed-64a260eb/cofferdam/internal/mountproof"
)

// A Policy knows how to spawn a command in isolation, and nothing else. Sessions,
// deadlines, outcomes and the rest are built on the [Process] that it returns, so they
// work the same over every policy.
type Policy interface {
	// Spawn starts spec.Command in isolation. ctx bounds the start only. The duties of an
	// implementation are:
	//
	//   - It checks the spec and returns all that is wrong in one error that wraps
	//     [ErrInvalid], before it starts anything. It refuses a spec with Secrets.
	//   - It fails if it can't give the isolation it promises, and never falls back to
	//     less.
	//   - It calls [Spec.RecordSpawn] before it starts anything, and returns its error
	//     unchanged.
	//   - If spec.Supervisor is set, it runs that in place of spec.Command, sets
	//     [Process.Worker] unless spec.Command is empty, and puts spec.Env into no
	//     argument list: the session sends it.
	//   - It gives the program a stdin that ends when [Process.Stdin] is closed, and when
	//     this program ends, however it does. That is what ends a session.
	//   - It sets OwnPIDNamespace only if it made the PID namespace, with spec.Supervisor
	//     as process 1: a session then kills all that it sees.
	//   - It shows spec.Workspace to the command, or refuses it. What it starts bears
	//     spec.Labels, if that can have labels.
	//   - It returns a Process whose Kill works from then on, or an error. If it returns
	//     an error, nothing that it has started is left.
	Spawn(ctx context.Context, spec Spec) (*Process, error)
}

// A Checker is a [Policy] that can say beforehand what its Spawn would refuse. [Start]
// calls Check, so that what is wrong with the policy is reported together with what is
// wrong with the spec and the command. If a Policy is not a Checker, Start reports what
// Spawn refuses once the rest is right.
type Checker interface {
	// Check returns the error with which Spawn would refuse the spec, or nil, without
	// starting anything. The error wraps [ErrInvalid] and says all that is wrong, or it
	// is another one that Spawn would return at once, such as that there is no engine.
	// ctx bounds the check.
	Check(ctx context.Context, spec Spec) error
}

// A WorkspacePolicy is a [Policy] that package execpolicy/workspace asks before it copies
// a directory into a session. Spawn can't be asked, because its spec has no workspace
// then. The package copies nothing for a Policy that is not a WorkspacePolicy. So a
// policy that wraps another has to have these methods too: a struct that embeds
// [DockerPolicy] has them, and one that embeds a Policy does not.
type WorkspacePolicy interface {
	Policy
	// CheckWorkspace returns why a directory of this machine must not be shown to a
	// session, or nil.
	CheckWorkspace(dir string) error
	// SavesWorkspace reports whether the changes that a session makes to its copy may be
	// saved to the directory.
	SavesWorkspace() bool
}

// A Spec says what to run.
type Spec struct {
	// Command is the program and its arguments. In a session it is the worker shell,
	// which must read a POSIX shell script from its stdin: sh, bash, dash or busybox sh.
	// If empty, a session starts bash where there is one, else sh. Without a session, the
	// policy's Spawn decides: [DockerPolicy] starts sh or, with [Compat], /bin/bash, and
	// [HostPolicy] bash where there is one, else sh.
	Command []string
	// Workspace is a directory of the host, which the command sees as its working
	// directory and may change. If empty, the session is ephemeral: it works in a
	// directory of its own that is gone with it, and nothing of the host is mounted.
	// [DockerPolicy.Mounts] says which directories are refused, and [DockerPolicy.User]
	// which user the command runs as.
	Workspace string
	// Env is the environment, on top of the image's. A session sends it over its stdin,
	// so that no value is in an argument list or in what the engine knows of the
	// container. Each name has to be one that a shell variable can have. It must not be
	// one that bash makes read-only: UID, EUID, PPID, BASHOPTS, SHELLOPTS or
	// BASH_VERSINFO. It must not be PWD or BASHPID, by which the shell tells where and
	// who it is, and it must not begin with "cf_", as the library's own do. HOME is /tmp
	// in a container, whatever the user's is in the image, unless Env has it.
	Env map[string]string
	// Secrets are values for the session's programs that nothing shows: not the argument
	// list, the engine, an error, or what commands print. Only a session can have them:
	// [Start] does not show them to the policy, and Spawn fails if there are any. All
	// commands of the session can use them, and so can Prepare, Finish and the scripts. A
	// shell that replaces another gets them anew.
	Secrets []Secret
	// Labels are put on the container in addition to the library's own, whose names begin
	// with "cofferdam.".
	Labels map[string]string
	// Startup holds scripts that run, each within [Limits.StartupTimeout], before a
	// session's first command, and again in each shell that replaces another. If one
	// fails, the start fails or, in a replacement, the command that needed the shell.
	Startup []string
	// Shutdown holds scripts that run, each within [Limits.CommandTimeout] (30 s if that
	// is negative), when a session is closed while its container lives. All of them run,
	// even if one fails.
	Shutdown []string
	// Prepare is called with a session when its shell answers, before its startup
	// scripts, at Start and again at Restart. So what it does inside is done before
	// anything else. Its context ends after [Limits.StartupTimeout], and then it must
	// return. An error fails the start. Prepare only borrows the session: Close and
	// Restart fail with an error that wraps [ErrInvalid], and after Prepare has returned
	// the session can't be used. If nil, nothing is called.
	Prepare func(ctx context.Context, s *Session) error
	// Finish is called with a session that is closed, after its shutdown scripts and
	// before its container ends. Its context ends after [Limits.CommandTimeout] (30 s if
	// that is negative), and then it must return. Its error is part of that of Close.
	// Finish borrows the session, as Prepare does. If the container has ended by itself,
	// Finish is still called, and the session's methods fail. Restart does not call it.
	// If nil, nothing is called.
	Finish func(ctx context.Context, s *Session) error
	// Filter, if not nil, is called once for each stream of each command, one call at a
	// time, and returns a writer for the stream. The library writes the stream to it,
	// after secrets were redacted. What the writer passes on to w is what is kept,
	// rendered and given to [Command.Stdout] and Stderr. It is closed when the command
	// has ended; what it writes to w then still counts as output of that command. The
	// method Writer of a redact.Redactor is such a function.
	//
	// The writer is used by one goroutine at a time. It must not wait for anything but w,
	// and must not use w after Close has returned. A writer that hangs blocks its session
	// for good: neither Run nor Close returns. One that panics ends the program.
	//
	// If the writer returns an error, the result has none of the command's output, and
	// the error of Run wraps [ErrBlocked] and the writer's. What passed before has
	// reached the command's writers.
	//
	// Stderr that an error quotes is filtered too: that of startup and shutdown scripts,
	// and what came while no command ran before a session ended. What is not a command's
	// output is not filtered: files, [Result.Dir], what the engine says of a container
	// that does not start, and what the library runs for itself, as package attest does.
	Filter func(w io.Writer) io.WriteCloser
	// Approve, if not nil, is asked before anything runs: once about each command of
	// [Session.Run] when its turn has come, about each job, and about each block, call
	// and snippet of packages codeblock and python. A nil error lets it run. Any other
	// error refuses it: it does not run, and the outcome is [OutcomeRefused], with a
	// cause that names r, and quotes its code if that has at most 100 bytes. A job that
	// is refused has no result. [Command.Timeout] begins when Approve has returned.
	//
	// Package tool also asks about files and about the input of jobs. Approve is not
	// asked about startup and shutdown scripts, Prepare, Finish and the session's own
	// methods for files, which are the caller's, nor about what the library runs for
	// itself, as before a block or a call.
	//
	// Approve runs on a goroutine of its own; a panic there ends the program. It must not
	// call a method of the same session that waits for its turn, which would wait for
	// Approve. It may call Close, and may use other sessions. ctx ends with that of Run,
	// and when the session is closed or its lifetime is over; an Approve that does not
	// return then is left behind.
	Approve func(ctx context.Context, r Request) error
	// Audit takes a record of all that happens in the session. Package execpolicy/audit
	// writes it down. If nil, there are no records.
	Audit Auditor
	// Limits, where they are not zero, replace the policy's for this session. A Lifetime
	// can only shorten the policy's. In a session that was started ahead it begins with
	// [Idle.Take]. Spawn does not read them.
	Limits Limits

	// Supervisor is set by [Start], and by nobody else. A policy must run it, if it is
	// set, in place of Command, and say in [Process.Worker] how to start the shell.
	Supervisor []string
	// auditor makes the records of the session. It is nil if there are none, and outside
	// of one.
	auditor *auditor
}

// Limits bound the time and the memory that commands take. A negative number means no
// limit, and zero the default, unless a field says otherwise.
type Limits struct {
	// CommandTimeout is how long a command may run before it is ended. If zero, 30 s.
	CommandTimeout time.Duration
	// StartupTimeout is how long a session's shell may take to run the library's first
	// script, with which it answers, not counting a pull of the image. Prepare, the
	// lookups of secrets and each startup script may each take as long again. If zero,
	// 30 s.
	StartupTimeout time.Duration
	// TerminationTimeout is how long the library may take to end a command or a session,
	// on top of every other deadline. If zero or negative, it is 10 s, and 30 s in a
	// policy of package kube: without a bound a call could hang. In [Spec.Limits] zero is
	// the policy's, and a negative one is 10 s.
	TerminationTimeout time.Duration
	// Lifetime is how long a session may live from the start of its container, or from
	// the end of [Process.Ready]; then the library ends it. If zero, 24 h. [Sweep]
	// removes a container some time after that, wherever it was started. Time in which
	// this machine sleeps does not count for a Lifetime on Linux, but for Sweep it does.
	Lifetime time.Duration
	// MaxOutputLines is the number of lines of output in [Result.Text], of both streams
	// together. If zero, 100.
	MaxOutputLines int
	// MaxOutputBytes is the number of bytes kept of each stream: one half from its
	// beginning, one from its end. If zero or negative, 1 MiB: memory is always bounded.
	// [Result.Text] has at most that many bytes of output, of both streams together.
	MaxOutputBytes int
	// MaxTreeEntries is the number of files and directories that one copy of a tree may
	// have. If zero, 100,000.
	MaxTreeEntries int64
	// MaxTreeBytes is the number of bytes that the files of one copy of a tree may have
	// together. If zero, 1 GiB.
	MaxTreeBytes int64
}

// The defaults of [Limits]: LangChain's, and for the bytes, of which it has no limit,
// what an agent's context can't hold anyway.
const (
	defaultCommandTimeout     = 30 * time.Second
	defaultStartupTimeout     = limits.StartupTimeout
	defaultTerminationTimeout = 10 * time.Second
	defaultLifetime           = limits.Lifetime
	defaultMaxOutputLines     = 100
	defaultMaxOutputBytes     = 1 << 20
	defaultMaxTreeEntries     = 100_000
	defaultMaxTreeBytes       = 1 << 30
)

func (l Limits) withDefaults() Limits {
	if l.CommandTimeout == 0 {
		l.CommandTimeout = defaultCommandTimeout
	}
	if l.StartupTimeout == 0 {
		l.StartupTimeout = defaultStartupTimeout
	}
	if l.TerminationTimeout <= 0 {
		l.TerminationTimeout = defaultTerminationTimeout
	}
	if l.Lifetime == 0 {
		l.Lifetime = defaultLifetime
	}
	if l.MaxOutputLines == 0 {
		l.MaxOutputLines = defaultMaxOutputLines
	}
	if l.MaxOutputBytes <= 0 {
		l.MaxOutputBytes = defaultMaxOutputBytes
	}
	if l.MaxTreeEntries == 0 {
		l.MaxTreeEntries = defaultMaxTreeEntries
	}
	if l.MaxTreeBytes == 0 {
		l.MaxTreeBytes = defaultMaxTreeBytes
	}
	return l
}

// with returns l with what is set in own in its place; but a Lifetime is never longer.
func (l Limits) with(own Limits) Limits {
	lifetime := l.Lifetime
	if own.Lifetime > 0 && (lifetime <= 0 || own.Lifetime < lifetime) {
		lifetime = own.Lifetime
	}
	return Limits{
		CommandTimeout:     cmp.Or(own.CommandTimeout, l.CommandTimeout),
		StartupTimeout:     cmp.Or(own.StartupTimeout, l.StartupTimeout),
		TerminationTimeout: cmp.Or(own.TerminationTimeout, l.TerminationTimeout),
		Lifetime:           lifetime,
		MaxOutputLines:     cmp.Or(own.MaxOutputLines, l.MaxOutputLines),
		MaxOutputBytes:     cmp.Or(own.MaxOutputBytes, l.MaxOutputBytes),
		MaxTreeEntries:     cmp.Or(own.MaxTreeEntries, l.MaxTreeEntries),
		MaxTreeBytes:       cmp.Or(own.MaxTreeBytes, l.MaxTreeBytes),
	}
}

// A Process is a spawned command, with all that a session needs to know of its policy. A
// policy sets Name, Stdin, Stdout, Stderr, Done, Kill, Limits and Scratch, and if the
// spec has a Supervisor also Worker, unless Command is empty. The other fields may be
// zero. A policy that isolates also sets OwnPIDNamespace, without which a session has no
// jobs, and ends only the process group of a command.
//
// A caller of Spawn must read Stdout and Stderr to their ends, and must call Kill, even
// after a normal end.
type Process struct {
	// Name is the name of what was started, such as that of a container.
	Name string
	// Engine says what runs the command, for results and errors. It may be empty.
	Engine string
	// Transport is what carries the streams of a container, for [Session.Transport].
	Transport Transport
	// Stdin, Stdout and Stderr are this program's ends of the command's streams. Closing
	// Stdin must end a Write to it that waits.
	Stdin          io.WriteCloser
	Stdout, Stderr io.ReadCloser
	// Done is closed when the spawned program has ended or, if the command outlives that
	// program, when the command has ended.
	Done <-chan struct{}
	// Kill ends the command and all that it started, from outside and by force, and frees
	// what the policy holds. It returns when it has made sure that nothing is left, or
	// when ctx ends. Its error says what is not known to be gone, and should wrap
	// [ErrStillThere]. A session calls Kill even after the program has ended, and may
	// call it again after an error.
	Kill func(ctx context.Context) error

	// Limits are the policy's.
	Limits Limits
	// OwnPIDNamespace says that the command is process 1 of a PID namespace that was made
	// for it. Only then does a session signal every process that it sees.
	OwnPIDNamespace bool
	// Worker is the command line of a session's shell: the spec's Command, with whatever
	// the policy puts before it. If empty, the session starts bash where there is one,
	// else sh.
	Worker []string
	// KeepAlive is how long the link may be silent before either end ends the session, as
	// [DockerPolicy.KeepAlive] says. It is for streams that a network carries, and is
	// used only if OwnPIDNamespace is set. If zero or negative, there is no such bound.
	KeepAlive time.Duration
	// Scratch is the name of a directory inside, for the session alone. The command can
	// write to it, and can run programs from it.
	Scratch string
	// Dir is where a session works. If empty, it is where the command was started.
	Dir string
	// DirWritable asks that the shell can write to Dir: if it can't, the start fails.
	DirWritable bool
	// Env holds variables that a session sets unless Spec.Env does.
	Env map[string]string
	// Ready, if not nil, waits until the command can answer, for example while it is
	// queued or its image is pulled. [Start] calls it once, before it writes to Stdin,
	// and reads Stdout and Stderr by then. Other sessions may start meanwhile, and
	// neither [Limits.StartupTimeout] nor [Limits.Lifetime] has begun. ctx ends with that
	// of Start, or when the program has ended; then Ready must return. An error fails the
	// start.
	Ready func(ctx context.Context) error
	// Answered is called when the command has answered, and may be called again later.
	// From the first call on, Done means that the command has ended. If nil, nothing is
	// called.
	Answered func()
	// ExitCode returns, once Done is closed, the exit status of the program or the
	// command that Done waits for, or -1 if there is none. If nil, the status is not
	// known.
	ExitCode func() int
	// Diagnose returns why the spawned program ended before its command answered, from
	// its exit status and what it printed: up to 4 KiB of its stderr or, if there is
	// nothing, of its stdout. It is not called if the program had to be killed. If
	// Diagnose is nil or returns nil, the error quotes what the program printed.
	Diagnose func(exitCode int, stderr []byte) error
	// Recover removes the cause of a start that failed before the command answered, for
	// example by pulling an image. If it returns nil, the session calls Spawn again, at
	// most twice in one start. If Recover can do nothing, it returns cause itself.
	Recover func(ctx context.Context, cause error) error
	// OOMKilled reports whether the kernel has killed processes of the command for memory
	// since a time, or ever if that is zero. known is false if nobody knows.
	OOMKilled func(ctx context.Context, since time.Time) (killed, known bool)
	// EndTold is how long after the end ExitCode and OOMKilled may need to tell how the
	// command has ended. A session that has ended by itself waits at least that long for
	// them, but no longer than half of [Limits.TerminationTimeout]. If zero, the session
	// chooses: a second, or less for a short TerminationTimeout.
	EndTold time.Duration
	// ReadableShell says that the kernel inside runs no program that can't be read, as
	// gVisor does. Then process 1 of a session can be read by code with the same user,
	// which can open its descriptors.
	ReadableShell bool
	// Exec starts one more command beside the first, as the same user and in the same
	// isolation, for [Session.StartJob]. The Process that it returns needs Stdin, Stdout,
	// Stderr and Kill. Its Kill frees what Exec holds outside, and the session ends what
	// runs inside. If the Process has ended before anything was heard of the command, and
	// has a Recover that returns nil, Exec is called again. Exec is called only if
	// OwnPIDNamespace is set and the command has answered, and may be called at the same
	// time. What it starts must have no parent inside. What an engine's exec starts has
	// none. If nil, the session has no jobs.
	Exec func(ctx context.Context, command []string) (*Process, error)
	// inside is, in a Process of Exec, what the session itself has to run inside so that
	// the command begins. It is nil if Exec has started it.
	inside []string
	// ImageID returns the ID of the image in which the command runs, for results and
	// records. The session calls it once, when the command has answered. If nil, there is
	// none.
	ImageID func(ctx context.Context) (string, error)

	mounted mountproof.Dir // what a session sees to before anything else runs
	// blocks writes to the command's descriptor 3. It is nil if the command has none.
	blocks *os.File
	// openWay opens the way out that the policy gives, when the command has answered and
	// before anything is run. record takes each connection. If nil, there is no way out.
	openWay func(record func(Event)) error
}
